#pragma once

// The vectors that linear_body.h is written in, for AVX-512 with VNNI. A panel has 16 rows.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace vernier::avx512 {
namespace {

constexpr int kRows = 16;
constexpr const char* kIsaName = "avx512";
constexpr int kTilePanels = 2;
constexpr int kStreamTokens = 4;
constexpr int kIntTileTokens = 6;
constexpr int kByteTilePanels = 2;
constexpr int kByteTileTokens = 6;
constexpr int kFloatTileTokens = 8;

#define VERNIER_INLINE [[gnu::always_inline]] inline
// Before a loop of constant length whose arrays are to live in registers.
#define VERNIER_UNROLL _Pragma("GCC unroll 16")

using Floats = __m512;  // kRows numbers
using Codes = __m512i;  // kRows x 4 bytes
using Quad = __m512i;   // four activation bytes, repeated kRows times

VERNIER_INLINE Floats zero_floats() {
  return _mm512_setzero_ps();
}
VERNIER_INLINE Floats load(const float* at) {
  return _mm512_loadu_ps(at);
}
VERNIER_INLINE void store(float* at, Floats value) {
  _mm512_storeu_ps(at, value);
}
VERNIER_INLINE Floats broadcast(float value) {
  return _mm512_set1_ps(value);
}
VERNIER_INLINE Floats add(Floats a, Floats b) {
  return _mm512_add_ps(a, b);
}
VERNIER_INLINE Floats mul(Floats a, Floats b) {
  return _mm512_mul_ps(a, b);
}
VERNIER_INLINE Floats fma(Floats a, Floats b, Floats c) {
  return _mm512_fmadd_ps(a, b, c);
}

VERNIER_INLINE __m128i load_bytes(const uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
VERNIER_INLINE Floats load_half(const uint8_t* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
VERNIER_INLINE Floats load_unsigned(const uint8_t* at) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_bytes(at)));
}
VERNIER_INLINE Floats load_signed(const uint8_t* at) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_bytes(at)));
}
// 2^(byte - 128): half of an E8M0 scale. Bytes 0 and 1 give float32 subnormals.
VERNIER_INLINE Floats load_half_e8m0(const uint8_t* at) {
  const __m512i e = _mm512_cvtepu8_epi32(load_bytes(at));
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  const __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
  return _mm512_castsi512_ps(_mm512_mask_blend_epi32(_mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2)), normal, small));
}
// Half of an E4M3 scale without a sign: its bits are those of an f16 2^-8 times as large.
VERNIER_INLINE Floats load_half_e4m3(const uint8_t* at) {
  const __m256i words = _mm256_cvtepu8_epi16(load_bytes(at));
  return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_slli_epi16(words, 7)), _mm512_set1_ps(128));
}
// 2^(byte - 127).
VERNIER_INLINE Floats load_e8m0(const uint8_t* at) {
  const __m512i e = _mm512_cvtepu8_epi32(load_bytes(at));
  return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_slli_epi32(e, 23), _mm512_set1_epi32(0x00400000)));
}
// Rows of column pairs of bf16: the even columns, or the odd ones.
VERNIER_INLINE Floats load_bf16_even(const uint8_t* at) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(at), 16));
}
VERNIER_INLINE Floats load_bf16_odd(const uint8_t* at) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_loadu_si512(at), _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))));
}

VERNIER_INLINE Codes load_codes(const uint8_t* at) {
  return _mm512_loadu_si512(at);
}
VERNIER_INLINE void store_codes(uint8_t* at, Codes codes) {
  _mm512_storeu_si512(at, codes);
}
VERNIER_INLINE Codes bits(Codes codes, int mask) {
  return _mm512_and_si512(codes, _mm512_set1_epi8(static_cast<char>(mask)));
}
VERNIER_INLINE Codes merge(Codes a, Codes b) {
  return _mm512_or_si512(a, b);
}
// Shifts 16-bit lanes, to the left where n is negative: bits cross into the neighbouring byte and must be masked away.
VERNIER_INLINE Codes shift_right(Codes codes, int n) {
  return n >= 0 ? _mm512_srli_epi16(codes, n) : _mm512_slli_epi16(codes, -n);
}
// Twice the E2M1 number of each low nibble, plus 12.
VERNIER_INLINE Codes e2m1_codes(Codes nibbles) {
  const __m512i table =
      _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  return _mm512_shuffle_epi8(table, nibbles);
}
// Bytes j of all rows: column 4v + j of vector v.
VERNIER_INLINE Floats column_of(Codes codes, int j, int zero) {
  const __m512i byte = _mm512_and_si512(_mm512_srli_epi32(codes, 8 * j), _mm512_set1_epi32(0xFF));
  return _mm512_cvtepi32_ps(_mm512_sub_epi32(byte, _mm512_set1_epi32(zero)));
}

