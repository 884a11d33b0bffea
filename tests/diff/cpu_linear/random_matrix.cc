#include "diff/cpu_linear/random_matrix.h"

#include <cmath>
#include <cstring>

#include "tensor/gguf_layout.h"
#include "tensor/scalar.h"

namespace vernier::testing {
namespace {

class Source {
 public:
  explicit Source(uint32_t seed) : random_(seed) {}

  uint8_t byte() { return static_cast<uint8_t>(random_()); }
  float scale() { return std::exp2(uniform_(random_) * 3 - 6) * (byte() % 5 == 0 ? -1.0f : 1.0f); }
  float positive_scale() { return std::abs(scale()); }
  float normal() { return normal_(random_); }
  void fill(std::vector<std::byte>& bytes) {
    for (std::byte& b : bytes) b = std::byte{byte()};
  }

 private:
  std::mt19937 random_;
  std::uniform_real_distribution<float> uniform_;
  std::normal_distribution<float> normal_;
};

void put_half(std::byte* at, float value) {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(at, &bits, 2);
}

/// Offsets of the f16 numbers of a block; -1 where there is none.
struct HalfPlaces {
  int d;
  int minimum;
};

HalfPlaces half_places(CodecId id) {
  using namespace gguf_layout;  // NOLINT
  switch (id) {
    case CodecId::kQ4_1:
    case CodecId::kQ5_1:
    case CodecId::kQ4_K:
    case CodecId::kQ5_K:
      return {0, 2};
    case CodecId::kQ2_K:
      return {offsetof(Q2_K, d), offsetof(Q2_K, dmin)};
    case CodecId::kQ3_K:
      return {offsetof(Q3_K, d), -1};
    case CodecId::kQ6_K:
      return {offsetof(Q6_K, d), -1};
    case CodecId::kGgufMxfp4:
      return {-1, -1};
    default:
      return {0, -1};
  }
}

std::vector<std::byte> gguf_codes(const Codec& codec, int64_t rows, int64_t cols, Source& source) {
  std::vector<std::byte> bytes(static_cast<size_t>(rows * codec.row_bytes(cols)));
  source.fill(bytes);
  const HalfPlaces places = half_places(codec.id);
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(codec.block_bytes)) {
    if (places.d >= 0) put_half(bytes.data() + at + places.d, source.scale());
    if (places.minimum >= 0) put_half(bytes.data() + at + places.minimum, source.scale());
    if (codec.id == CodecId::kGgufMxfp4) bytes[at] = std::byte(118 + source.byte() % 9);
  }
  return bytes;
}

std::vector<std::byte> plain_codes(const Codec& codec, int64_t rows, int64_t cols, Source& source) {
  std::vector<std::byte> bytes(static_cast<size_t>(rows * codec.row_bytes(cols)));
  source.fill(bytes);
  const auto count = static_cast<size_t>(rows * cols);
  for (size_t i = 0; i < count; ++i) {
    const float value = source.normal();
    if (codec.element == Element::kF32) std::memcpy(bytes.data() + i * 4, &value, 4);
    if (codec.element == Element::kF16) put_half(bytes.data() + i * 2, value);
    if (codec.element == Element::kBF16) {
      const uint16_t bits = f32_to_bf16(value);
      std::memcpy(bytes.data() + i * 2, &bits, 2);
    }
    if (codec.element == Element::kE4M3) bytes[i] = std::byte{f32_to_e4m3(value * 40)};
    if (codec.element == Element::kE5M2) bytes[i] = std::byte{f32_to_e5m2(value * 40)};
  }
  return bytes;
}

std::vector<std::byte> inner_scales(const Codec& codec, int64_t rows, int64_t cols, Source& source) {
  const auto count = static_cast<size_t>(codec.groups_down(rows) * codec.groups_across(cols));
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < count; ++i) {
    if (codec.inner == ScaleType::kF32) {
      const float scale = source.positive_scale();
      const auto* from = reinterpret_cast<const std::byte*>(&scale);
      bytes.insert(bytes.end(), from, from + 4);
    } else if (codec.inner == ScaleType::kE8M0) {
      bytes.push_back(std::byte(118 + source.byte() % 9));
    } else {
      bytes.push_back(std::byte{f32_to_e4m3(source.positive_scale() * 100)});
    }
  }
  return bytes;
}

}  // namespace

QTensor random_matrix(const Codec& codec, int64_t rows, int64_t cols, uint32_t seed) {
  Source source(seed);
  const bool blocks = codec.packing == Packing::kGgufBlock;
  QTensorParts parts{
      codec,        rows,
      cols,         Bytes(blocks ? gguf_codes(codec, rows, cols, source) : plain_codes(codec, rows, cols, source)),
      std::nullopt, {},
      {},           std::string("random ") + std::string(codec.name)};
  if (codec.inner != ScaleType::kNone) parts.inner_scales = Bytes(inner_scales(codec, rows, cols, source));
  if (codec.outer_scale) parts.outer_scales = {0.3f + static_cast<float>(seed % 7)};
  Result<QTensor> made = QTensor::make(std::move(parts));
  CHECK(made.ok(), "{}", made.error().to_string());
  return std::move(made).value();
}

std::vector<float> random_rows(int64_t rows, int64_t cols, uint32_t seed) {
  Source source(seed);
  std::vector<float> x;
  for (int64_t t = 0; t < rows; ++t) {
    float size = 0.6f + 0.7f * static_cast<float>(t % 5);
    for (int64_t c = 0; c < cols; ++c) {
      if (c % 48 == 0) size *= c % 96 == 0 ? 1.7f : 0.6f;
      x.push_back(source.normal() * size + 0.2f);
    }
  }
  return x;
}

}  // namespace vernier::testing
