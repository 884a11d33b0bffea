#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vernier {

/// One code point of valid UTF-8 and the bytes that it takes.
struct DecodedCodePoint {
  char32_t value;
  uint32_t size_bytes;
};

/// The code point at `at` of valid UTF-8 (TEXT-1: text is made valid once, at the edge; nothing below checks again).
inline DecodedCodePoint decode_utf8(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[at + i])); };
  uint32_t lead = byte(0);
  if (lead < 0x80) return {static_cast<char32_t>(lead), 1};
  if (lead < 0xE0) return {static_cast<char32_t>((lead & 0x1F) << 6 | (byte(1) & 0x3F)), 2};
  if (lead < 0xF0) {
    return {static_cast<char32_t>((lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F)), 3};
  }
  return {
      static_cast<char32_t>((lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F)),
      4};
}

/// Bytes of the character that starts with `lead`, in valid UTF-8.
inline size_t utf8_size(char lead) {
  auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

inline bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// The start of the character that ends just before `at` (at > 0), in valid UTF-8.
inline size_t previous_utf8(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && is_utf8_continuation(text[at]));
  return at;
}

void append_utf8(std::string& out, char32_t code_point);
std::string to_utf8(char32_t code_point);

/// What the bytes at `at` are: a whole character; a maximal part of one that is bad; or the beginning of one that the
/// end of the text cuts off.
enum class Utf8Kind { kWhole, kBad, kCutOff };
struct Utf8Span {
  Utf8Kind kind;
  uint32_t size_bytes;
};
Utf8Span scan_utf8(std::string_view bytes, size_t at);

bool is_valid_utf8(std::string_view bytes);

/// The text with U+FFFD for each maximal bad part.
std::string replace_bad_utf8(std::string_view bytes);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace vernier
