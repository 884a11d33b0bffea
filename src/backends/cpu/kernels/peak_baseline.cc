#include <cstring>

#include "backends/cpu/kernels/peak.h"

namespace vernier::baseline {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Shorts = int16_t __attribute__((vector_size(16)));  // no 8-bit dot is common to all machines

constexpr int kChains = 10;  // independent accumulators hide the latency; named, so that they stay in registers

int64_t f32_fma(int64_t rounds) {
  Floats x = {0.3F, 0.3F, 0.3F, 0.3F};
  Floats a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x, a6 = x, a7 = x, a8 = x, a9 = x;
  auto step = [&x](Floats& a) {
    a += x * x;
    asm volatile("" : "+x"(a), "+x"(x));
  };
  for (int64_t r = 0; r < rounds; ++r) {
    step(a0);
    step(a1);
    step(a2);
    step(a3);
    step(a4);
    step(a5);
    step(a6);
    step(a7);
    step(a8);
    step(a9);
  }
  return rounds * kChains * 8;
}

int64_t int8_dot(int64_t rounds) {
  Shorts x = {1, 1, 1, 1, 1, 1, 1, 1};
  Shorts a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x, a6 = x, a7 = x, a8 = x, a9 = x;
  auto step = [&x](Shorts& a) {
    a += x * x;
    asm volatile("" : "+x"(a), "+x"(x));
  };
  for (int64_t r = 0; r < rounds; ++r) {
    step(a0);
    step(a1);
    step(a2);
    step(a3);
    step(a4);
    step(a5);
    step(a6);
    step(a7);
    step(a8);
    step(a9);
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
  return {f32_fma, int8_dot, f32_fma, read};
}

}  // namespace vernier::baseline
