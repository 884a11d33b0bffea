#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/cuda_views.h"
#include "backends/cuda/fast_choice.h"
#include "tensor/codec.h"
#include "tune/device_features.h"

namespace vernier {
namespace {

using cuda::FastCodes;
using ::testing::HasSubstr;

FastVerdict verdict(const Codec& codec, int64_t cols, bool padded = true, int largest_e8m0 = 127) {
  cuda::QView view;
  view.rows = 64;
  view.cols = cols;
  view.kind = codes_kind(codec);
  view.inner = scale_kind(codec.inner);
  view.row_bytes = codec.row_bytes(cols);
  view.group_rows = codec.group_rows == 0 ? view.rows : codec.group_rows;
  view.group_cols = codec.group_cols == 0 ? cols : codec.group_cols;
  view.groups_across = codec.groups_across(cols);
  if (padded) view.groups_across = (view.groups_across + 7) / 8 * 8;
  return judge_fast(view, largest_e8m0);
}

TEST(CudaFastChoice, EveryServingCodecIsFast) {
  const std::pair<CodecId, FastCodes> kKinds[] = {
      {CodecId::kBF16, FastCodes::kBF16},           {CodecId::kF16, FastCodes::kF16},
      {CodecId::kE4M3Tensor, FastCodes::kE4M3Row},  {CodecId::kE4M3Channel, FastCodes::kE4M3Row},
      {CodecId::kE5M2Channel, FastCodes::kE5M2Row}, {CodecId::kMxfp8, FastCodes::kMxfp8},
      {CodecId::kMxfp4, FastCodes::kMxfp4},         {CodecId::kNvfp4, FastCodes::kNvfp4},
      {CodecId::kQ4_0, FastCodes::kQ4_0},           {CodecId::kQ4_1, FastCodes::kQ4_1},
      {CodecId::kQ8_0, FastCodes::kQ8_0},           {CodecId::kQ4_K, FastCodes::kQ4_K},
      {CodecId::kQ6_K, FastCodes::kQ6_K},           {CodecId::kGgufMxfp4, FastCodes::kGgufMxfp4}};
  for (const auto& [id, kind] : kKinds) EXPECT_EQ(verdict(codec(id), 768).codes, kind) << codec(id).name;
  EXPECT_EQ(verdict(block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32), 768).codes, FastCodes::kE4M3Block);
  EXPECT_EQ(verdict(block_codec(CodecId::kE4M3Block, 64, 256, ScaleType::kF32), 768).codes, FastCodes::kE4M3Block);
}

TEST(CudaFastChoice, RefusalsNameWhatDecided) {
  EXPECT_EQ(verdict(codec(CodecId::kF32), 768).reason.code, ReasonCode::kCodec);
  const FastVerdict blocks = verdict(block_codec(CodecId::kE4M3Block, 5, 12, ScaleType::kF32), 768);
  EXPECT_EQ(blocks.codes, FastCodes::kNone);
  EXPECT_EQ(blocks.reason.code, ReasonCode::kBlockSize);
  EXPECT_THAT(blocks.reason.detail, HasSubstr("12"));
  EXPECT_EQ(verdict(codec(CodecId::kBF16), 33).reason.code, ReasonCode::kShape);
  EXPECT_THAT(verdict(codec(CodecId::kBF16), 36).reason.detail, HasSubstr("72"));
  EXPECT_EQ(verdict(codec(CodecId::kNvfp4), 48).reason.code, ReasonCode::kShape);
  // A row's byte scales are read as words.
  EXPECT_EQ(verdict(codec(CodecId::kMxfp4), 2880, false).reason.code, ReasonCode::kBlockSize);
}

// A factor beyond bf16 would be infinite, and every logit with it.
TEST(CudaFastChoice, ScalesThatBf16CannotHoldAreRefused) {
  for (const auto& [id, most] : {std::pair(CodecId::kMxfp4, 160), std::pair(CodecId::kMxfp8, 166)}) {
    EXPECT_NE(verdict(codec(id), 768, true, most).codes, FastCodes::kNone);
    const FastVerdict refused = verdict(codec(id), 768, true, most + 1);
    EXPECT_EQ(refused.codes, FastCodes::kNone);
    EXPECT_EQ(refused.reason.code, ReasonCode::kScales);
    EXPECT_THAT(refused.reason.detail, HasSubstr(std::to_string(most + 1 - 127)));
  }
}

// CUDA-5 rests on it: how a weight is read does not depend on the rows, only which kernel reads it.
TEST(CudaFastPlan, RowsDecideTheKernelAndWhatItTakes) {
  const FastDevice hopper{132, true}, other{108, false};
  const auto plan = [](int64_t rows, const FastDevice& device, bool aligned = true) {
    return plan_fast_product({.output_tiles = 32, .output_strips = 256, .cols = 7168, .rows = rows, .aligned = aligned},
                             device);
  };
  EXPECT_EQ(plan(1, hopper).tile_rows, 8);
  EXPECT_FALSE(plan(4, hopper).arranged);
  EXPECT_TRUE(plan(4, hopper, false).arranged) << "rows that begin at any byte are copied";
  EXPECT_EQ(plan(8, hopper).tile_rows, 16);
  EXPECT_EQ(plan(16, hopper).tile_rows, 16);
  EXPECT_EQ(plan(17, hopper).tile_rows, 32);
  EXPECT_EQ(plan(33, hopper).tile_rows, 64);
  EXPECT_EQ(plan(64, hopper).tile_rows, 64);
  EXPECT_EQ(plan_fast_product({.output_tiles = 17, .output_strips = 132, .cols = 7168, .rows = 64}, hopper).tile_rows,
            32)
      << "a tile's shares cost more than they gain";
  EXPECT_EQ(plan(64, hopper).splits, 4);
  EXPECT_EQ(plan(512, hopper).tile_rows, 64) << "128 tiles are not enough";
  EXPECT_EQ(plan(4096, hopper).tile_rows, 128);
  EXPECT_EQ(plan(4096, hopper).splits, 1);
  EXPECT_EQ(plan(4096, other).tile_rows, 32);
  for (int64_t rows : {9, 17, 64, 65, 150, 4096}) {
    const cuda::FastPlan made = plan(rows, hopper);
    EXPECT_GE(made.arranged_pairs, rows * 7168 / 2) << rows;
    EXPECT_EQ(made.splits > 1, made.partial_numbers >= int64_t{4} * rows * 4096) << rows;
  }
}

/// What packing hands to judge_deep.
Reason deep(const Codec& codec, const FastDevice& device, PackUse use = PackUse::kLinear, int64_t first_row = 0) {
  cuda::QView view;
  view.rows = 512;
  view.first_row = first_row;
  view.cols = 768;
  view.kind = codes_kind(codec);
  view.inner = scale_kind(codec.inner);
  view.row_bytes = codec.row_bytes(view.cols);
  view.group_rows = codec.group_rows == 0 ? view.rows : codec.group_rows;
  view.group_cols = codec.group_cols == 0 ? view.cols : codec.group_cols;
  view.groups_across = (codec.groups_across(view.cols) + 7) / 8 * 8;
  return judge_deep(view, judge_fast(view, 127).codes, use, device);
}

FastDevice device_of(std::string_view name) {
  const ChipFeatureSet has = find_device(name)->capabilities;
  return {132, has.has(ChipFeature::kWarpgroupMma), has.has(ChipFeature::kBulkCopy), has.has(ChipFeature::kFp8Mma)};
}

TEST(CudaDeepChoice, ACapabilityDecidesAndNotAnArchitecture) {
  const Codec block = block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32);
  for (const char* chip : {"sm80", "sm89", "sm100", "sm120"}) {
    for (const Codec& of : {block, codec(CodecId::kBF16)}) {
      const Reason reason = deep(of, device_of(chip));
      EXPECT_EQ(reason.code, ReasonCode::kNeedsFeature) << chip;
      EXPECT_THAT(reason.detail, HasSubstr("warpgroup_mma")) << chip;
    }
  }
  EXPECT_EQ(deep(block, device_of("sm90")).code, ReasonCode::kChosen);
  FastDevice without = device_of("sm90");
  without.fp8 = false;
  EXPECT_THAT(deep(block, without).detail, HasSubstr("fp8_mma"));
  EXPECT_EQ(deep(codec(CodecId::kBF16), without).code, ReasonCode::kChosen);
  without.bulk_copies = false;
  EXPECT_THAT(deep(codec(CodecId::kBF16), without).detail, HasSubstr("bulk_copy"));
}

