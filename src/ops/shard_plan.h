#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "tensor/qtensor.h"

namespace vernier {

/// A rank's part of an axis, [begin, end); empty where there are fewer units than ranks.
struct AxisCut {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const AxisCut&) const = default;
};

/// An axis cut for each rank at multiples of `unit` (a ragged last unit is the end), as evenly as whole units allow:
/// the first ranks have one more. Refuses less than one rank, extent or unit.
Result<std::vector<AxisCut>> cut_axis(int64_t extent, int64_t unit, int ranks);

/// A rank's heads. Query heads of a rank meet its key-value heads in groups of one size.
struct HeadCut {
  AxisCut heads;
  AxisCut kv_heads;
};

/// Whole key-value heads with their queries for each rank; where there are more ranks than key-value heads, each of
/// those stands on several, which share its queries; ranks for which none is left have no heads. Cuts lie at multiples
/// of `unit` query heads. Refuses other numbers of ranks, with the nearest that work.
Result<std::vector<HeadCut>> cut_heads(int heads, int kv_heads, int64_t unit, int ranks);
/// How many heads of `head_dim` columns fill whole scale groups of a matrix: cuts between others would go through one.
int64_t head_unit(int head_dim, const Codec& codec);

/// How many columns a cut of this codec must be a multiple of: a scale group that cannot be made smaller.
int64_t column_unit(const Codec& codec);

/// A rank's rows (outputs) of a matrix, with their scales. Blocks that the cut goes through are made smaller first,
/// each with a copy of its scale: the numbers stay.
Result<QTensor> cut_rows(const QTensor& tensor, const AxisCut& cut);
/// A rank's columns (inputs). Groups of one row cannot be made smaller: a cut through one is refused.
Result<QTensor> cut_cols(const QTensor& tensor, const AxisCut& cut);

}  // namespace vernier
