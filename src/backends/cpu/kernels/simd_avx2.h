#pragma once

// The vectors that linear_body.h is written in, for AVX2 with FMA and F16C. A panel has 8 rows.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace vernier::avx2 {
namespace {

constexpr int kRows = 8;
constexpr const char* kIsaName = "avx2";
constexpr int kTilePanels = 2;
constexpr int kStreamTokens = 4;
constexpr int kIntTileTokens = 3;
// Codes that are cut into nibbles take twice the sums.
constexpr int kByteTilePanels = 1;
constexpr int kByteTileTokens = 4;
constexpr int kFloatTileTokens = 6;

#define VERNIER_INLINE [[gnu::always_inline]] inline
// Before a loop of constant length whose arrays are to live in registers.
#define VERNIER_UNROLL _Pragma("GCC unroll 16")

using Floats = __m256;  // kRows numbers
using Codes = __m256i;  // kRows x 4 bytes
using Quad = __m256i;   // four activation bytes, repeated kRows times

VERNIER_INLINE Floats zero_floats() {
  return _mm256_setzero_ps();
}
VERNIER_INLINE Floats load(const float* at) {
  return _mm256_loadu_ps(at);
}
VERNIER_INLINE void store(float* at, Floats value) {
  _mm256_storeu_ps(at, value);
}
VERNIER_INLINE Floats broadcast(float value) {
  return _mm256_set1_ps(value);
}
VERNIER_INLINE Floats add(Floats a, Floats b) {
  return _mm256_add_ps(a, b);
}
VERNIER_INLINE Floats mul(Floats a, Floats b) {
  return _mm256_mul_ps(a, b);
}
VERNIER_INLINE Floats fma(Floats a, Floats b, Floats c) {
  return _mm256_fmadd_ps(a, b, c);
}

VERNIER_INLINE Floats load_half(const uint8_t* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}
VERNIER_INLINE Floats load_unsigned(const uint8_t* at) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
}
VERNIER_INLINE Floats load_signed(const uint8_t* at) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
}
// 2^(byte - 128): half of an E8M0 scale. Bytes 0 and 1 give float32 subnormals.
VERNIER_INLINE Floats load_half_e8m0(const uint8_t* at) {
  const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}
// Half of an E4M3 scale without a sign: its bits are those of an f16 2^-8 times as large.
VERNIER_INLINE Floats load_half_e4m3(const uint8_t* at) {
  const __m128i words = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
  return _mm256_mul_ps(_mm256_cvtph_ps(_mm_slli_epi16(words, 7)), _mm256_set1_ps(128));
}
// 2^(byte - 127).
VERNIER_INLINE Floats load_e8m0(const uint8_t* at) {
  const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
  return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_slli_epi32(e, 23), _mm256_set1_epi32(0x00400000)));
}
// Rows of column pairs of bf16: the even columns, or the odd ones.
VERNIER_INLINE Floats load_bf16_even(const uint8_t* at) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)), 16));
}
VERNIER_INLINE Floats load_bf16_odd(const uint8_t* at) {
  return _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)),
                                              _mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
}

VERNIER_INLINE Codes load_codes(const uint8_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}
VERNIER_INLINE void store_codes(uint8_t* at, Codes codes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), codes);
}
VERNIER_INLINE Codes bits(Codes codes, int mask) {
  return _mm256_and_si256(codes, _mm256_set1_epi8(static_cast<char>(mask)));
}
VERNIER_INLINE Codes merge(Codes a, Codes b) {
  return _mm256_or_si256(a, b);
}
// Shifts 16-bit lanes, to the left where n is negative: bits cross into the neighbouring byte and must be masked away.
VERNIER_INLINE Codes shift_right(Codes codes, int n) {
  return n >= 0 ? _mm256_srli_epi16(codes, n) : _mm256_slli_epi16(codes, -n);
}
// Twice the E2M1 number of each low nibble, plus 12.
VERNIER_INLINE Codes e2m1_codes(Codes nibbles) {
  const __m256i table =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  return _mm256_shuffle_epi8(table, nibbles);
}
// Bytes j of all rows: column 4v + j of vector v.
VERNIER_INLINE Floats column_of(Codes codes, int j, int zero) {
  const __m256i byte = _mm256_and_si256(_mm256_srli_epi32(codes, 8 * j), _mm256_set1_epi32(0xFF));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(byte, _mm256_set1_epi32(zero)));
}

