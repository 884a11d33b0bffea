#include <cstring>

#include "backends/cpu/kernels/peak.h"

namespace vernier::baseline {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Shorts = int16_t __attribute__((vector_size(16)));  // no 8-bit dot is common to all machines

constexpr int kChains = 10;  // independent accumulators, enough to hide the latency of either loop

int64_t f32_fma(int64_t rounds) {
  Floats acc[kChains];
  Floats x = {0.3F, 0.3F, 0.3F, 0.3F};
  for (auto& a : acc) a = x;
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      acc[i] += x * x;
      asm volatile("" : "+x"(acc[i]), "+x"(x));
    }
  }
  return rounds * kChains * 8;
}

int64_t int8_dot(int64_t rounds) {
  Shorts acc[kChains];
  Shorts x = {1, 1, 1, 1, 1, 1, 1, 1};
  for (auto& a : acc) a = x;
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      acc[i] += x * x;
      asm volatile("" : "+x"(acc[i]), "+x"(x));
    }
  }
  return rounds * kChains * 16;
}

uint64_t read(const std::byte* data, size_t size_bytes) {
  uint64_t sum[8] = {};
  for (size_t i = 0; i + 64 <= size_bytes; i += 64) {
    for (size_t k = 0; k < 8; ++k) {
      uint64_t word;
      std::memcpy(&word, data + i + 8 * k, 8);
      sum[k] ^= word;
    }
  }
  uint64_t all = 0;
  for (uint64_t s : sum) all ^= s;
  return all;
}

}  // namespace

PeakLoops peak_loops() {
  return {f32_fma, int8_dot, read};
}

}  // namespace vernier::baseline
