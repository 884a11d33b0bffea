#include "tune/product_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/check.h"

namespace vernier {
namespace {

const DeviceFeatures& device(std::string_view name) {
  const DeviceFeatures* found = find_device(name);
  CHECK(found != nullptr, "{}", name);
  return *found;
}

ProductProblem block_fp8(int64_t outputs, int64_t inputs, BlockSize block = {}, ScaleType scales = ScaleType::kF32) {
  return {block_codec(CodecId::kE4M3Block, block.rows, block.cols, scales), outputs, inputs};
}

ProductProblem of(CodecId id, int64_t outputs, int64_t inputs) {
  return {codec(id), outputs, inputs};
}

std::string chosen(const ProductProblem& problem, std::string_view name) {
  return choose_product(problem, device(name)).chosen().kernel;
}

Reason reason_of(const ProductProblem& problem, std::string_view name, std::string_view kernel) {
  for (const Candidate& candidate : choose_product(problem, device(name)).candidates) {
    if (candidate.kernel == kernel) return candidate.reason;
  }
  ADD_FAILURE() << "no candidate " << kernel;
  return {};
}

// The deep product assumes blocks of 128x128, whole tiles of 64 outputs and 128 inputs, and bf16 results. Taken with
// other blocks it would read wrong scales without a word.
TEST(ProductKernels, TheDeepFp8ProductTakesItsOwnShapesAloneTune4) {
  struct Row {
    ProductProblem problem;
    ReasonCode refused;
  };
  ProductProblem f16 = block_fp8(512, 512);
  f16.result = DType::kF16;
  for (auto [chip, deep] : {std::pair("sm90", "deep_fp8_warpgroup"), std::pair("sm100", "deep_fp8_tensor_memory"),
                            std::pair("sm103", "deep_fp8_tensor_memory")}) {
    EXPECT_EQ(chosen(block_fp8(512, 512), chip), deep);
    EXPECT_EQ(chosen(block_fp8(64, 128), chip), deep);
    EXPECT_EQ(chosen(block_fp8(512, 512, {}, ScaleType::kE8M0), chip), deep);
    for (const Row& row : {Row{f16, ReasonCode::kResultType}, Row{block_fp8(96, 512), ReasonCode::kShape},
                           Row{block_fp8(576, 512), ReasonCode::kChosen}, Row{block_fp8(512, 192), ReasonCode::kShape},
                           Row{block_fp8(512, 512, {128, 256}), ReasonCode::kBlockSize},
                           Row{block_fp8(512, 512, {64, 64}), ReasonCode::kBlockSize},
                           Row{block_fp8(512, 512, {32, 32}), ReasonCode::kBlockSize}}) {
      const Reason reason = reason_of(row.problem, chip, deep);
      EXPECT_EQ(reason.code, row.refused) << chip << " " << row.problem.to_problem().to_string();
      EXPECT_EQ(chosen(row.problem, chip), row.refused == ReasonCode::kChosen ? deep : "block_fp8");
    }
  }
  EXPECT_EQ(reason_of(block_fp8(96, 512), "sm90", "deep_fp8_warpgroup").detail, "96 outputs are no multiple of 64");
}

// Whether blocks whose columns no tile of 32 divides, or chips without FP8 products: never without a kernel.
TEST(ProductKernels, AnyBlockOnAnyChipHasAKernelTune4) {
  for (int64_t outputs : {1, 63, 64, 127, 128, 129, 576}) {
    for (int64_t inputs : {1, 63, 64, 127, 128, 129, 576}) {
      for (BlockSize block : {BlockSize{128, 128}, {64, 64}, {1, 128}, {32, 32}}) {
        const bool deep = block == BlockSize{128, 128} && outputs % 64 == 0 && inputs % 128 == 0;
        EXPECT_EQ(chosen(block_fp8(outputs, inputs, block), "sm90"), deep ? "deep_fp8_warpgroup" : "block_fp8");
        EXPECT_EQ(chosen(block_fp8(outputs, inputs, block), "sm120"), "block_fp8");
        EXPECT_EQ(chosen(block_fp8(outputs, inputs, block), "sm80"), "w8a16");
      }
      EXPECT_EQ(chosen(block_fp8(outputs, inputs, {128, 1}), "sm90"), "w8a16");
    }
  }
}

// What a format runs with where; chips of one generation differ, and are told apart by what they can do.
TEST(ProductKernels, FormatsOnChipsTune4) {
  struct Row {
    CodecId codec;
    const char *sm90, *sm100, *sm103, *sm120;
  };
  for (const Row& row : {Row{CodecId::kMxfp8, "block_fp8", "scaled_mxfp8", "scaled_mxfp8", "scaled_mxfp8"},
                         Row{CodecId::kNvfp4, "w4a16", "scaled_nvfp4", "scaled_nvfp4", "scaled_nvfp4"},
                         Row{CodecId::kMxfp4, "w4a16", "w4a16", "w4a16", "w4a16"},
                         Row{CodecId::kE4M3Tensor, "plain_fp8", "plain_fp8", "plain_fp8", "plain_fp8"},
                         Row{CodecId::kE4M3Channel, "plain_fp8", "plain_fp8", "plain_fp8", "plain_fp8"},
                         Row{CodecId::kE5M2Tensor, "w8a16", "w8a16", "w8a16", "w8a16"},
                         Row{CodecId::kBF16, "dense_bf16", "dense_bf16", "dense_bf16", "dense_bf16"},
                         Row{CodecId::kQ4_1, "decode_tiles", "decode_tiles", "decode_tiles", "decode_tiles"}}) {
    EXPECT_EQ(chosen(of(row.codec, 512, 512), "sm90"), row.sm90);
    EXPECT_EQ(chosen(of(row.codec, 512, 512), "sm100"), row.sm100);
    EXPECT_EQ(chosen(of(row.codec, 512, 512), "sm103"), row.sm103);
    EXPECT_EQ(chosen(of(row.codec, 512, 512), "sm120"), row.sm120);
  }
}

TEST(ProductKernels, ExpertsOnChipsTune4) {
  ProductProblem mxfp4 = of(CodecId::kMxfp4, 2 * 2880, 2880);
  mxfp4.experts = true;
  mxfp4.parts = 2;
  ProductProblem fp8 = block_fp8(2 * 192, 512);
  fp8.experts = true;
  EXPECT_EQ(chosen(mxfp4, "sm100"), "experts_mxfp4_tensor_memory");
  EXPECT_EQ(chosen(mxfp4, "sm103"), "experts_mxfp4_tensor_memory");
  EXPECT_EQ(chosen(mxfp4, "sm90"), "experts_w4a16");
  EXPECT_EQ(chosen(mxfp4, "sm120"), "experts_w4a16");  // FP4 products, and no tensor memory
  EXPECT_EQ(reason_of(mxfp4, "sm120", "experts_mxfp4_tensor_memory").code, ReasonCode::kNeedsFeature);
  EXPECT_EQ(chosen(fp8, "sm90"), "experts_deep_fp8_warpgroup");
  EXPECT_EQ(chosen(fp8, "sm100"), "experts_deep_fp8_tensor_memory");
  EXPECT_EQ(chosen(fp8, "sm120"), "experts_block_fp8");
  // Gate and up are read in turns, up first; the second product has one part.
  const ProductKernel& kernel = product_kernel(choose_product(mxfp4, device("sm100")));
  EXPECT_TRUE(kernel.layout_for(2).parts_alternate && kernel.layout_for(2).last_part_first);
  EXPECT_FALSE(kernel.layout_for(1).parts_alternate || kernel.layout_for(1).last_part_first);
  EXPECT_EQ(kernel.layout_for(2).row_multiple, 128);
}

// TUNE-4. The name decides nothing: a chip that nobody knew with what sm90 can do runs what sm90 runs.
TEST(ProductKernels, AChipIsWhatItCanDoTune4) {
  DeviceFeatures unknown = device("sm90");
  unknown.name = "sm999";
  EXPECT_EQ(choose_product(block_fp8(512, 512), unknown).chosen().kernel, "deep_fp8_warpgroup");
  unknown.shared_bytes = 99 * 1024;
  EXPECT_EQ(choose_product(block_fp8(512, 512), unknown).chosen().kernel, "block_fp8");
  EXPECT_EQ(choose_product(block_fp8(512, 512), {"nothing", {}, 0}).chosen().kernel, "decode_tiles");
}

TEST(ProductKernels, CodesAreNotMadeAnewWhereThatIsForbidden) {
  ProductProblem problem = block_fp8(512, 512);
  problem.may_requantise = false;
  EXPECT_EQ(chosen(problem, "sm100"), "block_fp8");
  EXPECT_EQ(reason_of(problem, "sm100", "deep_fp8_tensor_memory").code, ReasonCode::kScales);
  EXPECT_EQ(chosen(problem, "sm90"), "deep_fp8_warpgroup");  // reads f32 scales
  problem.codec = block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kE8M0);
  EXPECT_EQ(chosen(problem, "sm100"), "deep_fp8_tensor_memory");  // they are powers of two already
}

TEST(ProductKernels, PartsUnderSeveralGlobalScalesAreNotGivenToAKernelOfOne) {
  ProductProblem problem = of(CodecId::kNvfp4, 512, 512);
  problem.global_scales = 3;
  EXPECT_EQ(chosen(problem, "sm100"), "w4a16");
  EXPECT_EQ(reason_of(problem, "sm100", "scaled_nvfp4").code, ReasonCode::kScales);
}

// TUNE-5
TEST(ProductKernels, WhatWasAskedForAndCannotIsAnErrorThatListsAllTune5) {
  const ProductProblem problem = of(CodecId::kMxfp8, 512, 512);
  EXPECT_EQ(require_product(problem, device("sm120"), "scaled_mxfp8").value().chosen().kernel, "scaled_mxfp8");
  const Choice other = require_product(problem, device("sm100"), "w8a16").value();
  EXPECT_EQ(other.chosen().kernel, "w8a16");
  EXPECT_EQ(std::ranges::count(other.candidates, ReasonCode::kChosen, [](const Candidate& c) { return c.reason.code; }),
            1);
  const Error refused = require_product(problem, device("sm90"), "scaled_mxfp8").error();
  for (const char* part : {"needs scaled_mma; sm90 has bf16_mma, fp8_mma", "block_fp8 (can)", "w8a16 (can)",
                           "dense_bf16 (does not read mxfp8)"}) {
    EXPECT_NE(refused.message.find(part), std::string::npos) << refused.message;
  }
  EXPECT_NE(require_product(problem, device("sm90"), "nonsense").error().message.find("no kernel 'nonsense'"),
            std::string::npos);
}

// Keys of 64 rows below queries: the values' blocks would start half a block late.
TEST(ProductKernels, PartsThatEndWithinABlockKeepTheirOwnScales) {
  ProductProblem problem = block_fp8(640, 512);
  problem.parts = 3;
  problem.parts_fill_blocks = false;
  EXPECT_EQ(chosen(problem, "sm90"), "w8a16");
  EXPECT_EQ(chosen(problem, "sm100"), "deep_fp8_tensor_memory");  // each row has its own words
  EXPECT_EQ(reason_of(problem, "sm90", "deep_fp8_warpgroup").code, ReasonCode::kScales);
  problem.experts = true;
  EXPECT_EQ(chosen(problem, "sm90"), "experts_deep_fp8_warpgroup");  // each part is padded to whole blocks
}

/// The conditions, written once more without the table's order.
bool conditions_hold(const ProductKernel& kernel, const ProductProblem& problem, const DeviceFeatures& chip) {
  const bool sizes =
      kernel.pads || (problem.outputs % kernel.outputs_multiple == 0 && problem.inputs % kernel.inputs_multiple == 0);
  const bool block = kernel.block.rows == 0 ||
                     (problem.codec.group_rows == kernel.block.rows && problem.codec.group_cols == kernel.block.cols);
  return kernel.experts == problem.experts && kernel.reads(problem.codec.id) && sizes && block &&
         problem.codec.group_cols % kernel.group_multiple == 0 &&
         (!kernel.bf16_result || problem.result == DType::kBF16) && kernel.shared_bytes <= chip.shared_bytes &&
         !kernel.needs.first_missing_in(chip.capabilities) &&
         (!kernel.one_global_scale || problem.global_scales == 1) &&
         (!kernel.powers_of_two || problem.codec.inner == ScaleType::kE8M0 || problem.may_requantise);
}

// No assertion of a kernel can be reached from a model's shape: a hundred thousand problems, and the kernel's
// conditions hold for each.
TEST(ProductKernels, TheChosenOnesConditionsHoldTune4) {
  std::mt19937 random(11);
  auto draw = [&](int64_t below) { return static_cast<int64_t>(random() % static_cast<uint64_t>(below)); };
  const std::span<const Codec> codecs = all_codecs();
  for (int i = 0; i < 100000; ++i) {
    const CodecId id = codecs[static_cast<size_t>(draw(static_cast<int64_t>(codecs.size())))].id;
    const bool block = id == CodecId::kE4M3Block || id == CodecId::kE5M2Block;
    ProductProblem problem{
        block ? block_codec(id, 1 << draw(9), 1 << draw(9), draw(2) == 0 ? ScaleType::kF32 : ScaleType::kE8M0)
              : codec(id),
        1 + draw(4096), 1 + draw(4096), 1 + draw(4096)};
    if (draw(2) == 0) problem.outputs = 64 * (1 + problem.outputs / 64);
    if (draw(2) == 0) problem.inputs = 128 * (1 + problem.inputs / 128);
    if (draw(4) == 0) problem.result = DType::kF16;
    problem.experts = draw(2) == 0;
    problem.may_requantise = draw(4) != 0;
    problem.global_scales = draw(3) == 0 ? 2 : 1;
    const DeviceFeatures& chip = known_devices()[static_cast<size_t>(draw(7))];
    const Choice choice = choose_product(problem, chip);
    ASSERT_TRUE(conditions_hold(product_kernel(choice), problem, chip))
        << choice.chosen().kernel << " on " << chip.name << ": " << choice.problem.to_string();
  }
}

TEST(DeviceFeatures, NamesOfCapabilitiesComeBack) {
  for (int i = 0; i < kChipFeatures; ++i) {
    const auto capability = static_cast<ChipFeature>(i);
    EXPECT_EQ(find_chip_feature(name(capability)), capability);
  }
  EXPECT_FALSE(find_chip_feature("sm90"));
  EXPECT_EQ(find_device("sm1"), nullptr);
}

}  // namespace
}  // namespace vernier
