#pragma once

#include "text/jinja_interpreter.h"

namespace vernier::jinja {

/// The variable `loop`. Reads its iterable one element ahead only when it is asked for what comes next.
struct LoopObject : NativeObject {
  Value iterable;
  IteratorObject* iterator = nullptr;
  const Statement* recursive = nullptr;  ///< null: cannot be called
  Scope* scope = nullptr;                ///< around the loop
  int64_t depth0 = 0;
  int64_t index0 = -1;
  int64_t known_length = -1;
  Value before, current, after;
  bool peeked = false, ended = false, asked_changed = false;
  Value last_changed;

  const char* type() const override { return "LoopContext"; }
  std::string repr(Interpreter& in) const override;
  Value call(Interpreter& in, Arguments& arguments) override;
  Value attribute(Interpreter& in, std::string_view name) override;

  bool advance(Interpreter& in);
  bool peek(Interpreter& in);
  int64_t length(Interpreter& in);
};

}  // namespace vernier::jinja
