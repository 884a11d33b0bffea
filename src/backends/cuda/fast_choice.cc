#include "backends/cuda/fast_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "tune/device_features.h"

namespace vernier {
namespace {

using cuda::Codes;
using cuda::FastCodes;
using cuda::ScaleKind;

constexpr int64_t kPieceBytes = 16;
constexpr int64_t kSmallWeight = 8 << 20;  // numbers; below, a launch more costs more than reading rows anew
constexpr int64_t kMostDirectRows = 4;
constexpr int64_t kMiddleWeight = 24 << 20;  // numbers; below, a block's shares of a tile cost more than they gain
constexpr int32_t kSmallTileRows = 64;
constexpr int64_t kFewPlaces = 12;  // a matrix

constexpr int64_t kLeastDeepRows = 65;         // fewer are read by the memory's speed anyway
constexpr int64_t kLeastDeepWork = 512 << 20;  // numbers multiplied; below, other kernels are as fast
constexpr int64_t kMostDeepRows = 1 << 30;     // boxes are named by 32 bits
constexpr int64_t kDeepBlockColumns = cuda::kUnitColumns;
constexpr int64_t kDeepBlockRows = 128;
/// Rows and outputs of a tile, and what one costs beside the others, as measured on an H200: large ones read less.
struct DeepTile {
  int32_t rows, outputs;
  double cost;
};
constexpr DeepTile kDeepTiles[] = {{256, 128, 1.0}, {128, 192, 0.8}, {128, 128, 0.6}, {128, 64, 0.42}};

FastVerdict can(FastCodes codes) {
  return {codes, {ReasonCode::kChosen, "held by one or two bf16 numbers"}};
}
FastVerdict cannot(ReasonCode code, std::string detail) {
  return {FastCodes::kNone, {code, std::move(detail)}};
}

FastVerdict can_below(FastCodes codes, int largest_scale, int most) {
  if (largest_scale <= most) return can(codes);
  return cannot(ReasonCode::kScales, fmt::format("a scale is 2^{}; bf16 holds codes times scales up to 2^{}",
                                                 largest_scale - 127, most - 127));
}

FastVerdict judge_bytes(const cuda::QView& view, FastCodes row, FastCodes block, FastCodes narrow, int largest_e8m0) {
  if (view.group_cols >= view.cols) return can(row);
  if (block != FastCodes::kNone && view.group_cols % cuda::kUnitColumns == 0 && view.inner == ScaleKind::kF32) {
    return can(block);
  }
  const bool words = view.groups_across % cuda::kScaleRowMultiple == 0;
  if (narrow != FastCodes::kNone && view.inner == ScaleKind::kE8M0 && view.group_rows == 1 && view.group_cols == 32 &&
      words) {
    return can_below(narrow, largest_e8m0, cuda::kMostMxfp8Scale);
  }
  return cannot(
      ReasonCode::kBlockSize,
      fmt::format("{}x{} codes share a scale; made for whole rows, for E4M3 in blocks of {} columns and for 32",
                  view.group_rows, view.group_cols, cuda::kUnitColumns));
}

FastVerdict judge_nibbles(const cuda::QView& view, int largest_e8m0) {
  const bool words = view.group_rows == 1 && view.groups_across % cuda::kScaleRowMultiple == 0;
  if (words && view.inner == ScaleKind::kE8M0 && view.group_cols == 32) {
    return can_below(FastCodes::kMxfp4, largest_e8m0, cuda::kMostMxfp4Scale);
  }
  if (words && view.inner == ScaleKind::kE4M3 && view.group_cols == 16) return can(FastCodes::kNvfp4);
  return cannot(ReasonCode::kBlockSize, fmt::format("a scale is shared by {}x{}", view.group_rows, view.group_cols));
}

/// Formats of blocks that begin at any byte.
FastVerdict judge_decoded(Codes kind) {
  switch (kind) {
    case Codes::kF16:
      return can(FastCodes::kF16);
    case Codes::kQ4_0:
      return can(FastCodes::kQ4_0);
    case Codes::kQ4_1:
      return can(FastCodes::kQ4_1);
    case Codes::kQ8_0:
      return can(FastCodes::kQ8_0);
    case Codes::kQ4_K:
      return can(FastCodes::kQ4_K);
    case Codes::kQ6_K:
      return can(FastCodes::kQ6_K);
    case Codes::kGgufMxfp4:
      return can(FastCodes::kGgufMxfp4);
    default:
      return cannot(ReasonCode::kCodec, "no kernel for tensor cores reads these blocks");
  }
}

int64_t rounded(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

}  // namespace

FastVerdict judge_fast(const cuda::QView& view, int largest_e8m0) {
  if (view.kind == Codes::kF32) return cannot(ReasonCode::kCodec, "float32 weights are multiplied as they are");
  if (view.cols % 4 != 0) return cannot(ReasonCode::kShape, fmt::format("{} inputs are no multiple of 4", view.cols));
  if (view.kind == Codes::kF16 || view.kind > Codes::kE2M1) return judge_decoded(view.kind);
  if (view.row_bytes % kPieceBytes != 0) {
    return cannot(ReasonCode::kShape,
                  fmt::format("rows of {} bytes are no multiple of {}", view.row_bytes, kPieceBytes));
  }
  switch (view.kind) {
    case Codes::kBF16:
      return can(FastCodes::kBF16);
    case Codes::kE4M3:
      return judge_bytes(view, FastCodes::kE4M3Row, FastCodes::kE4M3Block, FastCodes::kMxfp8, largest_e8m0);
    case Codes::kE5M2:
      return judge_bytes(view, FastCodes::kE5M2Row, FastCodes::kNone, FastCodes::kNone, largest_e8m0);
    default:
      return judge_nibbles(view, largest_e8m0);
  }
}

Reason judge_deep(const cuda::QView& view, FastCodes codes, PackUse use, const FastDevice& device) {
  const bool bytes = codes == FastCodes::kE4M3Row || codes == FastCodes::kE4M3Block;
  if (!bytes && codes != FastCodes::kBF16) return {ReasonCode::kCodec, "made for bf16 and for E4M3"};
  const std::pair<bool, ChipFeature> needs[] = {{device.warpgroups, ChipFeature::kWarpgroupMma},
                                                {device.bulk_copies, ChipFeature::kBulkCopy},
                                                {device.fp8 || !bytes, ChipFeature::kFp8Mma}};
  for (const auto& [has, feature] : needs) {
    if (!has) return {ReasonCode::kNeedsFeature, fmt::format("needs {}", name(feature))};
  }
  if (bytes && use == PackUse::kWideRows) {
    return {ReasonCode::kNumerics, "rounds rows to E4M3; the checkpoint quantises weights alone"};
  }
  if (codes == FastCodes::kE4M3Block &&
      (view.group_cols != kDeepBlockColumns || view.group_rows % kDeepBlockRows != 0 ||
       view.first_row % kDeepBlockRows != 0)) {
    return {ReasonCode::kBlockSize, fmt::format("{}x{} codes share a scale; made for {}x{}", view.group_rows,
                                                view.group_cols, kDeepBlockRows, kDeepBlockColumns)};
  }
  return {ReasonCode::kChosen, "both operands lie in shared memory"};
}

Reason judge_deep_rows(const FastProblem& problem) {
  if (problem.same_rows) {
    return {ReasonCode::kNumerics, "adds in another order than the kernels for few rows; rows shall not differ"};
  }
  const int64_t outputs = problem.output_strips * 16;
  if (problem.rows < kLeastDeepRows || problem.rows > kMostDeepRows) {
    return {ReasonCode::kRows, fmt::format("made for {} rows and more; these are {}", kLeastDeepRows, problem.rows)};
  }
  if (problem.rows * outputs * problem.cols < kLeastDeepWork) {
    return {ReasonCode::kRows, fmt::format("{} rows x {} x {} are few", problem.rows, outputs, problem.cols)};
  }
  return {ReasonCode::kChosen, "both operands lie in shared memory"};
}

namespace {

cuda::FastPlan plan_deep(const FastProblem& problem, const FastDevice& device) {
  const bool bytes = cuda::deep_rows_are_bytes(problem.codes);
  cuda::FastPlan plan;
  double least = 0;
  for (const DeepTile& tile : kDeepTiles) {
    const int64_t tiles = rounded(problem.rows, tile.rows) / tile.rows *
                          (rounded(problem.output_strips * 16, tile.outputs) / tile.outputs);
    const double time =
        tile.cost * static_cast<double>(rounded(tiles, device.multiprocessors) / device.multiprocessors);
    if (plan.deep_outputs != 0 && time >= least) continue;
    least = time;
    plan.tile_rows = tile.rows;
    plan.deep_outputs = tile.outputs;
  }
  plan.blocks = device.multiprocessors;
  plan.arranged = true;
  plan.arranged_pairs = problem.rows * cuda::deep_row_bytes(problem.codes, problem.cols) / 4;
  if (bytes) plan.arranged_pairs += cuda::fast_units(problem.cols) * cuda::deep_scale_stride(problem.rows);
  return plan;
}

}  // namespace

cuda::FastPlan plan_fast_product(const FastProblem& problem, const FastDevice& device) {
  if (problem.deep && judge_deep_rows(problem).code == ReasonCode::kChosen) return plan_deep(problem, device);
  cuda::FastPlan plan;
  const int64_t row_limit = problem.output_strips * 16 * problem.cols < kSmallWeight ? 8 : kMostDirectRows;
  if (problem.rows <= row_limit && problem.aligned) return plan;
  plan.arranged = true;
  plan.tiles = 2;
  const bool middle = problem.output_strips * 16 * problem.cols <= kMiddleWeight;
  if (problem.rows <= 16) {
    plan.tile_rows = 16;
  } else if (problem.rows <= cuda::kMostStripRows || !device.warpgroups || (middle && problem.rows <= kSmallTileRows)) {
    plan.tile_rows = cuda::kMostStripRows;
  } else {
    // Large tiles where they keep every processor busy; else small ones, whose quarters are shared out.
    const int64_t large = rounded(problem.rows, cuda::kMostTileRows) / cuda::kMostTileRows * problem.output_tiles;
    plan.tile_rows = large >= device.multiprocessors ? cuda::kMostTileRows : kSmallTileRows;
    if (plan.tile_rows == kSmallTileRows) {
      const int64_t tiles = rounded(problem.rows, kSmallTileRows) / kSmallTileRows * problem.output_tiles;
      plan.splits = cuda::kQuarters;
      plan.partial_numbers = cuda::kQuarters * tiles * kSmallTileRows * cuda::kTileOutputs;
      plan.arrivals = static_cast<int32_t>(tiles);
    }
  }
  plan.arranged_pairs =
      rounded(problem.rows, plan.tile_rows) * cuda::fast_units(problem.cols) * (cuda::kUnitColumns / 2);
  return plan;
}

cuda::FastPlan plan_fast_grouped(int64_t places, int32_t matrices, int64_t cols, const FastDevice& device) {
  cuda::FastPlan plan;
  plan.tiles = 2;
  if (!device.warpgroups || places < kFewPlaces * matrices) return plan;
  plan.tile_rows = kSmallTileRows;
  plan.arranged = true;
  plan.arranged_pairs =
      (cuda::arranged_place(places, matrices) + plan.tile_rows) * cuda::fast_units(cols) * (cuda::kUnitColumns / 2);
  return plan;
}

Reason judge_fast_fused(int64_t rows, int64_t cols, std::span<const int64_t> first_outputs, int64_t outputs,
                        bool gated) {
  if (rows > cuda::kMostFusedRows || cuda::staged_row_bytes(rows, cols) > cuda::kMostStagedRowBytes) {
    return {ReasonCode::kShape, fmt::format("{} rows of {} do not fit beside a product", rows, cols)};
  }
  if (first_outputs.size() > static_cast<size_t>(cuda::kMostParts)) {
    return {ReasonCode::kShape,
            fmt::format("{} parts; at most {} in a launch", first_outputs.size(), cuda::kMostParts)};
  }
  const auto whole = [&](int64_t first) { return (first - first_outputs.front()) % 16 == 0; };
  if (gated && first_outputs.size() > 1 && (outputs / 2 % 16 != 0 || !std::ranges::all_of(first_outputs, whole))) {
    return {ReasonCode::kShape, "a part begins within 16 outputs that are gated together"};
  }
  return {ReasonCode::kChosen, "in one launch"};
}

Reason judge_fast_experts(const ExpertsSpec& spec, int64_t hidden, int64_t places, const FastDevice& device) {
  if (spec.identity > 0) return {ReasonCode::kShape, "some experts have no weights"};
  if (spec.width % cuda::kStripOutputs != 0 || hidden % cuda::kStripOutputs != 0) {
    return {ReasonCode::kShape,
            fmt::format("{} and {} outputs; made for multiples of {}", spec.width, hidden, cuda::kStripOutputs)};
  }
  const int64_t rows = places / std::max(spec.chosen, 1);
  if (cuda::staged_row_bytes(rows, std::max(hidden, spec.width)) > cuda::kMostStagedRowBytes) {
    return {ReasonCode::kShape, fmt::format("{} rows of {} do not fit beside a product", rows, hidden)};
  }
  if (plan_fast_grouped(places, spec.experts, hidden, device).tile_rows > cuda::kMostFusedRows) {
    return {ReasonCode::kSlower, "tiles are faster for so many rows"};
  }
  return {ReasonCode::kChosen, "few rows of each expert"};
}

const char* deep_kernel_name(FastCodes codes) {
  return cuda::deep_rows_are_bytes(codes) ? "deep_tiles_e4m3" : "deep_tiles_bf16";
}

}  // namespace vernier
