#include "tensor/scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "tensor/code_tables.h"

namespace vernier {
namespace {

/// The code of a finite non-negative `magnitude` in a format of kManBits mantissa bits and bias kBias, before any
/// saturation: round to nearest, ties to even. The result may exceed the format's range.
template <int kManBits, int kBias>
uint32_t round_magnitude(float magnitude) {
  constexpr float kSmallestNormal = std::bit_cast<float>(uint32_t{127 + 1 - kBias} << 23);
  if (magnitude < kSmallestNormal) {
    // A float whose last mantissa bit weighs one subnormal step: the addition rounds to a whole number of steps, once.
    constexpr uint32_t kAnchorBits = uint32_t{127 + 1 - kBias - kManBits + 23} << 23;
    return std::bit_cast<uint32_t>(magnitude + std::bit_cast<float>(kAnchorBits)) - kAnchorBits;
  }
  constexpr int kDropped = 23 - kManBits;
  uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  uint32_t odd = (bits >> kDropped) & 1;
  uint32_t rounded = (bits + (uint32_t{1} << (kDropped - 1)) - 1 + odd) >> kDropped;
  return rounded - (uint32_t{127 - kBias} << kManBits);
}

}  // namespace

float e4m3_to_f32(uint8_t code) {
  return kE4M3Values[code];
}

uint8_t f32_to_e4m3(float value) {
  auto sign = static_cast<uint8_t>((std::bit_cast<uint32_t>(value) >> 24) & 0x80);
  if (std::isnan(value)) return sign | 0x7F;
  uint32_t code = round_magnitude<3, 7>(std::min(std::fabs(value), 448.0f));
  return static_cast<uint8_t>(sign | code);
}

float e5m2_to_f32(uint8_t code) {
  return kE5M2Values[code];
}

uint8_t f32_to_e5m2(float value) {
  auto sign = static_cast<uint8_t>((std::bit_cast<uint32_t>(value) >> 24) & 0x80);
  if (std::isnan(value)) return sign | 0x7E;
  uint32_t code = round_magnitude<2, 15>(std::min(std::fabs(value), 57344.0f));
  return static_cast<uint8_t>(sign | code);
}

float e2m1_to_f32(uint8_t code) {
  return kE2M1Values[code & 0xF];
}

uint8_t f32_to_e2m1(float value) {
  CHECK(!std::isnan(value), "E2M1 has no NaN");
  auto sign = static_cast<uint8_t>((std::bit_cast<uint32_t>(value) >> 28) & 0x8);
  uint32_t code = round_magnitude<1, 1>(std::min(std::fabs(value), 6.0f));
  return static_cast<uint8_t>(sign | code);
}

float e8m0_to_f32(uint8_t code) {
  return kE8M0Values[code];
}

uint8_t f32_to_e8m0_ceil(float value) {
  if (std::isnan(value)) return 0xFF;
  if (!(value > 0)) return 1;
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t exponent = (bits >> 23) + ((bits & 0x7FFFFF) != 0 ? 1 : 0);
  return static_cast<uint8_t>(std::clamp<uint32_t>(exponent, 1, 254));
}

}  // namespace vernier
