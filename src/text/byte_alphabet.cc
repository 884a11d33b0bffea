#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace vernier::byte_alphabet {
namespace {

struct Tables {
  std::array<char32_t, 256> character;
  std::array<int16_t, 0x144> byte;
  std::array<std::string, 256> spelling;

  Tables() {
    byte.fill(-1);
    char32_t spare = 0x100;
    for (int b = 0; b < 256; ++b) {
      bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      char32_t c = printable ? static_cast<char32_t>(b) : spare++;
      character[static_cast<size_t>(b)] = c;
      byte[c] = static_cast<int16_t>(b);
      spelling[static_cast<size_t>(b)] = to_utf8(c);
    }
  }
};

const Tables& tables() {
  static const Tables instance;
  return instance;
}

}  // namespace

char32_t character(unsigned char byte) {
  return tables().character[byte];
}

std::optional<unsigned char> byte(char32_t character) {
  if (character >= tables().byte.size() || tables().byte[character] < 0) return std::nullopt;
  return static_cast<unsigned char>(tables().byte[character]);
}

std::string spell(std::string_view bytes) {
  std::string out;
  for (char c : bytes) out += tables().spelling[static_cast<unsigned char>(c)];
  return out;
}

void spell(MarkedWriter& writer, std::string_view source, size_t begin, size_t end) {
  size_t copied = begin;
  for (size_t i = begin; i < end; ++i) {
    auto byte = static_cast<unsigned char>(source[i]);
    if (byte > 0x20 && byte < 0x7F) continue;  // spells itself
    writer.copy(copied, i);
    writer.put(i, i + 1, tables().spelling[byte]);
    copied = i + 1;
  }
  writer.copy(copied, end);
}

std::optional<std::string> read(std::string_view spelling) {
  std::string out;
  for (size_t at = 0; at < spelling.size();) {
    DecodedCodePoint c = decode_utf8(spelling, at);
    std::optional<unsigned char> value = byte(c.value);
    if (!value) return std::nullopt;
    out.push_back(static_cast<char>(*value));
    at += c.size_bytes;
  }
  return out;
}

}  // namespace vernier::byte_alphabet