TEST(CudaDeepChoice, CodesAndTheirScalesDecide) {
  const FastDevice hopper = device_of("sm90");
  for (CodecId id : {CodecId::kBF16, CodecId::kE4M3Tensor, CodecId::kE4M3Channel}) {
    EXPECT_EQ(deep(codec(id), hopper).code, ReasonCode::kChosen) << codec(id).name;
  }
  for (CodecId id : {CodecId::kMxfp4, CodecId::kMxfp8, CodecId::kE5M2Channel, CodecId::kQ8_0, CodecId::kF32}) {
    EXPECT_EQ(deep(codec(id), hopper).code, ReasonCode::kCodec) << codec(id).name;
  }
  EXPECT_EQ(deep(block_codec(CodecId::kE4M3Block, 256, 128, ScaleType::kF32), hopper).code, ReasonCode::kChosen);
  for (const auto& [rows, cols] : {std::pair(64, 128), std::pair(128, 256), std::pair(5, 128)}) {
    const Reason reason = deep(block_codec(CodecId::kE4M3Block, rows, cols, ScaleType::kF32), hopper);
    EXPECT_EQ(reason.code, ReasonCode::kBlockSize);
    EXPECT_THAT(reason.detail, HasSubstr("128x128"));
  }
  const Codec block = block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32);
  EXPECT_EQ(deep(block, hopper, PackUse::kLinear, 64).code, ReasonCode::kBlockSize) << "begins within a block";
  EXPECT_EQ(deep(block, hopper, PackUse::kWideRows).code, ReasonCode::kNumerics) << "weights alone are quantised";
  EXPECT_EQ(deep(codec(CodecId::kBF16), hopper, PackUse::kWideRows).code, ReasonCode::kChosen);
}

