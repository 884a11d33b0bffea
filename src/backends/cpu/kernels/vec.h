#pragma once

// Vectors of float32 as wide as the instruction set that the including file is built for. Included by kernel files
// only: everything here is local to the file and inlined, so that no other file can be linked to it.

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define VERNIER_INLINE static inline __attribute__((always_inline))
#define VERNIER_APART static __attribute__((noinline))

namespace vernier {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

using Vec = float __attribute__((vector_size(kLanes * 4)));
using VecI = int32_t __attribute__((vector_size(kLanes * 4)));
using VecU = uint32_t __attribute__((vector_size(kLanes * 4)));
using VecU16 = uint16_t __attribute__((vector_size(kLanes * 2)));
using VecU8 = uint8_t __attribute__((vector_size(kLanes)));

template <class V>
VERNIER_INLINE V load_as(const void* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
VERNIER_INLINE Vec load(const float* from) {
  return load_as<Vec>(from);
}
template <class V>
VERNIER_INLINE void store(void* to, V v) {
  __builtin_memcpy(to, &v, sizeof v);
}
VERNIER_INLINE Vec splat(float x) {
  return x - Vec{};
}
VERNIER_INLINE VecI splat_int(int32_t x) {
  return x - VecI{};
}

VERNIER_INLINE Vec fma(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

/// The larger of both; `a` where one is NaN.
VERNIER_INLINE Vec larger(Vec a, Vec b) {
  return b > a ? b : a;
}

#if defined(__AVX2__)
#if defined(__AVX512F__)
VERNIER_INLINE Vec add_neighbours(Vec a, Vec b) {
  return _mm512_shuffle_ps(a, b, 0x88) + _mm512_shuffle_ps(a, b, 0xDD);
}
#else
/// What _mm256_hadd_ps gives, faster where that is several instructions inside.
VERNIER_INLINE Vec add_neighbours(Vec a, Vec b) {
  return _mm256_shuffle_ps(a, b, 0x88) + _mm256_shuffle_ps(a, b, 0xDD);
}
#endif

/// The sum of the quarters or halves that are 128 bits wide.
VERNIER_INLINE __m128 add_parts(Vec v) {
#if defined(__AVX512F__)
  __m256 halves = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
#else
  __m256 halves = v;
#endif
  return _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1));
}
#endif

VERNIER_INLINE float sum_lanes(Vec v) {
#if defined(__AVX2__)
  Vec pairs = add_neighbours(v, v);
  return _mm_cvtss_f32(add_parts(add_neighbours(pairs, pairs)));
#else
  return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

VERNIER_INLINE float largest_lane(Vec v) {
  float m = v[0];
  for (int i = 1; i < kLanes; ++i) m = v[i] > m ? v[i] : m;
  return m;
}

/// Sums of the lanes of four vectors, to four floats; each is that of sum_lanes to the bit.
VERNIER_INLINE void store_sums(float* to, Vec a, Vec b, Vec c, Vec d) {
#if defined(__AVX2__)
  _mm_storeu_ps(to, add_parts(add_neighbours(add_neighbours(a, b), add_neighbours(c, d))));
#else
  to[0] = sum_lanes(a);
  to[1] = sum_lanes(b);
  to[2] = sum_lanes(c);
  to[3] = sum_lanes(d);
#endif
}

/// e^x within 2 units in the last place for x <= 88; 0 below -87.3; NaN stays NaN.
VERNIER_INLINE Vec exp_of(Vec x) {
  constexpr float kLog2e = 1.44269504f;
  constexpr float kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;  // ln 2 in two parts; the first has 15 bits
  constexpr float kRound = 12582912.0f;                               // 1.5 * 2^23: its ulp is 1
  constexpr float kLowest = -87.33654f;                               // ln of the smallest normal number
  Vec below = x < kLowest ? splat(0) : fma(x, splat(0), splat(1));    // NaN for NaN, whatever its low bits do below
  Vec y = x < kLowest ? splat(kLowest) : x;                           // a comparison with NaN is false: NaN passes on
  Vec shifted = fma(y, splat(kLog2e), splat(kRound));
  Vec n = shifted - kRound;
  Vec r = fma(n, splat(-kLn2High), y);
  r = fma(n, splat(-kLn2Low), r);
  Vec p = splat(1.0f / 720);
  p = fma(p, r, splat(1.0f / 120));
  p = fma(p, r, splat(1.0f / 24));
  p = fma(p, r, splat(1.0f / 6));
  p = fma(p, r, splat(0.5f));
  p = fma(p, r, splat(1.0f));
  p = fma(p, r, splat(1.0f));
  VecI bits = (VecI)shifted << 23;  // the low bits of `shifted` are n
  return (Vec)((VecI)p + bits) * below;
}

/// tanh within 2e-7.
VERNIER_INLINE Vec tanh_of(Vec x) {
  Vec big = x > 9 ? splat(9) : x;
  big = big < -9 ? splat(-9) : big;
  Vec e = exp_of(big + big);
  return (e - 1) / (e + 1);
}

VERNIER_INLINE VecU abs_bits(Vec x) {
  return (VecU)x & 0x7FFFFFFFu;
}
/// How many lanes of a comparison hold.
VERNIER_INLINE int count_true(VecI mask) {
  int n = 0;
  for (int i = 0; i < kLanes; ++i) n -= mask[i];
  return n;
}

}  // namespace
}  // namespace vernier
