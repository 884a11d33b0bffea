#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace vernier {

/// Scalar conversions between float32 and the narrow formats: the definition that every kernel is compared with.
/// Encoders round to nearest, ties to even, keep the sign of zero, and saturate to the largest finite value (an
/// infinity too, where the format has none or saturation is asked for); NaN stays NaN, and E2M1, which has none, is
/// handed none.

// The 16-bit conversions stand here, without branches, so that loops over them become vector code.

inline float f16_to_f32(uint16_t bits) {
  uint32_t sign = (bits & 0x8000u) << 16;
  uint32_t magnitude = bits & 0x7FFFu;
  uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  uint32_t exponent_step = magnitude >= 0x7C00u ? 224u << 23 : 112u << 23;
  return std::bit_cast<float>(sign | (magnitude < 0x400u ? subnormal : (magnitude << 13) + exponent_step));
}

/// IEEE: overflow gives infinity.
inline uint16_t f32_to_f16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  // 0.5's last mantissa bit weighs one subnormal step: the addition rounds to a whole number of steps.
  uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  uint32_t normal = ((magnitude + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10);
  uint32_t number = std::min(magnitude < 0x38800000u ? subnormal : normal, 0x7C00u);
  uint32_t nan = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | (magnitude > 0x7F800000u ? nan : number));
}

inline float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

inline uint16_t f32_to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? (bits >> 16) | 0x40u : rounded);
}

float e4m3_to_f32(uint8_t code);
uint8_t f32_to_e4m3(float value);  ///< saturates at 448; NaN gives 0x7F with the sign kept
float e5m2_to_f32(uint8_t code);
uint8_t f32_to_e5m2(float value);       ///< saturates at 57344, infinity too
float e2m1_to_f32(uint8_t code);        ///< low four bits
uint8_t f32_to_e2m1(float value);       ///< saturates at 6. CHECKs that the value is no NaN
float e8m0_to_f32(uint8_t code);        ///< 2^(code - 127); 0xFF is NaN
uint8_t f32_to_e8m0_ceil(float value);  ///< the smallest power of two not below value, clamped to 1..254

}  // namespace vernier
