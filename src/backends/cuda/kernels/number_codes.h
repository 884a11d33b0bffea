#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define VERNIER_ANYWHERE __host__ __device__ __forceinline__
#else
#define VERNIER_ANYWHERE inline
#endif

/// Narrow numbers and float32, by integers: the same bits on the device and on the host, where a test compares them
/// with the definitions of tensor/scalar.h.
namespace vernier::cuda {

VERNIER_ANYWHERE uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}
VERNIER_ANYWHERE float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

inline constexpr uint32_t kNanBits = 0x7FC00000u;

/// 2^exponent of a normal float.
VERNIER_ANYWHERE float power_of_two(int exponent) {
  return float_of(static_cast<uint32_t>(exponent + 127) << 23);
}

/// An unsigned code without infinities or NaN: exponent and mantissa moved to float32's places, and the bias by a
/// product, which is exact for subnormal ones, too.
template <int kMantissa, int kBias>
VERNIER_ANYWHERE float finite_number(uint32_t magnitude) {
  return float_of(magnitude << (23 - kMantissa)) * power_of_two(127 - kBias);
}

VERNIER_ANYWHERE float from_f16(uint32_t code) {
  const uint32_t magnitude = code & 0x7FFFu, sign = (code & 0x8000u) << 16;
  const uint32_t special = 0x7F800000u | (magnitude & 0x3FFu) << 13;
  const uint32_t number = magnitude >= 0x7C00u ? special : bits_of(finite_number<10, 15>(magnitude));
  return float_of(sign | number);
}
VERNIER_ANYWHERE float from_bf16(uint32_t code) {
  return float_of(code << 16);
}
VERNIER_ANYWHERE float from_e4m3(uint32_t code) {
  const uint32_t magnitude = code & 0x7Fu, sign = (code & 0x80u) << 24;
  return float_of(sign | (magnitude == 0x7Fu ? kNanBits : bits_of(finite_number<3, 7>(magnitude))));
}
VERNIER_ANYWHERE float from_e5m2(uint32_t code) {
  const uint32_t magnitude = code & 0x7Fu, sign = (code & 0x80u) << 24;
  const uint32_t special = magnitude == 0x7Cu ? 0x7F800000u : kNanBits;
  return float_of(sign | (magnitude >= 0x7Cu ? special : bits_of(finite_number<2, 15>(magnitude))));
}
VERNIER_ANYWHERE float from_e2m1(uint32_t code) {
  return float_of((code & 8u) << 28 | bits_of(finite_number<1, 1>(code & 7u)));
}
VERNIER_ANYWHERE float from_e8m0(uint32_t code) {
  return float_of(code == 0 ? 0x00400000u : code == 0xFFu ? kNanBits : code << 23);
}

/// Nearest code, ties to even, at most `largest`; of a number that is no NaN.
template <int kMantissa, int kBias>
VERNIER_ANYWHERE uint32_t nearest_code(float value, uint32_t largest) {
  const uint32_t magnitude = bits_of(value) & 0x7FFFFFFFu;
  // Below the smallest normal number codes are steps of one size: the last mantissa bit of `unit` weighs one of them.
  const float unit = power_of_two(1 - kBias - kMantissa + 23);
  const uint32_t subnormal = bits_of(float_of(magnitude) + unit) - bits_of(unit);
  const uint32_t half = (1u << (22 - kMantissa)) - 1u, odd = magnitude >> (23 - kMantissa) & 1u;
  const uint32_t normal =
      ((magnitude + half + odd) >> (23 - kMantissa)) - (static_cast<uint32_t>(127 - kBias) << kMantissa);
  const uint32_t code = magnitude < static_cast<uint32_t>(128 - kBias) << 23 ? subnormal : normal;
  return code < largest ? code : largest;
}

// Of numbers within the type's range or NaN; a NaN keeps its sign.
VERNIER_ANYWHERE uint32_t to_f16(float value) {
  const uint32_t bits = bits_of(value), magnitude = bits & 0x7FFFFFFFu;
  const uint32_t nan = 0x7E00u | (magnitude >> 13 & 0x3FFu);
  return (bits >> 16 & 0x8000u) | (magnitude > 0x7F800000u ? nan : nearest_code<10, 15>(value, 0x7BFFu));
}
VERNIER_ANYWHERE uint32_t to_bf16(float value) {
  const uint32_t bits = bits_of(value);
  return (bits & 0x7FFFFFFFu) > 0x7F800000u ? (bits >> 16) | 0x40u : (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
}
VERNIER_ANYWHERE uint32_t to_e4m3(float value) {
  const uint32_t bits = bits_of(value);
  return (bits >> 24 & 0x80u) | ((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7Fu : nearest_code<3, 7>(value, 0x7Eu));
}
VERNIER_ANYWHERE uint32_t to_e5m2(float value) {
  const uint32_t bits = bits_of(value), magnitude = bits & 0x7FFFFFFFu;
  return (bits >> 24 & 0x80u) | (magnitude > 0x7F800000u ? 0x7Eu : nearest_code<2, 15>(value, 0x7Bu));
}

}  // namespace vernier::cuda