TEST(CudaDeepPlan, ManyRowsOfLargeWeights) {
  FastProblem problem{.output_tiles = 56, .output_strips = 448, .cols = 16384, .rows = 4096};
  problem.codes = FastCodes::kE4M3Block;
  problem.deep = true;
  const FastDevice hopper = device_of("sm90");
  EXPECT_EQ(plan_fast_product(problem, hopper).tile_rows, 256);
  EXPECT_EQ(plan_fast_product(problem, hopper).deep_outputs, 128);
  EXPECT_EQ(plan_fast_product(problem, hopper).arranged_pairs, int64_t{4096} * 16384 / 4 + int64_t{4096} * 128);
  problem.rows = 66;
  EXPECT_EQ(plan_fast_product(problem, hopper).deep_outputs, 64) << "one wave of small tiles";
  EXPECT_EQ(plan_fast_product(problem, hopper).arranged_pairs, int64_t{66} * 16384 / 4 + int64_t{68} * 128);
  problem.codes = FastCodes::kBF16;
  EXPECT_EQ(plan_fast_product(problem, hopper).arranged_pairs, int64_t{66} * 16384 / 2);
  problem.rows = 64;
  EXPECT_EQ(judge_deep_rows(problem).code, ReasonCode::kRows);
  EXPECT_EQ(plan_fast_product(problem, hopper).deep_outputs, 0);
  problem.rows = 4096;
  problem.same_rows = true;
  EXPECT_EQ(judge_deep_rows(problem).code, ReasonCode::kNumerics);
  EXPECT_EQ(plan_fast_product(problem, hopper).deep_outputs, 0);
  problem.same_rows = false;
  problem.output_strips = 1;
  EXPECT_EQ(judge_deep_rows(problem).code, ReasonCode::kChosen);
  problem.cols = 1024;
  EXPECT_EQ(judge_deep_rows(problem).code, ReasonCode::kRows) << "little work";
}

