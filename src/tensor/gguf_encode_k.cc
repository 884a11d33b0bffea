#include "tensor/gguf_encode_k.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tensor/scalar.h"

namespace vernier {
namespace {

using namespace gguf_layout;  // NOLINT: the names of the layouts are those of the formats

/// Scales, minimums and codes of a block whose groups are x ~ d * scale * code - dmin * minimum.
struct OffsetBlock {
  uint16_t d = 0;
  uint16_t dmin = 0;
  std::array<ScaleMin, 16> groups{};
  std::array<int, kSuperBlock> codes{};
};

struct OffsetFormat {
  int groups;
  int highest_code;
  int highest_scale;  ///< of scales and of minimums
};

OffsetBlock encode_offset_block(SuperBlockValues values, const OffsetFormat& format) {
  auto group_size = static_cast<size_t>(kSuperBlock / format.groups);
  std::array<float, 16> scales{};
  std::array<float, 16> minimums{};
  for (size_t j = 0; j < static_cast<size_t>(format.groups); ++j) {
    auto [low, high] = std::ranges::minmax(values.subspan(j * group_size, group_size));
    // A minimum is stored without sign and subtracted, so a group cannot start above 0.
    minimums[j] = -std::min(low, 0.0f);
    scales[j] = (std::max(high, 0.0f) / 2 + minimums[j] / 2) / static_cast<float>(format.highest_code) * 2;
  }
  OffsetBlock block;
  block.d = saturated_f16(*std::ranges::max_element(scales) / static_cast<float>(format.highest_scale));
  block.dmin = saturated_f16(*std::ranges::max_element(minimums) / static_cast<float>(format.highest_scale));
  float d = f16_to_f32(block.d);
  float dmin = f16_to_f32(block.dmin);
  for (size_t j = 0; j < static_cast<size_t>(format.groups); ++j) {
    block.groups[j] = {static_cast<uint8_t>(nearest_code(scales[j], d, 0, format.highest_scale)),
                       static_cast<uint8_t>(nearest_code(minimums[j], dmin, 0, format.highest_scale))};
    float scale = d * static_cast<float>(block.groups[j].scale);
    float minimum = dmin * static_cast<float>(block.groups[j].minimum);
    for (size_t i = j * group_size; i < (j + 1) * group_size; ++i) {
      block.codes[i] = nearest_code(values[i] + minimum, scale, 0, format.highest_code);
    }
  }
  return block;
}

/// Scales and codes of a block whose 16 groups are x ~ d * scale * code.
struct SignedBlock {
  uint16_t d = 0;
  std::array<int, 16> scales{};
  std::array<int, kSuperBlock> codes{};
};

/// Codes and scales run from `lowest` to -lowest - 1; the value of largest magnitude gets the lowest code, and the
/// largest group the lowest scale.
SignedBlock encode_signed_block(SuperBlockValues values, int lowest_code, int lowest_scale) {
  constexpr size_t kGroup = 16;
  auto magnitude = [](float value) { return std::fabs(value); };
  std::array<float, 16> scales{};
  for (size_t j = 0; j < scales.size(); ++j) {
    std::span<const float> group = values.subspan(j * kGroup, kGroup);
    scales[j] = *std::ranges::max_element(group, {}, magnitude) / static_cast<float>(lowest_code);
  }
  SignedBlock block;
  block.d = saturated_f16(*std::ranges::max_element(scales, {}, magnitude) / static_cast<float>(lowest_scale));
  float d = f16_to_f32(block.d);
  for (size_t j = 0; j < scales.size(); ++j) {
    block.scales[j] = nearest_code(scales[j], d, lowest_scale, -lowest_scale - 1);
    float scale = d * static_cast<float>(block.scales[j]);
    for (size_t i = j * kGroup; i < (j + 1) * kGroup; ++i) {
      block.codes[i] = nearest_code(values[i], scale, lowest_code, -lowest_code - 1);
    }
  }
  return block;
}

template <class Block>
void store_scales_mins(const OffsetBlock& from, Block& block) {
  block.d = from.d;
  block.dmin = from.dmin;
  for (int j = 0; j < 8; ++j) set_scale_min(block.scales, j, from.groups[static_cast<size_t>(j)]);
}

void put(uint8_t& byte, int bits, int shift) {
  byte = static_cast<uint8_t>(byte | bits << shift);
}

}  // namespace

uint16_t saturated_f16(float value) {
  return f32_to_f16(std::clamp(value, -65504.0f, 65504.0f));
}

int nearest_code(float value, float scale, int lowest, int highest) {
  if (scale == 0) return std::clamp(0, lowest, highest);
  float code = std::nearbyint(value / scale);
  return static_cast<int>(std::clamp(code, static_cast<float>(lowest), static_cast<float>(highest)));
}

void encode_block(SuperBlockValues values, Q2_K& block) {
  OffsetBlock found = encode_offset_block(values, {16, 3, 15});
  block.d = found.d;
  block.dmin = found.dmin;
  for (size_t j = 0; j < 16; ++j) {
    block.scales[j] = static_cast<uint8_t>(found.groups[j].scale | found.groups[j].minimum << 4);
  }
  for (int i = 0; i < kSuperBlock; ++i)
    put(block.crumbs[crumb_byte(i)], found.codes[static_cast<size_t>(i)], crumb_shift(i));
}

void encode_block(SuperBlockValues values, Q3_K& block) {
  SignedBlock found = encode_signed_block(values, -4, -32);
  block.d = found.d;
  for (int j = 0; j < 16; ++j) set_q3_scale(block.scales, j, found.scales[static_cast<size_t>(j)] + 32);
  for (int i = 0; i < kSuperBlock; ++i) {
    int code = found.codes[static_cast<size_t>(i)] + 4;
    put(block.crumbs[crumb_byte(i)], code & 3, crumb_shift(i));
    put(block.high_bits[i % 32], code >> 2, i / 32);
  }
}

void encode_block(SuperBlockValues values, Q4_K& block) {
  OffsetBlock found = encode_offset_block(values, {8, 15, 63});
  store_scales_mins(found, block);
  for (int i = 0; i < kSuperBlock; ++i)
    put(block.nibbles[nibble_byte(i)], found.codes[static_cast<size_t>(i)], nibble_shift(i));
}

void encode_block(SuperBlockValues values, Q5_K& block) {
  OffsetBlock found = encode_offset_block(values, {8, 31, 63});
  store_scales_mins(found, block);
  for (int i = 0; i < kSuperBlock; ++i) {
    int code = found.codes[static_cast<size_t>(i)];
    put(block.nibbles[nibble_byte(i)], code & 0xF, nibble_shift(i));
    put(block.fifth_bits[i % 32], code >> 4, i / 32);
  }
}

void encode_block(SuperBlockValues values, Q6_K& block) {
  SignedBlock found = encode_signed_block(values, -32, -128);
  block.d = found.d;
  for (size_t j = 0; j < 16; ++j) block.scales[j] = static_cast<int8_t>(found.scales[j]);
  for (int i = 0; i < kSuperBlock; ++i) {
    int code = found.codes[static_cast<size_t>(i)] + 32;
    put(block.nibbles[q6_nibble_byte(i)], code & 0xF, q6_nibble_shift(i));
    put(block.high_crumbs[crumb_byte(i)], code >> 4, crumb_shift(i));
  }
}

}  // namespace vernier
