#pragma once

#include "text/jinja_interpreter.h"

namespace vernier::jinja {

/// reversed(value) of Python; null where it would fail.
IteratorObject* reversed_iterator(Interpreter& in, const Value& value);

/// A generator over another iterable: `step` reads as much of it as it likes and gives one element or ends. The source
/// is asked for on first use, since errors in Python come that late too.
struct GeneratorObject : IteratorObject {
  using Step = std::function<bool(Interpreter&, IteratorObject& source, Value& out)>;

  GeneratorObject(Value input, bool skip_falsy, Step step)
      : input(std::move(input)), skip_falsy(skip_falsy), step(std::move(step)) {}
  bool next(Interpreter& in, Value& out) override;

  Value input;
  bool skip_falsy;  ///< an input that is false counts as empty, iterable or not
  Step step;
  IteratorObject* source = nullptr;
  bool done = false;
};

Value make_generator(Interpreter& in, const Value& input, bool skip_falsy, GeneratorObject::Step step);

}  // namespace vernier::jinja
