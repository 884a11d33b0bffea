#pragma once

// Codes of the cache to and from vectors of float32. Included by kernel files only. No scale acts here: the kernels
// fold the key's scale into the query, and the value's into the output. What `read` gives is the stored number times
// kUnit, a power of two that the kernels fold into the same places; `write` takes numbers as they are.

#include "backends/cpu/kernels/vec.h"
#include "tensor/scalar.h"

namespace vernier {
namespace {

/// Widened bits of a small float, sign in bit 31 already, times 2^`bias_shift` to move the exponent; exact for
/// subnormal codes, too.
VERNIER_INLINE Vec rebias(VecU magnitude, VecU sign, int bias_shift) {
  Vec scaled = (Vec)magnitude * (Vec)(((VecU{} + 127u) + static_cast<uint32_t>(bias_shift)) << 23);
  return (Vec)((VecU)scaled | sign);
}

// kLargest is the largest number of the type; kLimit the largest float32 that rounds to it, as in KvWriter. A type
// whose `read` is wrong for codes of NaN says so (kNanIsCode); Exact reads these, too.

struct StoredF32 {
  using Exact = StoredF32;
  static constexpr bool kNanIsCode = false;
  static constexpr float kUnit = 1;
  static constexpr int kBytes = 4;
  static constexpr float kLargest = 3.4028234e38f;
  static constexpr float kLimit = __builtin_inff();
  VERNIER_INLINE Vec read(const std::byte* from) { return load_as<Vec>(from); }
  VERNIER_INLINE void write(std::byte* to, Vec x) { store(to, x); }
};

struct StoredF16 {
  using Exact = StoredF16;
  static constexpr bool kNanIsCode = false;
  static constexpr float kUnit = 1;
  static constexpr int kBytes = 2;
  static constexpr float kLargest = 65504.0f;
  static constexpr float kLimit = 65519.996f;
  VERNIER_INLINE Vec read(const std::byte* from) {
#if defined(__AVX512F__)
    return _mm512_cvtph_ps(load_as<__m256i>(from));
#elif defined(__F16C__)
    return _mm256_cvtph_ps(load_as<__m128i>(from));
#else
    VecU bits = __builtin_convertvector(load_as<VecU16>(from), VecU);
    VecU magnitude = (bits & 0x7FFFu) << 13;
    VecU special = magnitude >= (0x7C00u << 13) ? VecU{} + 0x7F800000u : VecU{};
    return (Vec)((VecU)rebias(magnitude, (bits & 0x8000u) << 16, 112) | special);
#endif
  }
  VERNIER_INLINE void write(std::byte* to, Vec x) {
#if defined(__AVX512F__)
    store(to, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    store(to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
#else
    uint16_t bits[kLanes];
    for (int i = 0; i < kLanes; ++i) bits[i] = f32_to_f16(x[i]);
    __builtin_memcpy(to, bits, sizeof bits);
#endif
  }
};

struct StoredBF16 {
  using Exact = StoredBF16;
  static constexpr bool kNanIsCode = false;
  static constexpr float kUnit = 1;
  static constexpr int kBytes = 2;
  static constexpr float kLargest = 3.3895314e38f;
  static constexpr float kLimit = 0x1.FEFFFEp127f;
  VERNIER_INLINE Vec read(const std::byte* from) {
    return (Vec)(__builtin_convertvector(load_as<VecU16>(from), VecU) << 16);
  }
  VERNIER_INLINE void write(std::byte* to, Vec x) {
    VecU bits = (VecU)x;
    VecU rounded = (bits + (0x7FFFu + ((bits >> 16) & 1u))) >> 16;
    VecU quiet = (bits >> 16) | 0x40u;  // a NaN must not round to an infinity
    store(to, __builtin_convertvector(abs_bits(x) > 0x7F800000u ? quiet : rounded, VecU16));
  }
};

/// Codes of `kManBits` mantissa bits and bias kBias of numbers that do not exceed the largest; as the scalar encoders.
template <int kManBits, uint32_t kBias, uint32_t kNan>
VERNIER_INLINE void write_bytes(std::byte* to, Vec x) {
  constexpr uint32_t kAnchor = (127 + 1 - kBias - kManBits + 23) << 23;  // its last bit weighs one subnormal step
  constexpr int kDropped = 23 - kManBits;
  VecU bits = (VecU)x, magnitude = abs_bits(x);
  VecU subnormal = (VecU)((Vec)magnitude + (Vec)(VecU{} + kAnchor)) - kAnchor;
  VecU rounded = (magnitude + ((1u << (kDropped - 1)) - 1u) + ((magnitude >> kDropped) & 1u)) >> kDropped;
  VecU code = magnitude < ((127 + 1 - kBias) << 23) ? subnormal : rounded - ((127 - kBias) << kManBits);
  code = magnitude > 0x7F800000u ? VecU{} + kNan : code;
  store(to, __builtin_convertvector(code | (bits >> 24 & 0x80u), VecU8));
}

#if defined(__F16C__)
/// Numbers of binary16, one for each lane, from the 16 bits of each.
#if defined(__AVX512F__)
using Halves = __m256i;
VERNIER_INLINE Vec from_halves(Halves halves) {
  return _mm512_cvtph_ps(halves);
}
VERNIER_INLINE Halves widened(const std::byte* from) {  // bytes with their sign
  return _mm256_cvtepi8_epi16(load_as<__m128i>(from));
}
VERNIER_INLINE Halves shifted(Halves x, int by) {
  return _mm256_slli_epi16(x, by);
}
VERNIER_INLINE Halves masked(Halves x, int16_t mask) {
  return _mm256_and_si256(x, _mm256_set1_epi16(mask));
}
#else
using Halves = __m128i;
VERNIER_INLINE Vec from_halves(Halves halves) {
  return _mm256_cvtph_ps(halves);
}
VERNIER_INLINE Halves widened(const std::byte* from) {
  return _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
VERNIER_INLINE Halves shifted(Halves x, int by) {
  return _mm_slli_epi16(x, by);
}
VERNIER_INLINE Halves masked(Halves x, int16_t mask) {
  return _mm_and_si128(x, _mm_set1_epi16(mask));
}
#endif
#endif

#if defined(__AVX2__) && !defined(__AVX512F__)
/// Many codes at once, each made the upper byte of 16 bits: 32 numbers for fewer instructions than four times 8.
constexpr int kWideCodes = 32;
template <class Fn>
VERNIER_INLINE void read_wide_halves(const std::byte* from, float* to, Fn as_halves) {
  const __m256i codes = load_as<__m256i>(from), none = _mm256_setzero_si256();
  const __m256i even = as_halves(_mm256_unpacklo_epi8(none, codes));  // 0-7 and 16-23
  const __m256i odd = as_halves(_mm256_unpackhi_epi8(none, codes));   // 8-15 and 24-31
  store(to, from_halves(_mm256_castsi256_si128(even)));
  store(to + 8, from_halves(_mm256_castsi256_si128(odd)));
  store(to + 16, from_halves(_mm256_extracti128_si256(even, 1)));
  store(to + 24, from_halves(_mm256_extracti128_si256(odd, 1)));
}
#define VERNIER_WIDE_CODES 1
#endif

/// Codes of NaN are NaN.
struct StoredE4M3Exact {
  using Exact = StoredE4M3Exact;
  static constexpr int kBytes = 1;
  static constexpr bool kNanIsCode = false;
  static constexpr float kUnit = 0x1p-8f;
  VERNIER_INLINE Vec read(const std::byte* from) {
    VecU bits = __builtin_convertvector(load_as<VecU8>(from), VecU);
    VecU magnitude = bits & 0x7Fu;
    VecU nan = magnitude == 0x7Fu ? VecU{} + 0x7FC00000u : VecU{};
    return (Vec)((VecU)rebias(magnitude << 20, (bits & 0x80u) << 24, 120 - 8) | nan);
  }
};

/// Without the exponent's last step to float32's range a code is a number of binary16: sign, a zero, exponent,
/// mantissa, times 2^-8. A code of NaN reads as 480 / 256.
struct StoredE4M3 {
  using Exact = StoredE4M3Exact;
  static constexpr int kBytes = 1;
  static constexpr bool kNanIsCode = true;
  static constexpr float kUnit = StoredE4M3Exact::kUnit;
  static constexpr float kLargest = 448.0f;
  static constexpr float kLimit = 464.0f;
  VERNIER_INLINE Vec read(const std::byte* from) {
#if defined(__F16C__)
    return from_halves(masked(shifted(widened(from), 7), static_cast<int16_t>(0xBFFF)));
#else
    return Exact::read(from);
#endif
  }
#if defined(VERNIER_WIDE_CODES)
  VERNIER_INLINE void read_wide(const std::byte* from, float* to) {
    read_wide_halves(
        from, to, [](__m256i words) __attribute__((always_inline)) {
          return _mm256_and_si256(_mm256_srai_epi16(words, 1), _mm256_set1_epi16(static_cast<int16_t>(0xBF80)));
        });
  }
#endif
  VERNIER_INLINE void write(std::byte* to, Vec x) {
    write_bytes<3, 7, 0x7F>(to, x);
  }
};

/// The upper byte of a number of binary16.
struct StoredE5M2 {
  using Exact = StoredE5M2;
  static constexpr int kBytes = 1;
  static constexpr bool kNanIsCode = false;
  static constexpr float kUnit = 1;
  static constexpr float kLargest = 57344.0f;
  static constexpr float kLimit = 61439.996f;
  VERNIER_INLINE Vec read(const std::byte* from) {
#if defined(__F16C__)
    return from_halves(shifted(widened(from), 8));
#else
    VecU bits = __builtin_convertvector(load_as<VecU8>(from), VecU);
    VecU magnitude = (bits & 0x7Fu) << 21;
    VecU special = magnitude >= (0x7Cu << 21) ? VecU{} + 0x7F800000u : VecU{};
    return (Vec)((VecU)rebias(magnitude, (bits & 0x80u) << 24, 112) | special);
#endif
  }
#if defined(VERNIER_WIDE_CODES)
  VERNIER_INLINE void read_wide(const std::byte* from, float* to) {
    read_wide_halves(
        from, to, [](__m256i words) __attribute__((always_inline)) { return words; });
  }
#endif
  VERNIER_INLINE void write(std::byte* to, Vec x) {
    write_bytes<2, 15, 0x7E>(to, x);
  }
};

/// Whether one of `count` rows of `dim` codes holds one of NaN, the largest magnitude there is.
VERNIER_INLINE bool has_nan_code(const std::byte* codes, const int64_t* offsets, int count, int dim) {
  constexpr int kBytes = kLanes * 4;
  using Bytes = uint8_t __attribute__((vector_size(kBytes)));
  Bytes most = {};
  uint8_t tail = 0;
  for (int k = 0; k < count; ++k) {
    const std::byte* row = codes + offsets[k];
    int i = 0;
    for (; i + kBytes <= dim; i += kBytes) {
      const Bytes magnitudes = load_as<Bytes>(row + i) & uint8_t{0x7F};
      most = magnitudes > most ? magnitudes : most;
    }
    for (; i < dim; ++i) {
      const uint8_t magnitude = static_cast<uint8_t>(row[i]) & 0x7F;
      tail = magnitude > tail ? magnitude : tail;
    }
  }
  for (int i = 0; i < kBytes; ++i) tail = most[i] > tail ? most[i] : tail;
  return tail == 0x7F;
}

}  // namespace
}  // namespace vernier
