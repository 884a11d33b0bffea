// An activation has one owner: its memory is given back once, and what was moved away is not used again unseen.
#include "ops/value.h"

namespace vernier {

int64_t keep(Value value);

int64_t use(Value value, Value other) {
#ifndef VERNIER_MISUSE
  other = std::move(value);
  return keep(std::move(other));
#elif VERNIER_MISUSE == 1
  Value copy = value;  // expect-error: use of deleted function
  return keep(std::move(copy)) + keep(std::move(other));
#elif VERNIER_MISUSE == 2
  other = value;  // expect-error: use of deleted function
  return keep(std::move(other));
#elif VERNIER_MISUSE == 3
  return keep(value) + keep(std::move(other));  // expect-error: use of deleted function
#endif
}

}  // namespace vernier
