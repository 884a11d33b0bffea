#pragma once

#include <string_view>

#include "text/jinja_value.h"

namespace vernier::jinja {

/// A built-in filter or method. `parameters` names what follows the input, "old new count?": a question mark makes one
/// optional, it then arrives missing; "*" stands for "takes what comes" and goes to `variadic`.
struct Filter {
  const char* name;
  const char* parameters;
  Value (*plain)(Interpreter& in, const Value& input, const Value* arguments) = nullptr;
  Value (*variadic)(Interpreter& in, const Value& input, Arguments& arguments) = nullptr;
};

struct Test {
  const char* name;
  const char* parameters;
  bool (*plain)(Interpreter& in, const Value& input, const Value* arguments);
};

/// Null if there is none.
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);

}  // namespace vernier::jinja
