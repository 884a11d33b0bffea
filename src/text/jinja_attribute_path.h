#pragma once

#include <vector>

#include "text/jinja_interpreter.h"

namespace vernier::jinja {

/// What filters take as `attribute`: names and indices joined by dots, looked up one after the other.
class AttributePath {
 public:
  /// none or missing: the element itself.
  AttributePath(Interpreter& in, const Value& attribute);
  /// `otherwise` replaces what is undefined, unless it is missing or none.
  Value get(Interpreter& in, Value element, const Value& otherwise = {}) const;

 private:
  std::vector<Value> parts_;
};

/// The lower case of a string unless case matters; anything else as it is.
Value fold_case(Interpreter& in, const Value& value, bool case_sensitive);

bool flag(const Value& argument);  ///< truth of an optional argument

}  // namespace vernier::jinja
