#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "tensor/qtensor.h"
#include "tensor/scalar.h"

namespace vernier::testing {

/// Every codec, the block formats with several groups and both kinds of scales.
inline std::vector<Codec> codecs_under_test() {
  std::vector<Codec> result(all_codecs().begin(), all_codecs().end());
  for (CodecId id : {CodecId::kE4M3Block, CodecId::kE5M2Block}) {
    for (ScaleType inner : {ScaleType::kF32, ScaleType::kE8M0}) {
      result.push_back(block_codec(id, 4, 8, inner));
      result.push_back(block_codec(id, 1, 5, inner));
      result.push_back(block_codec(id, 3, 128, inner));
    }
  }
  return result;
}

using Random = std::mt19937;

/// Gives the GGUF block at `block` finite scales.
inline void put_gguf_scales(const Codec& codec, std::span<std::byte> block, Random& random) {
  auto put_f16 = [&](size_t at) {
    uint16_t scale = f32_to_f16(std::array{0.3f, -1.7f, 0.6f, 0.0123f}[random() % 4]);
    std::memcpy(block.data() + at, &scale, sizeof(scale));
  };
  switch (codec.id) {
    case CodecId::kQ4_1:
    case CodecId::kQ5_1:
    case CodecId::kQ4_K:
    case CodecId::kQ5_K:
      put_f16(2);
      [[fallthrough]];
    case CodecId::kQ4_0:
    case CodecId::kQ5_0:
    case CodecId::kQ8_0:
      put_f16(0);
      break;
    case CodecId::kQ2_K:
      put_f16(block.size() - 4);
      [[fallthrough]];
    case CodecId::kQ3_K:
    case CodecId::kQ6_K:
      put_f16(block.size() - 2);
      break;
    default:
      block[0] = static_cast<std::byte>(100 + random() % 50);
  }
}

inline Bytes sample_codes(const Codec& codec, int64_t rows, int64_t cols, Random& random) {
  std::vector<std::byte> codes(static_cast<size_t>(codec.code_bytes(rows, cols).value()));
  for (std::byte& code : codes) {
    auto value = static_cast<uint8_t>(random() & 0xFF);
    bool special = (codec.element == Element::kE4M3 && (value & 0x7F) == 0x7F) ||
                   (codec.element == Element::kE5M2 && (value & 0x7F) >= 0x7C);
    code = std::byte{special ? uint8_t{0x80} : value};
  }
  auto block_bytes = static_cast<size_t>(codec.block_bytes);
  for (size_t at = 0; block_bytes > 0 && at < codes.size(); at += block_bytes) {
    put_gguf_scales(codec, std::span(codes).subspan(at, block_bytes), random);
  }
  size_t width = codec.is_dense() ? static_cast<size_t>(codec.bits) / 8 : 0;
  for (size_t at = 0; width > 0 && at < codes.size(); at += width) {
    float value = (static_cast<float>(random() % 20001) - 10000.0f) * 0.0017f;
    uint16_t narrow = codec.element == Element::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
    std::memcpy(codes.data() + at, width == 4 ? static_cast<void*>(&value) : &narrow, width);
  }
  return Bytes(std::move(codes));
}

inline Bytes sample_scales(const Codec& codec, int64_t rows, int64_t cols, Random& random) {
  auto count = static_cast<size_t>(codec.groups_down(rows) * codec.groups_across(cols));
  std::vector<std::byte> scales(count * (codec.inner == ScaleType::kF32 ? 4 : 1));
  for (size_t i = 0; i < count; ++i) {
    float value = std::array{0.3f, 1.7f, 0.6f, 0.011f, 23.0f}[random() % 5] * (1.0f + static_cast<float>(i) * 0.001f);
    if (codec.inner == ScaleType::kF32) std::memcpy(scales.data() + i * 4, &value, 4);
    if (codec.inner == ScaleType::kE4M3) scales[i] = std::byte{f32_to_e4m3(value)};
    if (codec.inner == ScaleType::kE8M0) scales[i] = static_cast<std::byte>(110 + random() % 40);
  }
  return Bytes(std::move(scales));
}

/// A valid matrix of random codes, all of them finite numbers, under uneven scales: no two neighbours equal, few of
/// them powers of two. `segments` above 1 gives NVFP4 that many global scales.
inline QTensor sample_qtensor(const Codec& codec, int64_t rows, int64_t cols, uint32_t seed, int segments = 1) {
  Random random(seed);
  QTensorParts parts{codec, rows, cols, sample_codes(codec, rows, cols, random), std::nullopt, {}, {}, "sample"};
  if (codec.inner != ScaleType::kNone) parts.inner_scales = sample_scales(codec, rows, cols, random);
  if (codec.outer_scale) {
    for (int i = 0; i < segments; ++i) {
      parts.outer_scales.push_back(0.3f + 0.7f * static_cast<float>(i));
      parts.segment_rows.push_back(i + 1 < segments ? rows / segments : rows - rows / segments * (segments - 1));
    }
  }
  return QTensor::make(std::move(parts)).value();
}

}  // namespace vernier::testing