// Four columns out of two vectors of f16, [2, kRows] each: columns 0 and 2, columns 1 and 3.
VERNIER_INLINE void half_columns(__m512i even, __m512i odd, Floats (&column)[4]) {
  column[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(even));
  column[1] = _mm512_cvtph_ps(_mm512_castsi512_si256(odd));
  column[2] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(even, 1));
  column[3] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(odd, 1));
}
// Four columns of E4M3 codes [2, kRows, 2], each number times 2^-8: shifted by one, with the copy of the sign that this
// leaves in the exponent cleared, a code in the high byte of 16 bits is that f16.
VERNIER_INLINE void e4m3_columns(Codes codes, Floats (&column)[4]) {
  const __m512i mask = _mm512_set1_epi16(static_cast<int16_t>(0xBF80));
  const __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(codes, 8), 1);
  const __m512i odd = _mm512_srai_epi16(codes, 1);
  half_columns(_mm512_and_si512(even, mask), _mm512_and_si512(odd, mask), column);
}
// Of E5M2: the high byte of an f16.
VERNIER_INLINE void e5m2_columns(Codes codes, Floats (&column)[4]) {
  const __m512i mask = _mm512_set1_epi16(static_cast<int16_t>(0xFF00));
  half_columns(_mm512_slli_epi16(codes, 8), _mm512_and_si512(codes, mask), column);
}

VERNIER_INLINE Quad load_quad(const int8_t* at) {
  int32_t word;
  std::memcpy(&word, at, 4);
  return _mm512_set1_epi32(word);
}

/// Sum of products of 16 or 32 columns, a row in each lane: exact in 32 bits for every code.
template <int MaxCode>
class Dot {
 public:
  VERNIER_INLINE void step(int step, Codes codes, Quad x) {
    sum_ = _mm512_dpbusd_epi32(step == 0 ? _mm512_setzero_si512() : sum_, codes, x);
  }
  VERNIER_INLINE Floats finish(int) { return _mm512_cvtepi32_ps(sum_); }

 private:
  __m512i sum_;
};

// Largest magnitude; a NaN counts as larger than any number. `count` is a multiple of 16.
VERNIER_INLINE float max_magnitude(const float* x, int count) {
  const __m512i mask = _mm512_set1_epi32(0x7FFFFFFF);
  __m512i most = _mm512_setzero_si512();
  for (int i = 0; i < count; i += 16) {
    most = _mm512_max_epi32(most, _mm512_and_si512(mask, _mm512_loadu_si512(x + i)));
  }
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(most))));
}

// Rounds x * factor to int8, ties to even; returns the sum. `count` is 16 or 32.
VERNIER_INLINE int round_codes(const float* x, float factor, int8_t* codes, int count) {
  const __m512 f = _mm512_set1_ps(factor);
  __m512i sum = _mm512_setzero_si512();
  for (int i = 0; i < count; i += 16) {
    const __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), f));
    sum = _mm512_add_epi32(sum, a);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), _mm512_cvtsepi32_epi8(a));
  }
  return _mm512_reduce_add_epi32(sum);
}

using Pairs = __m512bh;  // kRows x 2 numbers of bf16

VERNIER_INLINE Pairs load_pairs(const uint8_t* at) {
  return reinterpret_cast<Pairs>(_mm512_loadu_si512(at));
}
VERNIER_INLINE Pairs broadcast_pair(const uint16_t* at) {
  int32_t word;
  std::memcpy(&word, at, 4);
  return reinterpret_cast<Pairs>(_mm512_set1_epi32(word));
}
VERNIER_INLINE Floats add_products(Floats sum, Pairs a, Pairs b) {
  return _mm512_dpbf16_ps(sum, a, b);
}

VERNIER_INLINE void store_pairs(uint16_t* at, Pairs pairs) {
  _mm512_storeu_si512(at, reinterpret_cast<__m512i>(pairs));
}
// FP8 codes, kRows x 2, in the units of e4m3_columns or e5m2_columns: fields move in place and the exponent is biased
// anew. Exponent 0, whose codes are multiples of one number, goes through a table: bf16 products take subnormals for 0.
template <bool E5m2>
VERNIER_INLINE Pairs bf16_of_fp8(const uint8_t* codes) {
  const __m512i words = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
  const __m512i magnitude = _mm512_and_si512(words, _mm512_set1_epi16(0x7F));
  const __m512i moved = _mm512_slli_epi16(magnitude, E5m2 ? 5 : 4);
  const __m512i normal = _mm512_add_epi16(moved, _mm512_set1_epi16(112 << 7));
  // Multiples of 2^-17, E5M2: of 2^-16.
  const __m128i first = E5m2 ? _mm_setr_epi16(0, 0x3780, 0x3800, 0x3840, 0, 0, 0, 0)
                             : _mm_setr_epi16(0, 0x3700, 0x3780, 0x37C0, 0x3800, 0x3820, 0x3840, 0x3860);
  const __m512i table = _mm512_broadcast_i32x4(first);
  const __mmask32 small = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(E5m2 ? 4 : 8));
  const __m512i number = _mm512_mask_permutexvar_epi16(normal, small, magnitude, table);
  const __m512i sign = _mm512_and_si512(_mm512_slli_epi16(words, 8), _mm512_set1_epi16(static_cast<int16_t>(0x8000)));
  return reinterpret_cast<Pairs>(_mm512_or_si512(number, sign));
}

// Rounds to bf16, ties to even. `cols` is a multiple of 4.
inline void round_bf16(const float* x, int64_t cols, uint16_t* out) {
  for (int64_t c = 0; c < cols; c += 16) {
    const auto lanes = static_cast<__mmask16>(cols - c >= 16 ? 0xFFFF : (1 << (cols - c)) - 1);
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, x + c));
    _mm256_mask_storeu_epi16(out + c, lanes, reinterpret_cast<__m256i>(rounded));
  }
}

VERNIER_INLINE void prefetch(const uint8_t* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
}

}  // namespace
}  // namespace vernier::avx512
