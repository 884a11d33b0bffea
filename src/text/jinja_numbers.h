#pragma once

#include <string>

#include "text/jinja_interpreter.h"

namespace vernier::jinja {

/// The digits of |value|.
std::string digits_of(WideInteger value, unsigned base, bool capital);
/// The digits of |value| in one of printf's types e, f, g.
std::string float_digits(double value, char type, int precision, bool alternate);

/// What a format may ask for at most: Python goes further and runs out of memory there.
inline constexpr int64_t kMaxFormatWidth = 2'000'000'000, kMaxFormatPrecision = 10'000;

}  // namespace vernier::jinja
