#include <immintrin.h>

#include "backends/cpu/kernels/peak.h"

namespace vernier::avx512 {
namespace {

constexpr int kChains = 12;  // independent accumulators hide the latency; named, so that they stay in registers

int64_t f32_fma(int64_t rounds) {
  __m512 x = _mm512_set1_ps(0.3F);
  __m512 a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x, a6 = x, a7 = x, a8 = x, a9 = x, a10 = x, a11 = x;
  auto step = [&x](__m512& a) {
    a = _mm512_fmadd_ps(x, x, a);
    asm volatile("" : "+v"(a), "+v"(x));
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
    step(a10);
    step(a11);
  }
  return rounds * kChains * 32;
}

int64_t int8_dot(int64_t rounds) {
  __m512i x = _mm512_set1_epi8(1);
  __m512i a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x, a6 = x, a7 = x, a8 = x, a9 = x, a10 = x, a11 = x;
  auto step = [&x](__m512i& a) {
    a = _mm512_dpbusd_epi32(a, x, x);
    asm volatile("" : "+v"(a), "+v"(x));
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
    step(a10);
    step(a11);
  }
  return rounds * kChains * 128;
}

int64_t bf16_dot(int64_t rounds) {
  __m512 a0 = _mm512_set1_ps(0.3F);
  auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3E99));
  __m512 a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0, a8 = a0, a9 = a0, a10 = a0, a11 = a0;
  auto step = [&x](__m512& a) {
    a = _mm512_dpbf16_ps(a, x, x);
    asm volatile("" : "+v"(a), "+v"(x));
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
    step(a10);
    step(a11);
  }
  return rounds * kChains * 64;
}

uint64_t read(const std::byte* data, size_t size_bytes) {
  __m512i sum[4] = {};
  for (size_t i = 0; i + 256 <= size_bytes; i += 256) {
    for (size_t k = 0; k < 4; ++k) {
      _mm_prefetch(reinterpret_cast<const char*>(data + i + 2048 + 64 * k), _MM_HINT_T0);
      sum[k] = _mm512_xor_si512(sum[k], _mm512_loadu_si512(data + i + 64 * k));
    }
  }
  __m512i all = _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3]));
  uint64_t words[8];
  _mm512_storeu_si512(words, all);
  return words[0] ^ words[1] ^ words[2] ^ words[3] ^ words[4] ^ words[5] ^ words[6] ^ words[7];
}

}  // namespace

PeakLoops peak_loops() {
  return {f32_fma, int8_dot, bf16_dot, read};
}

}  // namespace vernier::avx512
