// An unreduced sum and a shard are no whole activation: only a reduction makes a Value of a Partial.
#include "ops/ops.h"

namespace vernier {

Value use(Ops& ops, Partial partial, Shard shard, Value value, const Norm& norm) {
  (void)shard, (void)value, (void)norm;
#ifndef VERNIER_MISUSE
  Value sum = ops.reduce_add(std::move(partial), std::move(value));
  return ops.rms_norm(sum, norm);
#elif VERNIER_MISUSE == 1
  return ops.rms_norm(partial, norm);  // expect-error: invalid initialization of reference
#elif VERNIER_MISUSE == 2
  return ops.rms_norm(shard, norm);  // expect-error: invalid initialization of reference
#elif VERNIER_MISUSE == 3
  return Value(std::move(partial));  // expect-error: no matching function for call to
#elif VERNIER_MISUSE == 4
  return ops.add(std::move(value), std::move(partial));  // expect-error: could not convert
#elif VERNIER_MISUSE == 5
  return ops.add(std::move(shard), std::move(value));  // expect-error: could not convert
#elif VERNIER_MISUSE == 6
  return ops.reduce(std::move(shard));  // expect-error: could not convert
#elif VERNIER_MISUSE == 7
  return ops.reduce_add(std::move(value), std::move(value));  // expect-error: could not convert
#endif
}

}  // namespace vernier
