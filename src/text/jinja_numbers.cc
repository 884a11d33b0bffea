#include <cmath>
#include <cstdlib>

#include "text/jinja_interpreter.h"
#include "text/jinja_unicode.h"

// int(text) and float(text) of Python.
namespace vernier::jinja {
namespace {

/// Without white space around and with underscores between digits gone; false if one stands elsewhere.
bool clean(std::string_view text, std::string& out) {
  size_t begin = 0, end = text.size();
  while (begin < end) {
    size_t next = begin;
    if (!is_space(next_code(text, next))) break;
    begin = next;
  }
  while (end > begin) {
    size_t start = end;
    step_back(text, start);
    size_t next = start;
    if (!is_space(next_code(text, next))) break;
    end = start;
  }
  text = text.substr(begin, end - begin);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
      continue;
    }
    if (i == 0 || i + 1 == text.size() || !std::isalnum(static_cast<uint8_t>(text[i - 1])) ||
        !std::isalnum(static_cast<uint8_t>(text[i + 1]))) {
      return false;
    }
  }
  return !out.empty();
}

}  // namespace

bool parse_float(std::string_view text, double& value) {
  std::string cleaned;
  if (!clean(text, cleaned)) return false;
  std::string lower = map_case(cleaned, CaseMapping::kLower);
  const size_t sign = lower[0] == '+' || lower[0] == '-' ? 1 : 0;
  const std::string rest = lower.substr(sign);
  const bool word = rest == "inf" || rest == "infinity" || rest == "nan";
  if (!word && rest.find_first_not_of("0123456789.e+-") != std::string::npos) return false;
  if (rest.empty()) return false;
  char* end = nullptr;
  value = std::strtod(lower.c_str(), &end);
  return end == lower.c_str() + lower.size();
}

bool parse_integer(std::string_view text, int base, WideInteger& value) {
  std::string cleaned;
  if (!clean(text, cleaned)) return false;
  size_t at = cleaned[0] == '+' || cleaned[0] == '-' ? 1 : 0;
  const bool negative = cleaned[0] == '-';
  const auto prefix = [&](char letter) {
    return cleaned.size() > at + 2 && cleaned[at] == '0' && (cleaned[at + 1] | 0x20) == letter;
  };
  const int prefixed = prefix('x') ? 16 : prefix('o') ? 8 : prefix('b') ? 2 : 10;
  const bool guessed = base == 0;
  if (guessed) base = prefixed;
  if (prefixed == base && base != 10) at += 2;
  if (at >= cleaned.size()) return false;
  // As a literal, a decimal number does not start with a zero.
  if (guessed && base == 10 && cleaned[at] == '0' && cleaned.find_first_not_of('0', at) != std::string::npos)
    return false;
  value = 0;
  for (; at < cleaned.size(); ++at) {
    const char c = cleaned[at];
    const int lower = c | 0x20;
    const int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
    if (digit >= base) return false;
    if (__builtin_mul_overflow(value, WideInteger{base}, &value) ||
        __builtin_add_overflow(value, WideInteger{digit}, &value)) {
      fail("an integer of this template needs more than 127 bits");
    }
  }
  if (negative) value = -value;
  return true;
}

}  // namespace vernier::jinja