// Four columns out of two vectors of f16, [2, kRows] each: columns 0 and 2, columns 1 and 3.
VERNIER_INLINE void half_columns(__m256i even, __m256i odd, Floats (&column)[4]) {
  column[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(even));
  column[1] = _mm256_cvtph_ps(_mm256_castsi256_si128(odd));
  column[2] = _mm256_cvtph_ps(_mm256_extracti128_si256(even, 1));
  column[3] = _mm256_cvtph_ps(_mm256_extracti128_si256(odd, 1));
}
// Four columns of E4M3 codes [2, kRows, 2], each number times 2^-8: shifted by one, with the copy of the sign that this
// leaves in the exponent cleared, a code in the high byte of 16 bits is that f16.
VERNIER_INLINE void e4m3_columns(Codes codes, Floats (&column)[4]) {
  const __m256i mask = _mm256_set1_epi16(static_cast<int16_t>(0xBF80));
  const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(codes, 8), 1);
  const __m256i odd = _mm256_srai_epi16(codes, 1);
  half_columns(_mm256_and_si256(even, mask), _mm256_and_si256(odd, mask), column);
}
// Of E5M2: the high byte of an f16.
VERNIER_INLINE void e5m2_columns(Codes codes, Floats (&column)[4]) {
  const __m256i mask = _mm256_set1_epi16(static_cast<int16_t>(0xFF00));
  half_columns(_mm256_slli_epi16(codes, 8), _mm256_and_si256(codes, mask), column);
}

VERNIER_INLINE Quad load_quad(const int8_t* at) {
  int32_t word;
  std::memcpy(&word, at, 4);
  return _mm256_set1_epi32(word);
}

// Keeps the compiler from moving a sum's terms away from it: left alone, GCC 12 reorders a block's sums so that a third
// of a tile's instructions go to and from the stack.
VERNIER_INLINE void pin(__m256i& value) {
  asm("" : "+x"(value));
}

/// Sum of products of 16 or 32 columns, a row in each lane. Products of a pair of columns meet in 16 bits; as many
/// pairs are added there as the largest code allows (2 * 127 * max_code each), then four columns in 32 bits. Codes
/// above 63 are cut into nibbles, so that every sum stays exact.
template <int MaxCode>
class Dot {
 public:
  VERNIER_INLINE void step(int step, Codes codes, Quad x) {
    if constexpr (kCut) {
      const __m256i low = _mm256_maddubs_epi16(bits(codes, 15), x);
      const __m256i high = _mm256_maddubs_epi16(bits(shift_right(codes, 4), 15), x);
      pairs_ = step == 0 ? low : _mm256_add_epi16(pairs_, low);
      high_ = step == 0 ? high : _mm256_add_epi16(high_, high);
      pin(pairs_);
      pin(high_);
    } else {
      const __m256i pair = _mm256_maddubs_epi16(codes, x);
      if (step % kDepth == 0) {
        if (step == kDepth) sum_ = widen(pairs_);
        if (step > kDepth) sum_ = _mm256_add_epi32(sum_, widen(pairs_));
        pairs_ = pair;
      } else {
        pairs_ = _mm256_add_epi16(pairs_, pair);
      }
      pin(pairs_);
    }
  }
  VERNIER_INLINE Floats finish(int steps) {
    if constexpr (kCut) {
      return _mm256_cvtepi32_ps(_mm256_add_epi32(widen(pairs_), _mm256_slli_epi32(widen(high_), 4)));
    } else if (steps <= kDepth) {
      return _mm256_cvtepi32_ps(widen(pairs_));
    } else {
      return _mm256_cvtepi32_ps(_mm256_add_epi32(sum_, widen(pairs_)));
    }
  }

 private:
  static constexpr bool kCut = MaxCode > 63;
  static constexpr int kDepth = kCut ? 8 : MaxCode <= 16 ? 8 : MaxCode <= 32 ? 4 : 2;
  static_assert((kCut ? 15 : MaxCode) * 254 * kDepth <= 32767);

  VERNIER_INLINE static __m256i widen(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

  __m256i pairs_, high_, sum_;
};

// Largest magnitude; a NaN counts as larger than any number. `count` is a multiple of 8.
VERNIER_INLINE float max_magnitude(const float* x, int count) {
  const __m256i mask = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i most = _mm256_setzero_si256();
  for (int i = 0; i < count; i += 8) {
    most = _mm256_max_epi32(most, _mm256_and_si256(mask, _mm256_castps_si256(_mm256_loadu_ps(x + i))));
  }
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1));
  return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

// Rounds x * factor to int8, ties to even; returns the sum. `count` is 16 or 32.
VERNIER_INLINE int round_codes(const float* x, float factor, int8_t* codes, int count) {
  const __m256 f = _mm256_set1_ps(factor);
  __m256i sum = _mm256_setzero_si256();
  for (int i = 0; i < count; i += 16) {
    const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), f));
    const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8), f));
    sum = _mm256_add_epi32(sum, _mm256_add_epi32(a, b));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), bytes);
  }
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
  return _mm_cvtsi128_si32(s);
}

VERNIER_INLINE void prefetch(const uint8_t* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
}

}  // namespace
}  // namespace vernier::avx2
