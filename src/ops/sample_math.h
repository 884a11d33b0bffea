#pragma once

#include <cstdint>

/// The arithmetic behind sampling, for hosts and devices (C++17, constexpr: device code may call it); sample_spec.h has
/// it for everybody. Included by files alone that are built without fused multiply-adds, which would round otherwise.
namespace vernier::sample_math {

inline constexpr float kRounder = 0x1.8p23F;          ///< what is added to a number below 2^22 rounds it, ties to even
inline constexpr float kUnseenBelow = 22.5F;          ///< a token that much below the best weighs nothing
inline constexpr float kWholeWeight = 4294967040.0F;  ///< of the best token; the largest float below 2^32

constexpr uint32_t rotated(uint32_t word, int left) {
  return word << left | word >> (32 - left);
}

constexpr float exp_of(float x) {
  if (!(x > -87.0F)) return 0;
  // x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, the first exact for small n.
  float n = (x * 1.44269504F + kRounder) - kRounder;
  float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.0F / 5040;  // Taylor: the first term left out is below 6e-9
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  return p * __builtin_bit_cast(float, static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23);
}

constexpr float log_of(float x) {
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const int32_t e = static_cast<int32_t>(bits - 0x3F3504F3U) >> 23;
  float m = __builtin_bit_cast(float, bits - (static_cast<uint32_t>(e) << 23));
  float s = (m - 1.0F) / (m + 1.0F);
  float z = s * s;
  float p = 1.0F / 9;  // the first term left out is below 5e-9 of the result
  p = p * z + 1.0F / 7;
  p = p * z + 1.0F / 5;
  p = p * z + 1.0F / 3;
  float ln_m = 2.0F * s + 2.0F * s * z * p;
  return static_cast<float>(e) * 0.693359375F + (static_cast<float>(e) * -2.12194440e-4F + ln_m);
}

constexpr uint32_t mixed(uint32_t hash, uint32_t block) {
  block *= 0xCC9E2D51U;
  block = rotated(block, 15) * 0x1B873593U;
  return rotated(hash ^ block, 13) * 5 + 0xE6546B64U;
}
constexpr uint32_t hash_of(uint64_t seed, uint32_t position, uint32_t token) {
  uint32_t h = mixed(mixed(0, static_cast<uint32_t>(seed)), static_cast<uint32_t>(seed >> 32));
  h = mixed(mixed(h, position), token);
  h ^= 16;
  h = (h ^ (h >> 16)) * 0x85EBCA6BU;
  h = (h ^ (h >> 13)) * 0xC2B2AE35U;
  return h ^ (h >> 16);
}

constexpr float noise_of(uint64_t seed, uint32_t position, uint32_t token) {
  float u = static_cast<float>(hash_of(seed, position, token)) * 0x1p-32F;
  const float most = 1.0F - 0x1p-24F;
  u = u < 0x1p-32F ? 0x1p-32F : u > most ? most : u;
  return -log_of(-log_of(u));
}

/// What a token that stands so far below the best weighs, in fixed point: sums do not depend on their order.
constexpr uint32_t weight_of(float below_best) {
  return static_cast<uint32_t>(exp_of(below_best) * kWholeWeight);
}

}  // namespace vernier::sample_math
