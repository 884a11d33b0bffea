#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

#include "tensor/gguf_blocks.h"
#include "tensor/qtensor.h"
#include "tensor/scalar.h"
#include "tensor/scale_level.h"

namespace vernier {
namespace {

/// `value` rounded up (or down) to a significand of kBits bits. A scale with few bits makes code x scale exact, and so
/// a second round of encode and decode changes nothing.
template <int kBits>
float shorten(float value, bool up) {
  constexpr uint32_t kDropped = (1u << (24 - kBits)) - 1;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + (up ? kDropped : 0)) & ~kDropped);
}

/// The f32 scale that brings `largest` to the format's largest code: never 0, never a subnormal float, and its product
/// with that code is finite. 20 bits of significand leave room for the 4 bits of a code.
template <int kBits>
float choose_scale(float largest, float largest_code) {
  if (largest == 0) return 1.0f;
  float scale = std::max(largest / largest_code, FLT_MIN);
  float up = shorten<kBits>(scale, true);
  return std::isfinite(up * largest_code) ? up : shorten<kBits>(scale, false);
}

float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  for (float value : values) {
    if (!std::isnan(value)) largest = std::max(largest, std::fabs(value));
  }
  return std::min(largest, FLT_MAX);
}

bool has_infinity(std::span<const float> values) {
  return std::ranges::any_of(values, [](float value) { return std::isinf(value); });
}

struct Matrix {
  int64_t rows;
  int64_t cols;
  std::span<const float> values;  // [rows, cols]

  std::span<const float> part(int64_t row, int64_t begin, int64_t end) const {
    return values.subspan(static_cast<size_t>(row * cols + begin), static_cast<size_t>(end - begin));
  }
};

void store_f32(std::vector<std::byte>& bytes, int64_t index, float value) {
  std::memcpy(bytes.data() + static_cast<size_t>(index) * sizeof(float), &value, sizeof(float));
}

void encode_dense(Element element, std::span<const float> values, std::span<std::byte> codes) {
  if (element == Element::kF32) {
    std::memcpy(codes.data(), values.data(), values.size_bytes());
    return;
  }
  // The largest finite values; an infinity stays one, for these formats have it.
  float largest = element == Element::kF16 ? 65504.0f : std::bit_cast<float>(uint32_t{0x7F7F0000});
  for (size_t i = 0; i < values.size(); ++i) {
    float value = std::isfinite(values[i]) ? std::clamp(values[i], -largest, largest) : values[i];
    uint16_t code = element == Element::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
    std::memcpy(codes.data() + i * sizeof(code), &code, sizeof(code));
  }
}

/// The code of value / scale; the next smaller one where rounding up would make a finite value infinite in float32.
uint8_t encode_byte(Element element, float value, float scale) {
  bool e4m3 = element == Element::kE4M3;
  uint8_t code = e4m3 ? f32_to_e4m3(value / scale) : f32_to_e5m2(value / scale);
  float decoded = (e4m3 ? e4m3_to_f32(code) : e5m2_to_f32(code)) * scale;
  return std::isinf(decoded) && std::isfinite(value) ? static_cast<uint8_t>(code - 1) : code;
}

/// E4M3 and E5M2 with groups of any size and f32 or E8M0 scales.
void encode_bytes(const Codec& codec, const Matrix& matrix, std::span<std::byte> codes,
                  std::vector<std::byte>& scales) {
  float largest_code = codec.element == Element::kE4M3 ? 448.0f : 57344.0f;
  int64_t group_rows = codec.group_rows == 0 ? matrix.rows : codec.group_rows;
  int64_t group_cols = codec.group_cols == 0 ? matrix.cols : codec.group_cols;
  int64_t index = 0;
  for (int64_t top = 0; top < matrix.rows; top += group_rows) {
    int64_t bottom = std::min(matrix.rows, top + group_rows);
    for (int64_t begin = 0; begin < matrix.cols; begin += group_cols) {
      int64_t end = std::min(matrix.cols, begin + group_cols);
      float largest = 0;
      bool infinite = false;
      for (int64_t row = top; row < bottom; ++row) {
        largest = std::max(largest, largest_magnitude(matrix.part(row, begin, end)));
        infinite = infinite || has_infinity(matrix.part(row, begin, end));
      }
      float scale;
      if (codec.inner == ScaleType::kE8M0) {
        uint8_t exponent = infinite ? 254 : f32_to_e8m0_ceil(largest / largest_code);
        scale = e8m0_to_f32(exponent);
        scales[static_cast<size_t>(index)] = std::byte{exponent};
      } else {
        scale = choose_scale<20>(largest, largest_code);
        store_f32(scales, index, scale);
      }
      ++index;
      for (int64_t row = top; row < bottom; ++row) {
        std::span<const float> part = matrix.part(row, begin, end);
        std::byte* out = codes.data() + row * matrix.cols + begin;
        for (size_t i = 0; i < part.size(); ++i) {
          out[i] = std::byte{encode_byte(codec.element, part[i], scale)};
        }
      }
    }
  }
}

