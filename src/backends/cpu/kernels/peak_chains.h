#pragma once

#include <cstdint>

namespace vernier {
namespace {  // each instruction set compiles its own

constexpr int kChains = 12;

/// `step(a, x)` on each of twelve accumulators in every round: so many, independent of each other, hide an
/// instruction's latency, and with names they stay in registers. Returns how many steps were done.
template <class Accumulator, class Factor, class Step>
[[gnu::always_inline]] inline int64_t run_chains(Accumulator a0, Factor x, int64_t rounds, Step step) {
  Accumulator a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0, a8 = a0, a9 = a0, a10 = a0, a11 = a0;
  for (int64_t r = 0; r < rounds; ++r) {
    step(a0, x);
    step(a1, x);
    step(a2, x);
    step(a3, x);
    step(a4, x);
    step(a5, x);
    step(a6, x);
    step(a7, x);
    step(a8, x);
    step(a9, x);
    step(a10, x);
    step(a11, x);
  }
  return rounds * kChains;
}

}  // namespace
}  // namespace vernier
