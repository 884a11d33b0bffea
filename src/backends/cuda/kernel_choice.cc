#include "backends/cuda/kernel_choice.h"

#include <algorithm>

#include "backends/cuda/kernels/launch.h"
#include "ops/pack_info.h"

namespace vernier {
namespace {

constexpr int32_t kMostHeadDim = 4096;          // two heads' numbers and a range's scores in 48 KB
constexpr int64_t kMostRouteBytes = 40 * 1024;  // of the 48 KB that every chip gives a block unasked
constexpr int64_t kFewRowHeads = 1024;          // below, blocks that walk would leave processors idle
constexpr int64_t kMostPartNumbers = 16 << 20;  // 64 MB
constexpr int64_t kMostGridRows = 65535;

Reason can() {
  return {ReasonCode::kChosen, "takes every problem of this kind"};
}

}  // namespace

Reason judge_product_rows(int64_t outputs, int64_t batch_rows) {
  if (outputs / 8 >= int64_t{1} << 31 || (batch_rows + 7) / 8 > kMostGridRows) {
    return {ReasonCode::kShape,
            fmt::format("{} outputs by {} rows; at most {} rows", outputs, batch_rows, 8 * kMostGridRows)};
  }
  return can();
}

Reason judge_attend(int head_dim) {
  if (head_dim > kMostHeadDim) {
    return {ReasonCode::kShape, fmt::format("heads of {} numbers; at most {}", head_dim, kMostHeadDim)};
  }
  return can();
}

Reason judge_route(const ExpertsSpec& spec) {
  const int64_t bytes = cuda::route_shared_bytes(spec.experts, spec.chosen, spec.groups);
  if (bytes > kMostRouteBytes) {
    return {ReasonCode::kShape, fmt::format("{} experts take {} bytes of a row's memory; at most {}", spec.experts,
                                            bytes, kMostRouteBytes)};
  }
  if (spec.experts > kMostGridRows) {
    return {ReasonCode::kShape, fmt::format("{} experts; at most {}", spec.experts, kMostGridRows)};
  }
  return can();
}

int32_t most_ranges(int32_t end, std::optional<int> window) {
  const int32_t all = (end + cuda::kRangeKeys - 1) / cuda::kRangeKeys;
  // A window's first and last range may be cut.
  if (window) return std::min(all, (*window - 1 + cuda::kRangeKeys - 1) / cuda::kRangeKeys + 1);
  return all;
}

AttendPlan plan_attend(int32_t rows, int32_t heads, int32_t head_dim, int32_t ranges) {
  if (ranges == 1 || int64_t{rows} * heads >= kFewRowHeads) return {};
  const int64_t each = int64_t{heads} * ranges * cuda::attend_part_numbers(head_dim);
  const int64_t at_once = std::clamp<int64_t>(kMostPartNumbers / each, 1, rows);
  return {static_cast<int32_t>(at_once), at_once * each};
}

// What a kernel cannot do at all was refused before anybody asks why it was chosen: by make_ops and make_kv.

std::vector<Choice> explain_cuda_linear(const PackedMatrix& matrix, int64_t batch_rows) {
  return {only_choice(linear_problem(matrix, batch_rows), "product_rows_f32", matrix.info().layout)};
}

Choice explain_cuda_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) {
  const bool side_by_side = int64_t{spec.heads} * batch_rows < kFewRowHeads;
  const Reason other{ReasonCode::kSlower,
                     fmt::format("{} rows x {} heads; side by side below {}", batch_rows, spec.heads, kFewRowHeads)};
  return Choice{
      attend_problem(spec, cache, batch_rows),
      {{"attend_ranges_f32", side_by_side ? can() : other}, {"attend_rows_f32", side_by_side ? other : can()}},
      "[block, head, token, dim]"};
}

}  // namespace vernier
