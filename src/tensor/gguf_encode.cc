#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "tensor/gguf_blocks.h"
#include "tensor/gguf_encode_k.h"
#include "tensor/gguf_layout.h"
#include "tensor/scalar.h"
#include "tensor/scale_level.h"

namespace vernier {
namespace {

using namespace gguf_layout;  // NOLINT: the names of the layouts are those of the formats

using Values = std::span<const float, kSmallBlock>;
using ::vernier::encode_block;  // the overloads of the K formats, beside those below
using Codes = std::array<int, kSmallBlock>;

/// Codes of x ~ d * code + m and whether they give every value back.
struct Attempt {
  uint16_t d = 0;
  uint16_t m = 0;
  Codes codes{};
  bool exact = true;
};

Attempt attempt(Values values, float d, float m, int lowest, int highest) {
  Attempt result;
  result.d = saturated_f16(d);
  result.m = saturated_f16(m);
  float stored_d = f16_to_f32(result.d);
  float stored_m = f16_to_f32(result.m);
  for (size_t i = 0; i < values.size(); ++i) {
    result.codes[i] = nearest_code(values[i] - stored_m, stored_d, lowest, highest);
    result.exact = result.exact && stored_d * static_cast<float>(result.codes[i]) + stored_m == values[i];
  }
  return result;
}

/// Whether `d` is a binary16 number but for the rounding of the values it was derived from, none above `largest`.
bool is_near_f16(float d, float largest) {
  float stored = f16_to_f32(f32_to_f16(d));
  return std::fabs(stored - d) <= std::fabs(largest) * 0x1p-22f;
}

/// Codes with a scale alone. `usual` is the code that the format gives the value of largest magnitude (its sign goes to
/// d); another code for it is taken only where that loses nothing and `usual` does.
Attempt encode_symmetric(Values values, int lowest, int highest, int usual) {
  float largest = *std::ranges::max_element(values, {}, [](float value) { return std::fabs(value); });
  Attempt first = attempt(values, largest / static_cast<float>(usual), 0, lowest, highest);
  if (first.exact) return first;
  for (int code = lowest; code <= highest; ++code) {
    if (code == 0) continue;
    float d = largest / static_cast<float>(code);
    if (!is_near_f16(d, d)) continue;
    if (Attempt other = attempt(values, d, 0, lowest, highest); other.exact) return other;
  }
  return first;
}

/// Codes 0..highest with a scale and an offset: the range of the values is spread over all codes, unless that loses
/// something and spreading it over fewer, or downwards, loses nothing.
Attempt encode_with_offset(Values values, int highest) {
  auto [low, high] = std::ranges::minmax(values);
  // Halves first: the difference of two large values need not overflow.
  float half_range = high / 2 - low / 2;
  Attempt first = attempt(values, half_range / static_cast<float>(highest) * 2, low, 0, highest);
  if (first.exact) return first;
  float largest = std::max(std::fabs(low), std::fabs(high));
  for (int span = highest; span >= 1; --span) {
    float step = half_range / static_cast<float>(span) * 2;
    if (!is_near_f16(step, largest)) continue;
    for (int code = 0; code + span <= highest; ++code) {
      Attempt up = attempt(values, step, low - step * static_cast<float>(code), 0, highest);
      if (up.exact) return up;
      Attempt down = attempt(values, -step, high + step * static_cast<float>(code), 0, highest);
      if (down.exact) return down;
    }
  }
  return first;
}

template <class Block>
void store_nibbles(const Codes& codes, int offset, Block& block) {
  for (int i = 0; i < kSmallBlock; ++i) {
    int code = codes[static_cast<size_t>(i)] + offset;
    block.nibbles[small_nibble_byte(i)] |= static_cast<uint8_t>((code & 0xF) << small_nibble_shift(i));
    if constexpr (requires { block.fifth_bits; }) {
      block.fifth_bits[i / 8] |= static_cast<uint8_t>((code >> 4) << (i % 8));
    }
  }
}

void encode_block(Values values, Q4_0& block) {
  Attempt found = encode_symmetric(values, -8, 7, -8);
  block.d = found.d;
  store_nibbles(found.codes, 8, block);
}

void encode_block(Values values, Q4_1& block) {
  Attempt found = encode_with_offset(values, 15);
  block.d = found.d;
  block.m = found.m;
  store_nibbles(found.codes, 0, block);
}

void encode_block(Values values, Q5_0& block) {
  Attempt found = encode_symmetric(values, -16, 15, -16);
  block.d = found.d;
  store_nibbles(found.codes, 16, block);
}

void encode_block(Values values, Q5_1& block) {
  Attempt found = encode_with_offset(values, 31);
  block.d = found.d;
  block.m = found.m;
  store_nibbles(found.codes, 0, block);
}

void encode_block(Values values, Q8_0& block) {
  float largest = *std::ranges::max_element(values, {}, [](float value) { return std::fabs(value); });
  Attempt found = encode_symmetric(values, -128, 127, largest < 0 ? -127 : 127);
  block.d = found.d;
  for (size_t i = 0; i < kSmallBlock; ++i) block.codes[i] = static_cast<int8_t>(found.codes[i]);
}

void encode_block(Values values, Mxfp4& block) {
  block.exponent = mxfp4_exponent(values);
  float scale = e8m0_to_f32(block.exponent);
  for (int i = 0; i < kSmallBlock; ++i) {
    int code = f32_to_e2m1(values[static_cast<size_t>(i)] / scale);
    block.nibbles[small_nibble_byte(i)] |= static_cast<uint8_t>(code << small_nibble_shift(i));
  }
}

template <class Block, size_t kElements>
void encode_all(std::span<const float> values, std::span<std::byte> blocks) {
  std::array<float, kElements> finite;
  for (size_t i = 0; i < blocks.size() / sizeof(Block); ++i) {
    // An infinity is taken for the largest finite float, and so saturates.
    std::ranges::transform(values.subspan(i * kElements, kElements), finite.begin(),
                           [](float value) { return std::clamp(value, -FLT_MAX, FLT_MAX); });
    Block block{};
    encode_block(std::span<const float, kElements>(finite), block);
    std::memcpy(blocks.data() + i * sizeof(Block), &block, sizeof(Block));
  }
}

}  // namespace

uint8_t mxfp4_exponent(std::span<const float> values) {
  float largest = 0;
  for (float value : values) largest = std::max(largest, std::fabs(value));
  if (largest == 0) return 0;
  return static_cast<uint8_t>(std::clamp(std::ilogb(std::min(largest, FLT_MAX)) - 2 + 127, 0, 254));
}

void encode_gguf_blocks(const Codec& codec, std::span<const float> values, std::span<std::byte> blocks) {
  switch (codec.id) {
    case CodecId::kQ4_0:
      return encode_all<Q4_0, kSmallBlock>(values, blocks);
    case CodecId::kQ4_1:
      return encode_all<Q4_1, kSmallBlock>(values, blocks);
    case CodecId::kQ5_0:
      return encode_all<Q5_0, kSmallBlock>(values, blocks);
    case CodecId::kQ5_1:
      return encode_all<Q5_1, kSmallBlock>(values, blocks);
    case CodecId::kQ8_0:
      return encode_all<Q8_0, kSmallBlock>(values, blocks);
    case CodecId::kQ2_K:
      return encode_all<Q2_K, kSuperBlock>(values, blocks);
    case CodecId::kQ3_K:
      return encode_all<Q3_K, kSuperBlock>(values, blocks);
    case CodecId::kQ4_K:
      return encode_all<Q4_K, kSuperBlock>(values, blocks);
    case CodecId::kQ5_K:
      return encode_all<Q5_K, kSuperBlock>(values, blocks);
    case CodecId::kQ6_K:
      return encode_all<Q6_K, kSuperBlock>(values, blocks);
    default:
      CHECK(codec.id == CodecId::kGgufMxfp4, "{} is no GGUF block format", codec.name);
      return encode_all<Mxfp4, kSmallBlock>(values, blocks);
  }
}

}  // namespace vernier
