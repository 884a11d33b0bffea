#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/marked_text.h"

namespace vernier::byte_alphabet {

/// GPT-2's spelling of bytes by printable characters: the character for a byte, and back.
char32_t character(unsigned char byte);
std::optional<unsigned char> byte(char32_t character);

std::string spell(std::string_view bytes);
/// Appends the spelling of source[begin, end).
void spell(MarkedWriter& writer, std::string_view source, size_t begin, size_t end);
/// The bytes of a spelling; nothing where a character is not of the alphabet.
std::optional<std::string> read(std::string_view spelling);

}  // namespace vernier::byte_alphabet