// Arranged rows of two experts must not meet, and each expert's must begin where a swizzle does.
TEST(CudaFastPlan, ArrangedPlacesDoNotMeet) {
  std::vector<int32_t> first = {0};
  for (int32_t count : {3, 0, 8, 9, 1, 0, 64, 7}) first.push_back(first.back() + count);
  for (size_t e = 0; e + 1 < first.size(); ++e) {
    const int64_t begin = cuda::arranged_place(first[e], static_cast<int64_t>(e));
    EXPECT_EQ(begin % 8, 0);
    EXPECT_LE(begin + first[e + 1] - first[e], cuda::arranged_place(first[e + 1], static_cast<int64_t>(e) + 1));
  }
  const cuda::FastPlan plan = plan_fast_grouped(512, 8, 256, {132, true});
  EXPECT_EQ(plan.tile_rows, 64);
  EXPECT_EQ(plan_fast_grouped(8, 8, 256, {132, true}).tile_rows, 8);
  EXPECT_EQ(plan_fast_grouped(512, 8, 256, {108, false}).tile_rows, 8);
  EXPECT_GE(plan.arranged_pairs, (cuda::arranged_place(512, 8) + 64) * 128);
}

TEST(CudaFastChoice, FewRowsTakeTheirNeighboursIn) {
  const int64_t one[] = {0}, two[] = {0, 48}, odd[] = {0, 37};
  EXPECT_EQ(judge_fast_fused(8, 576, one, 100, true).code, ReasonCode::kChosen);
  EXPECT_EQ(judge_fast_fused(9, 576, one, 100, true).code, ReasonCode::kShape);
  EXPECT_EQ(judge_fast_fused(1, 32768, one, 64, false).code, ReasonCode::kChosen);
  EXPECT_EQ(judge_fast_fused(8, 32768, one, 64, false).code, ReasonCode::kShape);
  EXPECT_EQ(judge_fast_fused(1, 576, two, 96, true).code, ReasonCode::kChosen);
  EXPECT_EQ(judge_fast_fused(1, 576, odd, 74, true).code, ReasonCode::kShape);
  EXPECT_EQ(judge_fast_fused(1, 576, odd, 74, false).code, ReasonCode::kChosen);
  const int64_t five[] = {0, 16, 32, 48, 64};
  EXPECT_EQ(judge_fast_fused(1, 576, five, 80, false).code, ReasonCode::kShape);
}

TEST(CudaFastChoice, FewRowsMeetTheirExpertsInTwoLaunches) {
  ExpertsSpec spec;
  spec.experts = 32, spec.chosen = 4, spec.width = 2880;
  EXPECT_EQ(judge_fast_experts(spec, 2880, 4, {132, true}).code, ReasonCode::kChosen);
  EXPECT_EQ(judge_fast_experts(spec, 2880, 32 * 8 - 4, {132, true}).code, ReasonCode::kChosen);
  EXPECT_EQ(judge_fast_experts(spec, 2880, 32 * 12, {132, true}).code, ReasonCode::kSlower);
  EXPECT_EQ(judge_fast_experts(spec, 2884, 4, {132, true}).code, ReasonCode::kShape);
  spec.identity = 1;
  EXPECT_EQ(judge_fast_experts(spec, 2880, 4, {132, true}).code, ReasonCode::kShape);
}

}  // namespace
}  // namespace vernier