/// Codes of a group of E2M1 under one scale; a scale of 0 gives zeros that keep their sign.
void encode_e2m1(std::span<const float> values, float scale, std::span<uint8_t> codes) {
  for (size_t i = 0; i < values.size(); ++i) {
    codes[i] = f32_to_e2m1(scale == 0 ? std::copysign(0.0f, values[i]) : values[i] / scale);
  }
}

void pack_nibbles(std::span<const uint8_t> codes, std::byte* out) {
  for (size_t i = 0; i < codes.size(); i += 2) out[i / 2] = static_cast<std::byte>(codes[i] | codes[i + 1] << 4);
}

void encode_mxfp4(const Matrix& matrix, std::span<std::byte> codes, std::vector<std::byte>& scales) {
  constexpr int64_t kGroup = 32;
  std::array<uint8_t, kGroup> group;
  for (int64_t i = 0; i < matrix.rows * matrix.cols / kGroup; ++i) {
    std::span<const float> values = matrix.values.subspan(static_cast<size_t>(i * kGroup), kGroup);
    uint8_t exponent = mxfp4_exponent(values);
    scales[static_cast<size_t>(i)] = std::byte{exponent};
    encode_e2m1(values, e8m0_to_f32(exponent), group);
    pack_nibbles(group, codes.data() + i * kGroup / 2);
  }
}

bool is_exact(std::span<const float> values, std::span<const uint8_t> codes, float inner, float outer) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (e2m1_to_f32(codes[i]) * inner * outer != values[i]) return false;
  }
  return true;
}

/// The E4M3 scale of one NVFP4 group and its codes: largest / 6, unless that loses something and taking the largest
/// value for another code loses nothing.
uint8_t encode_nvfp4_group(std::span<const float> values, float outer, std::span<uint8_t> codes) {
  float largest = largest_magnitude(values) / outer;
  for (float code_of_largest : {6.0f, 4.0f, 3.0f, 2.0f, 1.5f, 1.0f, 0.5f}) {
    uint8_t inner = f32_to_e4m3(largest / code_of_largest);
    encode_e2m1(values, e4m3_to_f32(inner) * outer, codes);
    if (is_exact(values, codes, e4m3_to_f32(inner), outer)) return inner;
  }
  uint8_t inner = f32_to_e4m3(largest / 6.0f);
  encode_e2m1(values, e4m3_to_f32(inner) * outer, codes);
  return inner;
}

float encode_nvfp4(const Matrix& matrix, std::span<std::byte> codes, std::vector<std::byte>& scales) {
  constexpr int64_t kGroup = 16;
  // 18 bits: 24 less the 2 of an E2M1 code and the 4 of an E4M3 scale.
  float outer = choose_scale<18>(largest_magnitude(matrix.values), 6.0f * 448.0f);
  std::array<uint8_t, kGroup> group;
  for (int64_t i = 0; i < matrix.rows * matrix.cols / kGroup; ++i) {
    std::span<const float> values = matrix.values.subspan(static_cast<size_t>(i * kGroup), kGroup);
    scales[static_cast<size_t>(i)] = std::byte{encode_nvfp4_group(values, outer, group)};
    pack_nibbles(group, codes.data() + i * kGroup / 2);
  }
  return outer;
}

Status check_values(const Codec& codec, int64_t rows, int64_t cols, std::span<const float> values) {
  if (values.size() != static_cast<size_t>(rows * cols)) {
    return invalid_argument("found {} values, expected {} for [{}, {}]", values.size(), rows * cols, rows, cols);
  }
  if (codec.element != Element::kInt && codec.element != Element::kE2M1) return {};
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isnan(values[i])) continue;
    return invalid_argument("value [{}, {}] is NaN, which {} cannot hold", static_cast<int64_t>(i) / cols,
                            static_cast<int64_t>(i) % cols, codec.name);
  }
  return {};
}

}  // namespace

Result<QTensor> encode(const Codec& codec, int64_t rows, int64_t cols, std::span<const float> values) {
  TRY_BIND(int64_t code_bytes, codec.code_bytes(rows, cols));
  TRY_STATUS(check_values(codec, rows, cols, values));
  Matrix matrix{rows, cols, values};
  std::vector<std::byte> codes(static_cast<size_t>(code_bytes));
  std::vector<std::byte> scales(
      static_cast<size_t>(codec.groups_down(rows) * codec.groups_across(cols) * scale_bytes(codec.inner)));
  std::vector<float> outer_scales;
  if (codec.packing == Packing::kGgufBlock) {
    encode_gguf_blocks(codec, values, codes);
  } else if (codec.is_dense()) {
    encode_dense(codec.element, values, codes);
  } else if (codec.id == CodecId::kNvfp4) {
    outer_scales.push_back(encode_nvfp4(matrix, codes, scales));
  } else if (codec.id == CodecId::kMxfp4) {
    encode_mxfp4(matrix, codes, scales);
  } else {
    encode_bytes(codec, matrix, codes, scales);
  }
  QTensorParts parts{codec, rows, cols, Bytes(std::move(codes)), std::nullopt, std::move(outer_scales), {}, "encoded"};
  if (codec.inner != ScaleType::kNone) parts.inner_scales = Bytes(std::move(scales));
  return QTensor::make(std::move(parts));
}

}  // namespace vernier
