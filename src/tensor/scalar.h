#pragma once

#include <cstdint>

namespace vernier {

/// Scalar conversions between float32 and the narrow formats: the definition that every kernel is compared with.
/// Encoders round to nearest, ties to even, keep the sign of zero, and saturate to the largest finite value (an
/// infinity too, where the format has none or saturation is asked for); NaN stays NaN, and E2M1, which has none, is
/// handed none.

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);  ///< IEEE: overflow gives infinity
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);

float e4m3_to_f32(uint8_t code);
uint8_t f32_to_e4m3(float value);  ///< saturates at 448; NaN gives 0x7F with the sign kept
float e5m2_to_f32(uint8_t code);
uint8_t f32_to_e5m2(float value);       ///< saturates at 57344, infinity too
float e2m1_to_f32(uint8_t code);        ///< low four bits
uint8_t f32_to_e2m1(float value);       ///< saturates at 6. CHECKs that the value is no NaN
float e8m0_to_f32(uint8_t code);        ///< 2^(code - 127); 0xFF is NaN
uint8_t f32_to_e8m0_ceil(float value);  ///< the smallest power of two not below value, clamped to 1..254

}  // namespace vernier
