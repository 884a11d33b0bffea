#pragma once

#include <cstdint>
#include <optional>

#include "ops/backend.h"
#include "tune/choice.h"

namespace vernier {

/// Whether a kernel can serve, and if not why: kChosen for can. Pure: launch and `explain` ask the same.
Reason judge_product_rows(int64_t outputs, int64_t batch_rows);
Reason judge_attend(int head_dim);
Reason judge_route(const ExpertsSpec& spec);

/// The most ranges of keys that a row of a sequence of `end` positions meets.
int32_t most_ranges(int32_t end, std::optional<int> window);

/// How a step's rows meet their ranges.
struct AttendPlan {
  int32_t rows_at_once = 0;  ///< 0: a block walks a row's ranges; else they are side by side, for so many rows
  int64_t part_numbers = 0;  ///< of scratch
};
AttendPlan plan_attend(int32_t rows, int32_t heads, int32_t head_dim, int32_t ranges);

std::vector<Choice> explain_cuda_linear(const PackedMatrix& matrix, int64_t batch_rows);
Choice explain_cuda_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows);

}  // namespace vernier
