#include "backends/cuda/kernel_choice.h"

#include <algorithm>
#include <bit>

#include "backends/cuda/cuda_views.h"
#include "backends/cuda/kernels/choose.h"
#include "ops/pack_info.h"

namespace vernier {
namespace {

constexpr int32_t kMostHeadDim = 4096;  // two heads' numbers and a range's scores in 48 KB
constexpr int64_t kMostRouterRows = 64;
constexpr int64_t kMostRouteBytes = 40 * 1024;  // of the 48 KB that every chip gives a block unasked
constexpr int64_t kFewRowHeads = 1024;          // below, blocks that walk would leave processors idle
constexpr int64_t kMostPartNumbers = 16 << 20;  // 64 MB
constexpr int64_t kMostGridRows = 65535;
constexpr int64_t kFilledBlocks = 256;  // about two for each of its processors
constexpr int64_t kEnoughBlocks = 396;  // three for each processor of an H200: more ranges side by side gain nothing

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

Reason judge_attend_tiles(const AttnSpec& spec, const CacheSpec& cache) {
  if (!cuda::tiles_take(spec.head_dim, kv_numbers(cache.stored))) {
    return {ReasonCode::kShape,
            fmt::format("heads of {} numbers stored as {}; tiles take 32, 64, 96, 128, 192 or 256 of 16 "
                        "bits or fewer",
                        spec.head_dim, cache_type_name(cache.stored))};
  }
  if (!spec.causal || cache.fresh == FreshRows::kComputed) {
    return {ReasonCode::kShape, "a step's own keys are read as they were computed; tiles read the cache"};
  }
  if (int64_t{spec.heads} > kMostGridRows) {
    return {ReasonCode::kShape, fmt::format("{} heads; at most {}", spec.heads, kMostGridRows)};
  }
  return can();
}

Reason judge_attend_prompt(const AttnSpec& spec, const CacheSpec& cache, const PromptProblem& problem) {
  if (const Reason tiles = judge_attend_tiles(spec, cache); tiles.code != ReasonCode::kChosen) return tiles;
  if (!problem.own_orders) {
    return {ReasonCode::kNumerics,
            "rounds queries to 16 bits and adds in an order of its own; the same rows are asked for"};
  }
  if (!problem.warpgroups) return {ReasonCode::kNeedsFeature, "needs warpgroup_mma"};
  if (!cuda::prompt_takes(spec.head_dim, problem.block_tokens)) {
    return {ReasonCode::kShape, fmt::format("heads of {} numbers in blocks of {} tokens; 64, 96, 128, 192 or 256 in "
                                            "blocks of a multiple of 8 are taken",
                                            spec.head_dim, problem.block_tokens)};
  }
  if (problem.rows < cuda::kPromptTokens) {
    return {ReasonCode::kRows,
            fmt::format("made for {} rows of a sequence or more; these are {}", cuda::kPromptTokens, problem.rows)};
  }
  return can();
}

Reason judge_fused_norm(int64_t rows, int64_t cols) {
  const int64_t bytes = cuda::fused_product_bytes(rows, cols, true);
  if (rows > cuda::kMostFusedRows || bytes > cuda::kMostFusedBytes) {
    return {ReasonCode::kShape,
            fmt::format("{} rows of {} take {} bytes beside a product; at most {} rows and {} bytes", rows, cols, bytes,
                        cuda::kMostFusedRows, cuda::kMostFusedBytes)};
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

Reason judge_router(std::span<const CudaRows> router, const ExpertsSpec& spec, int64_t rows) {
  const cuda::QView& view = router.front().view;
  if (rows > kMostRouterRows) return {ReasonCode::kSlower, fmt::format("{} rows are chosen for by one block", rows)};
  if (router.size() > 1 || (view.kind != cuda::Codes::kF32 && view.kind != cuda::Codes::kBF16) ||
      router.front().fast != cuda::FastCodes::kNone) {
    return {ReasonCode::kCodec, "made for a router of float32 or bf16 in one part"};
  }
  const int64_t choice = 8 * cuda::router_row_bytes(spec.experts, spec.chosen, spec.groups);
  const int64_t bytes = std::max(choice, view.cols * 4);
  if (view.cols % 8 != 0 || bytes > cuda::kMostRouterBytes) {
    return {ReasonCode::kShape, fmt::format("{} experts of {} inputs take {} bytes; at most {}", spec.experts,
                                            view.cols, bytes, cuda::kMostRouterBytes)};
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

int32_t shared_ranges(int32_t ranges) {
  const auto below = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(ranges)));
  return ranges == below ? below : ranges <= below + below / 2 ? below + below / 2 : 2 * below;
}

AttendPlan plan_attend_tiles(int32_t rows, const AttnSpec& spec, int32_t ranges) {
  // A window that ends within two ranges has few leaves: joining its parts would take longer than walking them.
  if (ranges == 1 || (spec.window && *spec.window <= cuda::kRangeKeys)) return {};
  if (int64_t{rows} * cuda::tile_groups(spec.heads, spec.kv_heads) >= kEnoughBlocks) return {};
  const int64_t each = cuda::tile_part_numbers(spec.heads, spec.head_dim, ranges);
  const int64_t at_once = std::clamp<int64_t>(kMostPartNumbers / each, 1, rows);
  // A block that walks several has the next one's keys on their way; but first every processor has a block.
  const int64_t blocks = at_once * cuda::tile_groups(spec.heads, spec.kv_heads) * ranges;
  const auto walked = static_cast<uint32_t>(std::clamp<int64_t>(blocks / kFilledBlocks, 1, cuda::kSpanRanges));
  return {static_cast<int32_t>(at_once), at_once * each, static_cast<int32_t>(std::bit_floor(walked))};
}

// What a kernel cannot do at all was refused before anybody asks why it was chosen: by make_ops and make_kv.

std::vector<Choice> explain_cuda_linear(const PackedMatrix& matrix, Numerics numerics, std::span<const CudaRows> parts,
                                        int64_t batch_rows, bool same_rows, const FastDevice& device) {
  std::vector<Choice> choices;
  std::vector<cuda::FastCodes> told;
  for (const CudaRows& part : parts) {
    if (std::ranges::find(told, part.fast) != told.end()) continue;
    told.push_back(part.fast);
    FastProblem problem;
    problem.cols = part.view.cols;
    problem.rows = batch_rows;
    problem.codes = part.fast;
    problem.same_rows = same_rows;
    Reason deep = can();
    for (const CudaRows& other : parts) {
      if (other.fast != part.fast) continue;
      problem.output_tiles += (other.view.rows + cuda::kTileOutputs - 1) / cuda::kTileOutputs;
      problem.output_strips += (other.view.rows + 15) / 16;
      if (deep.code == ReasonCode::kChosen) deep = other.deep;
    }
    if (deep.code == ReasonCode::kChosen) deep = judge_deep_rows(problem);
    problem.deep = deep.code == ReasonCode::kChosen;
    const bool tiles = plan_fast_product(problem, device).tile_rows > cuda::kMostStripRows;
    Reason few = can(), many = can(), exact = {ReasonCode::kSlower, "tensor cores are faster here"};
    if (part.fast == cuda::FastCodes::kNone) {
      few = numerics == Numerics::kExact
                ? Reason{ReasonCode::kNumerics, "rounds activations to bf16; float32 is asked for"}
                : judge_fast(part.view, part.largest_e8m0).reason;
      deep = many = few;
      exact = can();
    } else if (tiles) {
      few = {ReasonCode::kRows, fmt::format("made for few rows; these are {}", batch_rows)};
      if (problem.deep) many = {ReasonCode::kSlower, "decodes weights in registers"};
    } else if (!device.warpgroups) {
      many = {ReasonCode::kNeedsFeature, "needs warpgroup_mma"};
    } else {
      many = {ReasonCode::kRows, fmt::format("made for many rows; these are {}", batch_rows)};
    }
    choices.push_back({linear_problem(matrix, batch_rows),
                       {{deep_kernel_name(part.fast), deep},
                        {"fast_tiles_bf16", many},
                        {"fast_rows_bf16", few},
                        {"product_rows_f32", exact}},
                       matrix.info().layout});
  }
  return choices;
}

Choice explain_cuda_attend(const AttnSpec& spec, const CacheSpec& cache, const PromptProblem& problem) {
  const bool side_by_side = int64_t{spec.heads} * problem.rows < kFewRowHeads;
  const Reason other{ReasonCode::kSlower,
                     fmt::format("{} rows x {} heads; side by side below {}", problem.rows, spec.heads, kFewRowHeads)};
  const Reason prompt = judge_attend_prompt(spec, cache, problem), tiles = judge_attend_tiles(spec, cache);
  const bool by_prompt = prompt.code == ReasonCode::kChosen, by_tiles = tiles.code == ReasonCode::kChosen;
  const Reason one_at_a_time{ReasonCode::kSlower, "each query head reads its keys alone"};
  return Choice{
      attend_problem(spec, cache, problem.rows),
      {{"attend_prompt", prompt},
       {"attend_tiles", by_prompt ? Reason{ReasonCode::kRows,
                                           fmt::format("made for few rows of a sequence; these are {}", problem.rows)}
                                  : tiles},
       {"attend_ranges_f32", by_tiles       ? one_at_a_time
                             : side_by_side ? can()
                                            : other},
       {"attend_rows_f32", by_tiles       ? one_at_a_time
                           : side_by_side ? other
                                          : can()}},
      "[block, head, token, dim]"};
}

}  // namespace vernier
