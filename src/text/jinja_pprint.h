#pragma once

#include "text/jinja_interpreter.h"

namespace vernier::jinja {

/// The filter pprint: repr with sorted keys, broken into lines of 80 characters.
Value pretty_print(Interpreter& in, const Value& input, const Value* arguments);

}  // namespace vernier::jinja
