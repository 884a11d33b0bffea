#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_parts.h"
#include "tensor/codec.h"

namespace vernier {

/// A level of scales as a QTensor takes it: row-major [down, across].
struct ScaleLevel {
  ScaleType type = ScaleType::kNone;
  Bytes bytes;
};

/// How the scales of a matrix are cut: `block_rows` x `block_cols` codes share one.
struct ScaleGrid {
  int64_t down = 1;
  int64_t across = 1;
  int64_t rows = 0;        ///< of the matrix, for scales that are repeated for each row
  int64_t block_rows = 0;  ///< 0: all rows
};

/// Scales [down, across] of any type that dialects use: F32, F16 and BF16 become f32; F8_E8M0 and U8 stay powers of
/// two; F8_E4M3 stay; I32 holds four powers of two in a row, lowest byte first. Extents of 1 may stand anywhere or be
/// missing. Refuses another shape or type.
Result<ScaleLevel> read_scales(const StoredTensor& tensor, const ScaleGrid& grid);
/// The same as f32, whatever the type.
Result<ScaleLevel> read_f32_scales(const StoredTensor& tensor, const ScaleGrid& grid);
/// The same as powers of two: f32 ones must be exactly that.
Result<ScaleLevel> read_e8m0_scales(const StoredTensor& tensor, const ScaleGrid& grid);
/// One number, finite and above 0.
Result<float> read_one_scale(const StoredTensor& tensor);
/// All numbers of a tensor of any floating type as float32; refuses others.
Result<std::vector<float>> read_floats(const StoredTensor& tensor);

/// An error about one tensor, named as its file names it.
Error tensor_error(const StoredTensor& tensor, ErrorCode code, std::string message);
std::string shape_text(const std::vector<int64_t>& extents);

}  // namespace vernier
