// A weight's cut is part of its type: the activation must be cut the same way.
#include "ops/ops.h"

namespace vernier {

struct Weights {
  Weight<Split::kNone> whole;
  Weight<Split::kColumns> columns;
  Weight<Split::kRows> rows;
};

Partial use(Ops& ops, const Weights& weights, const Value& value, const Shard& shard) {
  (void)shard;
#ifndef VERNIER_MISUSE
  Value projected = ops.linear(value, weights.whole);
  return ops.linear(ops.linear(projected, weights.columns), weights.rows);
#elif VERNIER_MISUSE == 1
  return ops.linear(value, weights.rows);  // expect-error: no matching function for call to
#elif VERNIER_MISUSE == 2
  return ops.linear(ops.linear(shard, weights.columns),
                    weights.rows);  // expect-error: no matching function for call to
#elif VERNIER_MISUSE == 3
  return ops.linear(shard, weights.whole);  // expect-error: no matching function for call to
#elif VERNIER_MISUSE == 4
  return ops.linear(ops.linear(value, weights.whole), weights.rows);  // expect-error: no matching function for call to
#elif VERNIER_MISUSE == 5
  Value logits = ops.linear(shard, weights.rows);  // expect-error: conversion from
  return ops.linear(shard, weights.rows);
#endif
}

}  // namespace vernier
