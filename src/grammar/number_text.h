#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace vernier {

/// The bounds of a number in a schema, as decimal texts; no `e` form is lost to rounding.
struct NumberBounds {
  std::optional<std::string> minimum = {}, maximum = {}, exclusive_minimum = {}, exclusive_maximum = {};
  bool any() const { return minimum || maximum || exclusive_minimum || exclusive_maximum; }
};

/// GBNF for the integers within bounds, of at most 18 digits, without leading zeros or a fraction.
Result<std::string> gbnf_integer(const NumberBounds& bounds);
/// GBNF for the numbers within bounds: below 10^12, with at most six digits after the point and no exponent. A text
/// apart from a bound is then apart from it as a double too, so an exclusive bound is exact.
Result<std::string> gbnf_bounded_number(const NumberBounds& bounds);

}  // namespace vernier
