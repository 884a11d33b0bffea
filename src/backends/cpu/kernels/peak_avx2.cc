#include <immintrin.h>

#include "backends/cpu/kernels/peak.h"
#include "backends/cpu/kernels/peak_chains.h"

namespace vernier::avx2 {
namespace {

int64_t f32_fma(int64_t rounds) {
  const __m256 x = _mm256_set1_ps(0.3F);
  return 16 * run_chains(x, x, rounds, [](__m256& a, __m256& x) {
           a = _mm256_fmadd_ps(x, x, a);
           asm volatile("" : "+x"(a), "+x"(x));
         });
}

int64_t int8_dot(int64_t rounds) {
  const __m256i x = _mm256_set1_epi16(1);
  return 64 * run_chains(x, x, rounds, [](__m256i& a, __m256i& x) {
           a = _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(x, x), x));
           asm volatile("" : "+x"(a), "+x"(x));
         });
}

uint64_t read(const std::byte* data, size_t size_bytes) {
  __m256i sum[4] = {};
  for (size_t i = 0; i + 128 <= size_bytes; i += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(data + i + 2048), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(data + i + 2112), _MM_HINT_T0);
    for (size_t k = 0; k < 4; ++k) {
      sum[k] = _mm256_xor_si256(sum[k], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i + 32 * k)));
    }
  }
  __m256i all = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
  __m128i half = _mm_xor_si128(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  return static_cast<uint64_t>(_mm_extract_epi64(half, 0)) ^ static_cast<uint64_t>(_mm_extract_epi64(half, 1));
}

}  // namespace

PeakLoops peak_loops() {
  return {f32_fma, int8_dot, f32_fma, read};
}

}  // namespace vernier::avx2
