#include "checkpoint/scale_tensor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "checkpoint/byte_reader.h"
#include "tensor/scalar.h"
#include "tensor/scale_level.h"

namespace vernier {

namespace {

std::vector<int64_t> without_ones(const std::vector<int64_t>& extents) {
  std::vector<int64_t> kept;
  std::copy_if(extents.begin(), extents.end(), std::back_inserter(kept), [](int64_t extent) { return extent != 1; });
  return kept;
}

Status check_shape(const StoredTensor& tensor, int64_t down, int64_t across) {
  if (without_ones(tensor.extents) == without_ones({down, across})) return {};
  return tensor_error(tensor, ErrorCode::kCorrupt,
                      fmt::format("has shape {}, expected [{}, {}] scales", shape_text(tensor.extents), down, across));
}

Bytes to_bytes(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return Bytes(std::move(bytes));
}

/// The exponent byte of a power of two; nothing for any other number.
std::optional<uint8_t> exponent_of(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (bits == 0x00400000u) return uint8_t{0};
  uint32_t exponent = bits >> 23;  // a sign would make it larger than 254
  if ((bits & 0x7FFFFFu) != 0 || exponent == 0 || exponent > 254) return std::nullopt;
  return static_cast<uint8_t>(exponent);
}

/// Four exponents to a word, lowest byte first; rows either one for each block row or, repeated, one for each row of
/// the matrix.
Result<ScaleLevel> unpack_words(const StoredTensor& tensor, const ScaleGrid& grid) {
  const int64_t words = (grid.across + 3) / 4;
  const int64_t stored_rows = tensor.extents.size() == 2 ? tensor.extents[0] : 0;
  const bool repeated = stored_rows == grid.rows && stored_rows != grid.down;
  if (tensor.extents.size() != 2 || tensor.extents[1] != words || (stored_rows != grid.down && !repeated)) {
    return tensor_error(tensor, ErrorCode::kCorrupt,
                        fmt::format("has shape {}, expected [{}, {}] words of four scales, or {} rows of them",
                                    shape_text(tensor.extents), grid.down, words, grid.rows));
  }
  const int64_t step = repeated && grid.block_rows > 0 ? grid.block_rows : repeated ? grid.rows : 1;
  const auto row_bytes = static_cast<size_t>(words) * 4;
  std::vector<std::byte> scales;
  for (int64_t row = 0; row < stored_rows; ++row) {
    std::span<const std::byte> stored = tensor.bytes.subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
    std::span<const std::byte> used = stored.first(static_cast<size_t>(grid.across));
    if (row % step == 0) {
      scales.insert(scales.end(), used.begin(), used.end());
    } else if (!std::equal(used.begin(), used.end(), scales.end() - grid.across)) {
      return tensor_error(tensor, ErrorCode::kCorrupt,
                          fmt::format("row {} has other scales than the rows of its block", row));
    }
  }
  return ScaleLevel{ScaleType::kE8M0, Bytes(std::move(scales))};
}

}  // namespace

std::string shape_text(const std::vector<int64_t>& extents) {
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

Error tensor_error(const StoredTensor& tensor, ErrorCode code, std::string message) {
  return Error{code, fmt::format("tensor {}: {}", printable(tensor.file_name), message), tensor.file->path()};
}

Result<std::vector<float>> read_floats(const StoredTensor& tensor) {
  size_t width = tensor.type == "F32" ? 4 : tensor.type == "F16" || tensor.type == "BF16" ? 2 : 0;
  if (width == 0) {
    return tensor_error(tensor, ErrorCode::kUnsupported,
                        fmt::format("holds {}, expected F32, F16 or BF16 numbers", tensor.type));
  }
  std::vector<float> values(tensor.bytes.size() / width);
  if (width == 4) {
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, tensor.bytes.data() + i * 2, 2);
    values[i] = tensor.type == "F16" ? f16_to_f32(bits) : bf16_to_f32(bits);
  }
  return values;
}

Result<ScaleLevel> read_scales(const StoredTensor& tensor, const ScaleGrid& grid) {
  if (tensor.type == "I32") return unpack_words(tensor, grid);
  TRY_STATUS(check_shape(tensor, grid.down, grid.across));
  if (tensor.type == "F32") return ScaleLevel{ScaleType::kF32, tensor.data()};
  if (tensor.type == "F8_E8M0" || tensor.type == "U8") return ScaleLevel{ScaleType::kE8M0, tensor.data()};
  if (tensor.type == "F8_E4M3") return ScaleLevel{ScaleType::kE4M3, tensor.data()};
  TRY_BIND(std::vector<float> values, read_floats(tensor));
  return ScaleLevel{ScaleType::kF32, to_bytes(values)};
}

Result<ScaleLevel> read_f32_scales(const StoredTensor& tensor, const ScaleGrid& grid) {
  TRY_BIND(ScaleLevel level, read_scales(tensor, grid));
  if (level.type == ScaleType::kF32) return level;
  std::vector<float> values(static_cast<size_t>(grid.down * grid.across));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = scale_value(level.type, level.bytes.span(), static_cast<int64_t>(i));
  }
  return ScaleLevel{ScaleType::kF32, to_bytes(values)};
}

Result<ScaleLevel> read_e8m0_scales(const StoredTensor& tensor, const ScaleGrid& grid) {
  TRY_BIND(ScaleLevel level, read_scales(tensor, grid));
  if (level.type == ScaleType::kE8M0) return level;
  std::vector<std::byte> exponents(static_cast<size_t>(grid.down * grid.across));
  for (size_t i = 0; i < exponents.size(); ++i) {
    const float value = scale_value(level.type, level.bytes.span(), static_cast<int64_t>(i));
    std::optional<uint8_t> exponent = exponent_of(value);
    if (!exponent) {
      return tensor_error(
          tensor, ErrorCode::kCorrupt,
          fmt::format("scale {} is {}, expected a power of two: the format stores exponents alone", i, value));
    }
    exponents[i] = static_cast<std::byte>(*exponent);
  }
  return ScaleLevel{ScaleType::kE8M0, Bytes(std::move(exponents))};
}

Result<float> read_one_scale(const StoredTensor& tensor) {
  TRY_STATUS(check_shape(tensor, 1, 1));
  TRY_BIND(std::vector<float> values, read_floats(tensor));
  if (!std::isfinite(values[0]) || values[0] <= 0) {
    return tensor_error(tensor, ErrorCode::kCorrupt, fmt::format("is {}, expected a finite number above 0", values[0]));
  }
  return values[0];
}

}  // namespace vernier
