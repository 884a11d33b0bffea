#include "text/utf8.h"

#include <cstring>

namespace vernier {
namespace {

/// Length of the ASCII stretch at `at`, eight bytes at a time.
size_t skip_ascii(std::string_view bytes, size_t at) {
  while (at + 8 <= bytes.size()) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    if ((word & 0x8080808080808080ull) != 0) break;
    at += 8;
  }
  while (at < bytes.size() && static_cast<unsigned char>(bytes[at]) < 0x80) ++at;
  return at;
}

}  // namespace

void append_utf8(std::string& out, char32_t code_point) {
  auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  uint32_t c = code_point;
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::string to_utf8(char32_t code_point) {
  std::string out;
  append_utf8(out, code_point);
  return out;
}

Utf8Span scan_utf8(std::string_view bytes, size_t at) {
  auto lead = static_cast<unsigned char>(bytes[at]);
  if (lead < 0x80) return {Utf8Kind::kWhole, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Kind::kBad, 1};
  // The second byte's range rules out overlong forms, surrogates and values above U+10FFFF.
  unsigned low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  uint32_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (uint32_t i = 1; i < size; ++i) {
    if (at + i >= bytes.size()) return {Utf8Kind::kCutOff, i};
    auto byte = static_cast<unsigned char>(bytes[at + i]);
    if (byte < low || byte > high) return {Utf8Kind::kBad, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Kind::kWhole, size};
}

bool is_valid_utf8(std::string_view bytes) {
  size_t at = skip_ascii(bytes, 0);
  while (at < bytes.size()) {
    Utf8Span span = scan_utf8(bytes, at);
    if (span.kind != Utf8Kind::kWhole) return false;
    at = skip_ascii(bytes, at + span.size_bytes);
  }
  return true;
}

std::string replace_bad_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  size_t at = 0;
  while (at < bytes.size()) {
    Utf8Span span = scan_utf8(bytes, at);
    out.append(span.kind == Utf8Kind::kWhole ? bytes.substr(at, span.size_bytes) : kReplacementCharacter);
    at += span.size_bytes;
  }
  return out;
}

}  // namespace vernier
