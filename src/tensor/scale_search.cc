#include "tensor/scale_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>

#include "base/check.h"
#include "tensor/code_tables.h"
#include "tensor/gguf_blocks.h"
#include "tensor/scalar.h"

namespace vernier {
namespace {

constexpr size_t kLargestGroup = 32;
constexpr float kLargestE4M3 = 448.0f;

float largest_of(std::span<const float> values) {
  float largest = 0;
  for (float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

template <int kBits>
float shorten_up(float value) {
  constexpr uint32_t kDropped = (1u << (24 - kBits)) - 1;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + kDropped) & ~kDropped);
}

/// f32_to_e2m1 without branches.
uint8_t nearest_e2m1(float value) {
  const float a = std::fabs(value);
  const int magnitude = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5.0f);
  return static_cast<uint8_t>((std::bit_cast<uint32_t>(value) >> 28 & 8u) | static_cast<uint32_t>(magnitude));
}

/// The E4M3 number nearest to one of at most 448 in magnitude, ties to even, without its sign.
float nearest_e4m3_magnitude(float value) {
  const float a = std::fabs(value);
  const uint32_t bits = std::bit_cast<uint32_t>(a);
  const float normal = std::bit_cast<float>((bits + 0x7FFFFu + ((bits >> 20) & 1u)) & ~0xFFFFFu);
  constexpr float kStep = 0x1.8p14f;  // its last mantissa bit weighs one subnormal step
  const float subnormal = (a + kStep) - kStep;
  return std::min(a < 0x1p-6f ? subnormal : normal, kLargestE4M3);
}

/// Codes of FP4 under one scale, and what they lose.
double encode_e2m1_group(std::span<const float> values, float scale, std::span<uint8_t> codes) {
  double noise = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    codes[i] = nearest_e2m1(scale == 0 ? std::copysign(0.0f, values[i]) : values[i] / scale);
    const double difference = double{kE2M1Values[codes[i]] * scale} - double{values[i]};
    noise += difference * difference;
  }
  return noise;
}

using GroupCodes = std::array<uint8_t, kLargestGroup>;

/// Tries scale codes in order; the first with the least noise wins. `encode` fills codes and gives the noise.
template <class Encode>
uint8_t least_noise(std::span<const int> candidates, std::span<uint8_t> codes, const Encode& encode) {
  GroupCodes tried;
  std::span<uint8_t> attempt(tried.data(), codes.size());
  double least = HUGE_VAL;
  int chosen = candidates.front();
  for (int candidate : candidates) {
    const double noise = encode(candidate, attempt);
    if (!(noise < least) && candidate != candidates.front()) continue;
    least = noise;
    chosen = candidate;
    std::ranges::copy(attempt, codes.begin());
    if (noise == 0) break;
  }
  return static_cast<uint8_t>(chosen);
}

}  // namespace

uint8_t search_mxfp4(std::span<const float> values, std::span<uint8_t> codes) {
  CHECK(values.size() <= kLargestGroup, "a group of {}", values.size());
  const int usual = mxfp4_exponent(values);
  const std::array<int, 3> candidates = {usual, std::min(usual + 1, 254), std::max(usual - 1, 0)};
  return least_noise(candidates, codes, [&](int exponent, std::span<uint8_t> attempt) {
    return encode_e2m1_group(values, e8m0_to_f32(static_cast<uint8_t>(exponent)), attempt);
  });
}

uint8_t search_nvfp4(std::span<const float> values, float outer, std::span<uint8_t> codes) {
  CHECK(values.size() <= kLargestGroup, "a group of {}", values.size());
  const int usual = f32_to_e4m3(largest_of(values) / outer / 6.0f);
  // Five codes are more than the 1.5 that bring the largest value from 6 to 4.
  constexpr int kBelow = 2, kAbove = 5, kLargestCode = 0x7E;
  std::array<int, kBelow + kAbove + 1> candidates{usual};
  size_t count = 1;
  for (int code = std::max(usual - kBelow, 0); code <= std::min(usual + kAbove, kLargestCode); ++code) {
    if (code != usual) candidates[count++] = code;
  }
  return least_noise(std::span(candidates).first(count), codes, [&](int code, std::span<uint8_t> attempt) {
    return encode_e2m1_group(values, kE4M3Values[static_cast<size_t>(code)] * outer, attempt);
  });
}

uint8_t search_mxfp8(std::span<const float> values, std::span<uint8_t> codes) {
  CHECK(values.size() <= kLargestGroup, "a group of {}", values.size());
  const int usual = f32_to_e8m0_ceil(largest_of(values) / kLargestE4M3);
  const std::array<int, 2> candidates = {usual, std::max(usual - 1, 1)};
  return least_noise(candidates, codes, [&](int exponent, std::span<uint8_t> attempt) {
    const float scale = e8m0_to_f32(static_cast<uint8_t>(exponent));
    for (size_t i = 0; i < values.size(); ++i) attempt[i] = f32_to_e4m3(values[i] / scale);
    return byte_noise(values, scale);
  });
}

float nvfp4_global_scale(float largest) {
  // The largest group's scale becomes 256 of at most 448: it may still grow by the 1.5 that search_nvfp4 tries.
  if (largest == 0) return 1.0f;
  float scale = shorten_up<18>(std::max(largest / (6.0f * 256.0f), FLT_MIN));
  while (1 / (1 / scale) != scale) scale = std::bit_cast<float>(std::bit_cast<uint32_t>(scale) + (1u << 6));
  return scale;
}

float byte_scale_candidate(float largest, int candidate) {
  if (largest == 0) return 1.0f;
  const float scale = std::max(largest / kLargestE4M3, FLT_MIN) * std::exp2(static_cast<float>(candidate) / 8);
  // No more bits than 20, rounded up, unless the largest code would then become infinite.
  const float up = shorten_up<20>(scale);
  constexpr uint32_t kDropped = 15;
  return std::isfinite(up * kLargestE4M3)
             ? up
             : std::bit_cast<float>(std::bit_cast<uint32_t>(std::min(scale, FLT_MAX / kLargestE4M3)) & ~kDropped);
}

int least_byte_noise(std::span<const double> noise) {
  const auto least = std::ranges::min_element(noise);
  return *least < noise.front() * 15 / 16 ? static_cast<int>(least - noise.begin()) : 0;
}

double byte_noise(std::span<const float> values, float scale) {
  double noise = 0;
  for (float value : values) {
    const double difference = double{nearest_e4m3_magnitude(value / scale) * scale} - double{std::fabs(value)};
    noise += difference * difference;
  }
  return noise;
}

}  // namespace vernier
