#include "ops/shard_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "tensor/casts.h"
#include "tensor/checked.h"

namespace vernier {
namespace {

/// Whether `cut_heads` takes a number of ranks.
bool cuts_heads_for(int heads, int kv_heads, int64_t unit, int ranks) {
  const int64_t group = heads / kv_heads;
  if (ranks <= ceil_div(kv_heads, unit / std::gcd(unit, group))) return true;
  return group % unit == 0 && ranks > kv_heads && ranks % kv_heads == 0;
}

/// The next smaller and the next larger number of ranks that `cut_heads` takes, where there is one.
std::vector<int> nearest_rank_counts(int heads, int kv_heads, int64_t unit, int ranks) {
  std::vector<int> counts;
  int below = ranks - 1;
  while (!cuts_heads_for(heads, kv_heads, unit, below)) --below;  // one rank always can
  counts.push_back(below);
  for (int above = ranks + 1; above <= ranks + kv_heads; ++above) {
    if (!cuts_heads_for(heads, kv_heads, unit, above)) continue;
    counts.push_back(above);
    break;
  }
  return counts;
}

bool is_block(const Codec& codec) {
  return codec.id == CodecId::kE4M3Block || codec.id == CodecId::kE5M2Block;
}

/// The largest part of a group that fills it and whose multiples both ends are; an end at the extent is one of any.
int64_t part_of_group(int64_t group, const AxisCut& cut, int64_t extent) {
  const int64_t common = std::gcd(group, cut.begin);
  return cut.end == extent ? common : std::gcd(common, cut.end);
}

Status check_cut_lies_in(const AxisCut& cut, int64_t extent, const QTensor& tensor) {
  if (cut.begin >= 0 && cut.begin < cut.end && cut.end <= extent) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("a part {} to {} of {}, expected one that is not empty", cut.begin, cut.end, extent),
               tensor.origin()};
}

}  // namespace

Result<std::vector<AxisCut>> cut_axis(int64_t extent, int64_t unit, int ranks) {
  if (extent < 1 || unit < 1 || ranks < 1) {
    return invalid_argument("{} in units of {} for {} ranks, expected 1 or more of each", extent, unit, ranks);
  }
  const int64_t units = ceil_div(extent, unit);
  std::vector<AxisCut> cuts;
  int64_t begin = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t own = units / ranks + (rank < units % ranks ? 1 : 0);
    const int64_t end = std::min(extent, begin + own * unit);
    cuts.push_back({begin, end});
    begin = end;
  }
  return cuts;
}

Result<std::vector<HeadCut>> cut_heads(int heads, int kv_heads, int64_t unit, int ranks) {
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0 || unit < 1 || ranks < 1) {
    return invalid_argument("{} query heads on {} key-value heads in units of {} for {} ranks", heads, kv_heads, unit,
                            ranks);
  }
  if (!cuts_heads_for(heads, kv_heads, unit, ranks)) {
    return unsupported(
        "{} query heads on {} key-value heads cannot be cut for {} ranks in whole heads and scale groups; the nearest "
        "numbers of ranks that work: {}",
        heads, kv_heads, ranks, fmt::join(nearest_rank_counts(heads, kv_heads, unit, ranks), ", "));
  }
  const int64_t group = heads / kv_heads;
  std::vector<HeadCut> cuts;
  if (ranks <= kv_heads) {
    TRY_BIND(std::vector<AxisCut> own, cut_axis(kv_heads, unit / std::gcd(unit, group), ranks));
    for (const AxisCut& kv : own) cuts.push_back({{kv.begin * group, kv.end * group}, kv});
    return cuts;
  }
  TRY_BIND(std::vector<AxisCut> queries, cut_axis(group, unit, ranks / kv_heads));
  for (int64_t kv = 0; kv < kv_heads; ++kv) {
    for (const AxisCut& own : queries) {
      const int64_t first = own.size() == 0 ? kv + 1 : kv;
      cuts.push_back({{kv * group + own.begin, kv * group + own.end}, {first, kv + 1}});
    }
  }
  return cuts;
}

int64_t column_unit(const Codec& codec) {
  return is_block(codec) || codec.group_cols == 0 ? 1 : codec.group_cols;
}

int64_t head_unit(int head_dim, const Codec& codec) {
  const int64_t unit = column_unit(codec);
  return unit / std::gcd(unit, int64_t{head_dim});
}

Result<QTensor> cut_rows(const QTensor& tensor, const AxisCut& cut) {
  TRY_STATUS(check_cut_lies_in(cut, tensor.rows(), tensor));
  const Codec& codec = tensor.codec();
  if (!is_block(codec)) return tensor.slice_rows(cut.begin, cut.end);
  const int64_t rows = part_of_group(codec.group_rows, cut, tensor.rows());
  if (rows == codec.group_rows) return tensor.slice_rows(cut.begin, cut.end);
  TRY_BIND(QTensor finer,
           with_smaller_blocks(tensor, {static_cast<uint16_t>(rows), static_cast<uint16_t>(codec.group_cols)}));
  return finer.slice_rows(cut.begin, cut.end);
}

Result<QTensor> cut_cols(const QTensor& tensor, const AxisCut& cut) {
  TRY_STATUS(check_cut_lies_in(cut, tensor.cols(), tensor));
  const Codec& codec = tensor.codec();
  if (!is_block(codec)) return tensor.slice_cols(cut.begin, cut.end);
  const int64_t cols = part_of_group(codec.group_cols, cut, tensor.cols());
  if (cols == codec.group_cols) return tensor.slice_cols(cut.begin, cut.end);
  TRY_BIND(QTensor finer,
           with_smaller_blocks(tensor, {static_cast<uint16_t>(codec.group_rows), static_cast<uint16_t>(cols)}));
  return finer.slice_cols(cut.begin, cut.end);
}

}  // namespace vernier
