#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/qtensor.h"

namespace vernier {

/// A matrix of integers in groups of columns, as several dialects store it once their packing is undone:
/// value = (code - zero) * scale, or code * scale + minimum.
struct IntegerMatrix {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t group_cols = 0;       ///< columns that share a scale; divides `cols`, but for a last group that is shorter
  std::vector<int16_t> codes;   ///< [rows, cols]; where there are zeros, already less its zero
  std::vector<float> scales;    ///< [rows, groups]
  std::vector<float> minimums;  ///< [rows, groups], or empty
  std::vector<int32_t> column_groups;  ///< [cols]: the group of each column where they do not lie in order; or empty
  std::string origin;

  int64_t groups() const { return (cols + group_cols - 1) / group_cols; }
};

/// The same numbers, to the bit, in the narrowest codec that holds them: a block format of 4, 5 or 8 bits where the
/// codes fit, groups are whole blocks of 32 columns and the scales are f16 numbers; else float32. Refuses a scale or
/// minimum that is no finite number.
Result<QTensor> to_exact_codec(const IntegerMatrix& matrix);

/// `count` unsigned numbers of `bits` bits, packed without gaps from the lowest bit of the first byte on.
std::vector<int16_t> unpack_bits(std::span<const std::byte> bytes, int bits, int64_t count);

}  // namespace vernier
