#pragma once

#include <string>

#include "text/jinja_interpreter.h"

namespace vernier::jinja {

/// The digits of |value|.
std::string digits_of(WideInteger value, unsigned base, bool capital);
/// The digits of |value| in one of printf's types e, f, g.
std::string float_digits(double value, char type, int precision, bool alternate);

}  // namespace vernier::jinja
