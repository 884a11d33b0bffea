#pragma once

// Codes of the cache to and from vectors of float32. Included by kernel files only. No scale acts here: the kernels
// fold the key's scale into the query, and the value's into the output.

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

// kLargest is the largest number of the type; kLimit the largest float32 that rounds to it, as in KvWriter.

struct StoredF32 {
  static constexpr int kBytes = 4;
  static constexpr float kLargest = 3.4028234e38f;
  static constexpr float kLimit = __builtin_inff();
  VERNIER_INLINE Vec read(const std::byte* from) { return load_as<Vec>(from); }
  VERNIER_INLINE void write(std::byte* to, Vec x) { store(to, x); }
};

struct StoredF16 {
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

struct StoredE4M3 {
  static constexpr int kBytes = 1;
  static constexpr float kLargest = 448.0f;
  static constexpr float kLimit = 464.0f;
  VERNIER_INLINE Vec read(const std::byte* from) {
    VecU bits = __builtin_convertvector(load_as<VecU8>(from), VecU);
    VecU magnitude = bits & 0x7Fu;
    VecU nan = magnitude == 0x7Fu ? VecU{} + 0x7FC00000u : VecU{};
    return (Vec)((VecU)rebias(magnitude << 20, (bits & 0x80u) << 24, 120) | nan);
  }
  VERNIER_INLINE void write(std::byte* to, Vec x) {
    uint8_t codes[kLanes];
    for (int i = 0; i < kLanes; ++i) codes[i] = f32_to_e4m3(x[i]);
    __builtin_memcpy(to, codes, sizeof codes);
  }
};

}  // namespace
}  // namespace vernier
