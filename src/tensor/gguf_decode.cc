#include <array>
#include <cstring>

#include "base/check.h"
#include "tensor/code_tables.h"
#include "tensor/gguf_blocks.h"
#include "tensor/gguf_layout.h"
#include "tensor/scalar.h"

namespace vernier {
namespace {

using namespace gguf_layout;  // NOLINT: the names of the layouts are those of the formats

// Products and sums stand in the order of the format's reference decoder, so that results are the same bits.

void decode(const Q4_0& block, float* out) {
  float d = f16_to_f32(block.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((block.nibbles[i] & 0xF) - 8);
    out[i + 16] = d * static_cast<float>((block.nibbles[i] >> 4) - 8);
  }
}

void decode(const Q4_1& block, float* out) {
  float d = f16_to_f32(block.d);
  float m = f16_to_f32(block.m);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(block.nibbles[i] & 0xF) + m;
    out[i + 16] = d * static_cast<float>(block.nibbles[i] >> 4) + m;
  }
}

template <class Block>
int five_bits(const Block& block, int i) {
  int low = block.nibbles[small_nibble_byte(i)] >> small_nibble_shift(i) & 0xF;
  return low | (block.fifth_bits[i / 8] >> (i % 8) & 1) << 4;
}

void decode(const Q5_0& block, float* out) {
  float d = f16_to_f32(block.d);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = d * static_cast<float>(five_bits(block, i) - 16);
}

void decode(const Q5_1& block, float* out) {
  float d = f16_to_f32(block.d);
  float m = f16_to_f32(block.m);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = d * static_cast<float>(five_bits(block, i)) + m;
}

void decode(const Q8_0& block, float* out) {
  float d = f16_to_f32(block.d);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = static_cast<float>(block.codes[i]) * d;
}

void decode(const Q2_K& block, float* out) {
  float d = f16_to_f32(block.d);
  float dmin = f16_to_f32(block.dmin);
  for (int group = 0; group < 16; ++group) {
    float scale = d * static_cast<float>(block.scales[group] & 0xF);
    float minimum = dmin * static_cast<float>(block.scales[group] >> 4);
    const uint8_t* crumbs = block.crumbs + crumb_byte(group * 16);
    int shift = crumb_shift(group * 16);
    for (int i = 0; i < 16; ++i) out[group * 16 + i] = scale * static_cast<float>(crumbs[i] >> shift & 3) - minimum;
  }
}

void decode(const Q3_K& block, float* out) {
  float d = f16_to_f32(block.d);
  for (int group = 0; group < 16; ++group) {
    float scale = d * static_cast<float>(q3_scale(block.scales, group) - 32);
    const uint8_t* crumbs = block.crumbs + crumb_byte(group * 16);
    const uint8_t* high = block.high_bits + group % 2 * 16;
    int shift = crumb_shift(group * 16);
    int bit = group / 2;
    for (int i = 0; i < 16; ++i) {
      // A set bit means no offset: codes run from -4 to 3.
      int code = (crumbs[i] >> shift & 3) - 4 + (high[i] >> bit & 1) * 4;
      out[group * 16 + i] = scale * static_cast<float>(code);
    }
  }
}

void decode(const Q4_K& block, float* out) {
  float d = f16_to_f32(block.d);
  float dmin = f16_to_f32(block.dmin);
  for (int group = 0; group < 8; ++group) {
    ScaleMin packed = scale_min(block.scales, group);
    float scale = d * static_cast<float>(packed.scale);
    float minimum = dmin * static_cast<float>(packed.minimum);
    const uint8_t* nibbles = block.nibbles + nibble_byte(group * 32);
    int shift = nibble_shift(group * 32);
    for (int i = 0; i < 32; ++i) out[group * 32 + i] = scale * static_cast<float>(nibbles[i] >> shift & 0xF) - minimum;
  }
}

void decode(const Q5_K& block, float* out) {
  float d = f16_to_f32(block.d);
  float dmin = f16_to_f32(block.dmin);
  for (int group = 0; group < 8; ++group) {
    ScaleMin packed = scale_min(block.scales, group);
    float scale = d * static_cast<float>(packed.scale);
    float minimum = dmin * static_cast<float>(packed.minimum);
    const uint8_t* nibbles = block.nibbles + nibble_byte(group * 32);
    int shift = nibble_shift(group * 32);
    for (int i = 0; i < 32; ++i) {
      int code = (nibbles[i] >> shift & 0xF) | (block.fifth_bits[i] >> group & 1) << 4;
      out[group * 32 + i] = scale * static_cast<float>(code) - minimum;
    }
  }
}

void decode(const Q6_K& block, float* out) {
  float d = f16_to_f32(block.d);
  for (int group = 0; group < 16; ++group) {
    float scale = d * static_cast<float>(block.scales[group]);
    const uint8_t* nibbles = block.nibbles + q6_nibble_byte(group * 16);
    const uint8_t* crumbs = block.high_crumbs + crumb_byte(group * 16);
    int nibble = q6_nibble_shift(group * 16);
    int crumb = crumb_shift(group * 16);
    for (int i = 0; i < 16; ++i) {
      int code = ((nibbles[i] >> nibble & 0xF) | (crumbs[i] >> crumb & 3) << 4) - 32;
      out[group * 16 + i] = scale * static_cast<float>(code);
    }
  }
}

void decode(const Mxfp4& block, float* out) {
  float scale = kE8M0Values[block.exponent];
  for (int i = 0; i < 16; ++i) {
    out[i] = kE2M1Values[block.nibbles[i] & 0xF] * scale;
    out[i + 16] = kE2M1Values[block.nibbles[i] >> 4] * scale;
  }
}

template <class Block>
void decode_all(std::span<const std::byte> blocks, std::span<float> values) {
  size_t count = blocks.size() / sizeof(Block);
  size_t elements = values.size() / count;
  for (size_t i = 0; i < count; ++i) {
    Block block;  // copied: blocks of a mapped file stand at any byte
    std::memcpy(&block, blocks.data() + i * sizeof(Block), sizeof(Block));
    decode(block, values.data() + i * elements);
  }
}

bool is_finite_f16(uint16_t bits) {
  return (bits & 0x7C00) != 0x7C00;
}

bool has_good_scale(const Mxfp4& block) {
  return block.exponent != 0xFF;
}
template <class Block>
bool has_good_scale(const Block& block) {
  bool good = is_finite_f16(block.d);
  if constexpr (requires { block.m; }) good = good && is_finite_f16(block.m);
  if constexpr (requires { block.dmin; }) good = good && is_finite_f16(block.dmin);
  return good;
}

template <class Block>
std::optional<int64_t> find_bad(std::span<const std::byte> blocks) {
  for (size_t i = 0; i < blocks.size() / sizeof(Block); ++i) {
    Block block;
    std::memcpy(&block, blocks.data() + i * sizeof(Block), sizeof(Block));
    if (!has_good_scale(block)) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

/// Calls `visit` with an empty block of the codec's type.
template <class Visit>
auto with_block_type(CodecId id, Visit visit) {
  switch (id) {
    case CodecId::kQ4_0:
      return visit(Q4_0{});
    case CodecId::kQ4_1:
      return visit(Q4_1{});
    case CodecId::kQ5_0:
      return visit(Q5_0{});
    case CodecId::kQ5_1:
      return visit(Q5_1{});
    case CodecId::kQ8_0:
      return visit(Q8_0{});
    case CodecId::kQ2_K:
      return visit(Q2_K{});
    case CodecId::kQ3_K:
      return visit(Q3_K{});
    case CodecId::kQ4_K:
      return visit(Q4_K{});
    case CodecId::kQ5_K:
      return visit(Q5_K{});
    case CodecId::kQ6_K:
      return visit(Q6_K{});
    default:
      CHECK(id == CodecId::kGgufMxfp4, "no GGUF block format");
      return visit(Mxfp4{});
  }
}

}  // namespace

void decode_gguf_blocks(const Codec& codec, std::span<const std::byte> blocks, std::span<float> values) {
  size_t count = blocks.size() / static_cast<size_t>(codec.block_bytes);
  CHECK(count > 0 && blocks.size() == count * static_cast<size_t>(codec.block_bytes) &&
            values.size() == count * static_cast<size_t>(codec.group_cols),
        "{} bytes of {} for {} values", blocks.size(), codec.name, values.size());
  with_block_type(codec.id, [&]<class Block>(Block) { decode_all<Block>(blocks, values); });
}

std::optional<int64_t> find_bad_block_scale(const Codec& codec, std::span<const std::byte> blocks) {
  return with_block_type(codec.id, [&]<class Block>(Block) { return find_bad<Block>(blocks); });
}

}  // namespace vernier
