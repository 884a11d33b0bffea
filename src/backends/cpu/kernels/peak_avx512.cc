#include <immintrin.h>

#include "backends/cpu/kernels/peak.h"
#include "backends/cpu/kernels/peak_chains.h"

namespace vernier::avx512 {
namespace {

int64_t f32_fma(int64_t rounds) {
  const __m512 x = _mm512_set1_ps(0.3F);
  return 32 * run_chains(x, x, rounds, [](__m512& a, __m512& x) {
           a = _mm512_fmadd_ps(x, x, a);
           asm volatile("" : "+v"(a), "+v"(x));
         });
}

int64_t int8_dot(int64_t rounds) {
  const __m512i x = _mm512_set1_epi8(1);
  return 128 * run_chains(x, x, rounds, [](__m512i& a, __m512i& x) {
           a = _mm512_dpbusd_epi32(a, x, x);
           asm volatile("" : "+v"(a), "+v"(x));
         });
}

int64_t bf16_dot(int64_t rounds) {
  const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3E99));
  return 64 * run_chains(_mm512_set1_ps(0.3F), x, rounds, [](__m512& a, __m512bh& x) {
           a = _mm512_dpbf16_ps(a, x, x);
           asm volatile("" : "+v"(a), "+v"(x));
         });
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
