#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vernier::jinja {

/// What Python's str methods know of a code point; the bits of kTraitRuns.
struct CharacterTraits {
  uint32_t bits = 0;

  bool is_alpha() const { return bits & 1; }
  bool is_numeric() const { return (bits >> 1 & 3) >= 1; }
  bool is_digit() const { return (bits >> 1 & 3) >= 2; }
  bool is_decimal() const { return (bits >> 1 & 3) == 3; }
  bool is_lower() const { return (bits >> 3 & 3) == 1; }
  bool is_upper() const { return (bits >> 3 & 3) == 2; }
  bool is_title() const { return (bits >> 3 & 3) == 3; }
  bool is_cased() const { return (bits >> 3 & 3) != 0; }
  bool is_printable() const { return bits >> 5 & 1; }
  bool starts_identifier() const { return (bits >> 6 & 3) == 2; }
  bool continues_identifier() const { return (bits >> 6 & 3) >= 1; }
  bool is_case_ignorable() const { return bits >> 8 & 1; }
};

CharacterTraits traits_of(uint32_t code);

/// str.isspace() of one character; the same set as \s of a Python regular expression.
bool is_space(uint32_t code);

/// A character after which str.splitlines() breaks.
bool is_line_break(uint32_t code);

enum class CaseMapping : uint8_t { kUpper, kLower, kTitle, kFold };

/// Appends the full mapping of one character, without regard to its neighbours.
void append_mapped(std::string& out, uint32_t code, CaseMapping mapping);

/// str.upper(), str.lower() (with the final sigma) or str.casefold().
std::string map_case(std::string_view text, CaseMapping mapping);

/// Appends lower(code), where `before` and `after` decide which small sigma it is.
void append_lower_in_context(std::string& out, uint32_t code, std::string_view before, std::string_view after);

/// The code point at `position`, which moves past it. Bytes that are not UTF-8 count as one code point each; a lone
/// surrogate may stand in three bytes, as Python's strings can hold one.
uint32_t next_code(std::string_view text, size_t& position);

/// Moves `position` back to the start of the code point before it.
void step_back(std::string_view text, size_t& position);

void append_code(std::string& out, uint32_t code);

size_t count_codes(std::string_view text);

}  // namespace vernier::jinja
