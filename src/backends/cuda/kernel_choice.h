#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/cuda/cuda_views.h"
#include "backends/cuda/fast_choice.h"
#include "ops/backend.h"
#include "tune/choice.h"

namespace vernier {

/// Whether a kernel can serve, and if not why: kChosen for can. Pure: launch and `explain` ask the same.
Reason judge_product_rows(int64_t outputs, int64_t batch_rows);
Reason judge_attend(int head_dim);
Reason judge_route(const ExpertsSpec& spec);
/// Whether the launch that chooses experts makes the norm and the router's product, too.
Reason judge_router(std::span<const CudaRows> router, const ExpertsSpec& spec, int64_t rows);

/// Whether attention by tiles can serve a layer.
Reason judge_attend_tiles(const AttnSpec& spec, const CacheSpec& cache);
/// What may take rows that share a sequence: a kernel that adds in an order of its own.
struct PromptProblem {
  int64_t rows = 0;  ///< the most that a sequence has in the step
  int block_tokens = 8;
  bool own_orders = true;   ///< see CudaOptions
  bool warpgroups = false;  ///< of the device
};
/// Whether attention of many rows by products of warp groups can serve a layer that tiles serve.
Reason judge_attend_prompt(const AttnSpec& spec, const CacheSpec& cache, const PromptProblem& problem);
/// Whether a product of these rows may norm them first.
Reason judge_fused_norm(int64_t rows, int64_t cols);

/// The most ranges of keys that a row of a sequence of `end` positions meets.
int32_t most_ranges(int32_t end, std::optional<int> window);

/// A number of ranges that neighbouring steps share: at most half as many again.
int32_t shared_ranges(int32_t ranges);

/// How a step's rows meet their ranges.
struct AttendPlan {
  int32_t rows_at_once = 0;  ///< 0: a block walks a row's ranges; else they are side by side, for so many rows
  int64_t part_numbers = 0;  ///< of scratch
  int32_t each = 1;          ///< ranges that a block takes where they are side by side
};
AttendPlan plan_attend(int32_t rows, int32_t heads, int32_t head_dim, int32_t ranges);
/// The same where query heads of a KV head share a block.
AttendPlan plan_attend_tiles(int32_t rows, const AttnSpec& spec, int32_t ranges);

/// A choice for each way that parts are read in.
std::vector<Choice> explain_cuda_linear(const PackedMatrix& matrix, Numerics numerics, std::span<const CudaRows> parts,
                                        int64_t batch_rows, bool same_rows, const FastDevice& device);
/// As if all rows were one sequence's.
Choice explain_cuda_attend(const AttnSpec& spec, const CacheSpec& cache, const PromptProblem& problem);

}  // namespace vernier
