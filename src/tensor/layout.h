#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/scale_order.h"

namespace vernier {

/// How rows stand within blocks of a kernel's tile.
enum class RowShuffle : uint8_t {
  kNone,
  kBlocks16,  ///< row r of a block of 16 is row r % 8 * 2 + r / 8
  kBlocks32,  ///< row r of a block of 32 is row r % 8 * 4 + r / 8
};

/// How a kernel wants a matrix to lie: the tag that a prepared matrix carries, and all that is needed to make it and to
/// undo it. Steps in this order: each part's rows and the columns are padded with zero codes under unit scales, parts
/// change places, their rows take turns, rows are shuffled, scales are put in their order.
struct Layout {
  int64_t row_multiple = 1;  ///< of each part
  int64_t col_multiple = 1;
  bool last_part_first = false;  ///< up before gate
  bool parts_alternate = false;  ///< rows of two parts of equal height take turns
  RowShuffle shuffle = RowShuffle::kNone;
  ScaleOrder scales = ScaleOrder::kRows;

  bool keeps_row_order() const { return !last_part_first && !parts_alternate && shuffle == RowShuffle::kNone; }
  /// "128x128, up first, alternating, rows by 32, scales 128x4"; "as stored" for the plain one.
  std::string to_string() const;
  bool operator==(const Layout&) const = default;
};

/// Stands for a row that padding put there.
inline constexpr int64_t kPaddingRow = -1;

/// For each physical row the logical row (parts counted one below the other) that stands there, or kPaddingRow. Refuses
/// alternating parts that are not two of equal height, and shuffled rows that are no multiple of the block.
Result<std::vector<int64_t>> row_sources(std::span<const int64_t> part_rows, const Layout& layout);

}  // namespace vernier
