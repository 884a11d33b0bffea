#include "tune/product_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace vernier {
namespace {

using enum ChipFeature;

constexpr int64_t kKiB = 1024;
constexpr BlockSize kBlock128 = {128, 128};

constexpr uint64_t set_of(std::initializer_list<CodecId> ids) {
  uint64_t bits = 0;
  for (CodecId id : ids) bits |= uint64_t{1} << static_cast<unsigned>(id);
  return bits;
}
constexpr uint64_t kEveryCodec = ~uint64_t{0};
constexpr uint64_t kBytes = set_of({CodecId::kE4M3Tensor, CodecId::kE4M3Channel, CodecId::kE4M3Block,
                                    CodecId::kE5M2Tensor, CodecId::kE5M2Channel, CodecId::kE5M2Block, CodecId::kMxfp8});
constexpr uint64_t kFp4 = set_of({CodecId::kMxfp4, CodecId::kNvfp4});

/// Rows of gate and up in turns, up first, as the activation that follows within the kernel takes them.
constexpr Layout kShuffled = {128, 128, false, false, RowShuffle::kBlocks32, ScaleOrder::kTiles128x4};

constexpr Layout padded(int64_t rows, int64_t cols, ScaleOrder scales = ScaleOrder::kRows) {
  return {rows, cols, false, false, RowShuffle::kNone, scales};
}

std::vector<ProductKernel> linear_kernels() {
  return {
      {.name = "dense_bf16",
       .needs = {kBf16Mma},
       .codecs = set_of({CodecId::kBF16, CodecId::kF16}),
       .outputs_multiple = 8,
       .inputs_multiple = 8},
      {.name = "deep_fp8_tensor_memory",
       .needs = {kFp8Mma, kScaledMma, kBulkCopy, kTensorMemory},
       .shared_bytes = 200 * kKiB,
       .codecs = set_of({CodecId::kE4M3Block}),
       .block = kBlock128,
       .powers_of_two = true,
       .bf16_result = true,
       .outputs_multiple = 64,
       .inputs_multiple = 128,
       .layout = padded(1, 1, ScaleOrder::kWordsEachRow)},
      {.name = "deep_fp8_warpgroup",
       .needs = {kFp8Mma, kBulkCopy, kWarpgroupMma},
       .shared_bytes = 200 * kKiB,
       .codecs = set_of({CodecId::kE4M3Block}),
       .block = kBlock128,
       .bf16_result = true,
       .outputs_multiple = 64,
       .inputs_multiple = 128},
      {.name = "scaled_mxfp8",
       .needs = {kFp8Mma, kScaledMma},
       .codecs = set_of({CodecId::kMxfp8}),
       .outputs_multiple = 16,
       .inputs_multiple = 32,
       .layout = padded(1, 1, ScaleOrder::kTiles128x4)},
      {.name = "scaled_nvfp4",
       .needs = {kFp4Mma, kScaledMma},
       .codecs = set_of({CodecId::kNvfp4}),
       .one_global_scale = true,
       .outputs_multiple = 16,
       .inputs_multiple = 32,
       .layout = padded(1, 1, ScaleOrder::kTiles128x4)},
      {.name = "plain_fp8",
       .needs = {kFp8Mma},
       .codecs = set_of({CodecId::kE4M3Tensor, CodecId::kE4M3Channel}),
       .outputs_multiple = 16,
       .inputs_multiple = 16,
       .pads = true,
       .layout = padded(16, 16)},
      {.name = "block_fp8",
       .needs = {kFp8Mma},
       .codecs = set_of({CodecId::kE4M3Block, CodecId::kMxfp8}),
       .group_multiple = 32},
      {.name = "w4a16",
       .needs = {kBf16Mma},
       .codecs = kFp4,
       .outputs_multiple = 64,
       .inputs_multiple = 64,
       .pads = true,
       .layout = padded(64, 64)},
      {.name = "w8a16", .needs = {kBf16Mma}, .codecs = kBytes, .part_by_part = true},
      {.name = "decode_tiles", .codecs = kEveryCodec, .part_by_part = true},
  };
}

std::vector<ProductKernel> expert_kernels() {
  return {
      {.name = "experts_mxfp4_tensor_memory",
       .experts = true,
       .needs = {kFp8Mma, kFp4Mma, kScaledMma, kBulkCopy, kTensorMemory},
       .shared_bytes = 200 * kKiB,
       .codecs = set_of({CodecId::kMxfp4}),
       .bf16_result = true,
       .outputs_multiple = 128,
       .inputs_multiple = 128,
       .pads = true,
       .layout = kShuffled},
      {.name = "experts_deep_fp8_tensor_memory",
       .experts = true,
       .needs = {kFp8Mma, kScaledMma, kBulkCopy, kTensorMemory},
       .shared_bytes = 200 * kKiB,
       .codecs = set_of({CodecId::kE4M3Block}),
       .block = kBlock128,
       .powers_of_two = true,
       .bf16_result = true,
       .outputs_multiple = 128,
       .inputs_multiple = 128,
       .pads = true,
       .layout = padded(128, 128, ScaleOrder::kWordsEachRow)},
      {.name = "experts_deep_fp8_warpgroup",
       .experts = true,
       .needs = {kFp8Mma, kBulkCopy, kWarpgroupMma},
       .shared_bytes = 200 * kKiB,
       .codecs = set_of({CodecId::kE4M3Block}),
       .block = kBlock128,
       .bf16_result = true,
       .outputs_multiple = 128,
       .inputs_multiple = 128,
       .pads = true,
       .layout = padded(128, 128)},
      {.name = "experts_block_fp8",
       .experts = true,
       .needs = {kFp8Mma},
       .codecs = set_of({CodecId::kE4M3Block, CodecId::kMxfp8}),
       .group_multiple = 32},
      {.name = "experts_w4a16",
       .experts = true,
       .needs = {kBf16Mma},
       .codecs = kFp4,
       .outputs_multiple = 64,
       .inputs_multiple = 64,
       .pads = true,
       .layout = padded(64, 64)},
      {.name = "experts_decode_tiles", .experts = true, .codecs = kEveryCodec, .part_by_part = true},
  };
}

Reason judge_chip(const ProductKernel& kernel, const DeviceFeatures& device) {
  if (std::optional<ChipFeature> missing = kernel.needs.first_missing_in(device.capabilities)) {
    return {ReasonCode::kNeedsFeature,
            fmt::format("needs {}; {} has {}", name(*missing), device.name, device.capabilities.to_string())};
  }
  if (kernel.shared_bytes > device.shared_bytes) {
    return {ReasonCode::kNeedsFeature,
            fmt::format("needs {} KiB of shared memory; {} has {}", kernel.shared_bytes / kKiB, device.name,
                        device.shared_bytes / kKiB)};
  }
  return {};
}

Reason judge_scales(const ProductKernel& kernel, const ProductProblem& problem) {
  const Codec& codec = problem.codec;
  if (kernel.block.rows != 0 && (codec.group_rows != kernel.block.rows || codec.group_cols != kernel.block.cols)) {
    return {ReasonCode::kBlockSize, fmt::format("made for blocks of {}x{}; these are {}x{}", kernel.block.rows,
                                                kernel.block.cols, codec.group_rows, codec.group_cols)};
  }
  if (codec.group_cols % kernel.group_multiple != 0) {
    return {ReasonCode::kBlockSize, fmt::format("cuts columns into tiles of {}; a scale is shared by {}",
                                                kernel.group_multiple, codec.group_cols)};
  }
  // One grid of scales for all rows would be out of step with the second part.
  const bool own_grids = kernel.part_by_part || kernel.layout.scales == ScaleOrder::kWordsEachRow ||
                         kernel.layout.row_multiple % std::max(codec.group_rows, 1) == 0;
  if (!problem.parts_fill_blocks && !own_grids) {
    return {ReasonCode::kScales, fmt::format("a part ends within a block of {} rows", codec.group_rows)};
  }
  if (kernel.one_global_scale && problem.global_scales > 1) {
    return {ReasonCode::kScales, fmt::format("takes one global scale; the parts have {}", problem.global_scales)};
  }
  if (kernel.powers_of_two && codec.inner == ScaleType::kF32 && !problem.may_requantise) {
    return {ReasonCode::kScales, "reads scales that are powers of two; codes may not be made anew for them"};
  }
  return {};
}

Reason judge_sizes(const ProductKernel& kernel, const ProductProblem& problem) {
  if (kernel.bf16_result && problem.result != DType::kBF16) {
    return {ReasonCode::kResultType, fmt::format("writes bf16; {} is asked for", name(problem.result))};
  }
  if (kernel.pads) return {};
  if (problem.outputs % kernel.outputs_multiple != 0) {
    return {ReasonCode::kShape,
            fmt::format("{} outputs are no multiple of {}", problem.outputs, kernel.outputs_multiple)};
  }
  if (problem.inputs % kernel.inputs_multiple != 0) {
    return {ReasonCode::kShape, fmt::format("{} inputs are no multiple of {}", problem.inputs, kernel.inputs_multiple)};
  }
  return {};
}

}  // namespace

Problem ProductProblem::to_problem() const {
  Problem problem{experts ? "experts" : "linear",
                  {{"codec", std::string(codec.name)},
                   {"rows", std::to_string(outputs)},
                   {"cols", std::to_string(inputs)},
                   {"batch", std::to_string(batch_rows)},
                   {"result", std::string(name(result))}}};
  if (parts > 1) problem.facts.push_back({"parts", std::to_string(parts)});
  if (!parts_fill_blocks) problem.facts.push_back({"parts_fill_blocks", "no"});
  if (codec.outer_scale) problem.facts.push_back({"global_scales", std::to_string(global_scales)});
  if (!may_requantise) problem.facts.push_back({"requantise", "no"});
  return problem;
}

Layout ProductKernel::layout_for(int parts) const {
  Layout made = layout;
  // The activation follows within the kernel, which is given pairs.
  if (experts && parts == 2 && layout.shuffle != RowShuffle::kNone) made.last_part_first = made.parts_alternate = true;
  return made;
}

std::span<const ProductKernel> product_kernels() {
  static const std::vector<ProductKernel> kKernels = [] {
    std::vector<ProductKernel> all = linear_kernels();
    for (ProductKernel& kernel : expert_kernels()) all.push_back(std::move(kernel));
    return all;
  }();
  return kKernels;
}

Reason judge_product(const ProductKernel& kernel, const ProductProblem& problem, const DeviceFeatures& device) {
  if (!kernel.reads(problem.codec.id)) {
    return {ReasonCode::kCodec, fmt::format("does not read {}", problem.codec.name)};
  }
  if (Reason reason = judge_chip(kernel, device); reason.code != ReasonCode::kChosen) return reason;
  if (Reason reason = judge_scales(kernel, problem); reason.code != ReasonCode::kChosen) return reason;
  return judge_sizes(kernel, problem);
}

Choice choose_product(const ProductProblem& problem, const DeviceFeatures& device) {
  Choice choice;
  choice.problem = problem.to_problem();
  const ProductKernel* chosen = nullptr;
  for (const ProductKernel& kernel : product_kernels()) {
    if (kernel.experts != problem.experts) continue;
    Reason reason = judge_product(kernel, problem, device);
    if (reason.code == ReasonCode::kChosen) {
      if (chosen != nullptr) reason = {ReasonCode::kSlower, fmt::format("{} is faster here", chosen->name)};
      if (chosen == nullptr) chosen = &kernel;
    }
    choice.candidates.push_back({std::string(kernel.name), std::move(reason)});
  }
  CHECK(chosen != nullptr, "no kernel takes {}", choice.problem.to_string());
  choice.layout = chosen->layout_for(problem.parts).to_string();
  return choice;
}

Result<Choice> require_product(const ProductProblem& problem, const DeviceFeatures& device, std::string_view kernel) {
  Choice choice = choose_product(problem, device);
  const auto asked = std::ranges::find(choice.candidates, kernel, &Candidate::kernel);
  std::string all;
  for (const Candidate& candidate : choice.candidates) {
    const bool can = candidate.reason.code == ReasonCode::kChosen || candidate.reason.code == ReasonCode::kSlower;
    all += fmt::format("{}{} ({})", all.empty() ? "" : ", ", candidate.kernel, can ? "can" : candidate.reason.detail);
  }
  if (asked == choice.candidates.end()) {
    return invalid_argument("no kernel '{}' for {}; there are: {}", kernel, choice.problem.to_string(), all);
  }
  if (asked->reason.code == ReasonCode::kChosen) return choice;
  if (asked->reason.code != ReasonCode::kSlower) {
    return unsupported("{} cannot serve {}: {}; candidates: {}", kernel, choice.problem.to_string(),
                       asked->reason.detail, all);
  }
  for (Candidate& candidate : choice.candidates) {
    if (candidate.reason.code == ReasonCode::kChosen) {
      candidate.reason = {ReasonCode::kNotAsked, fmt::format("{} was asked for", kernel)};
    }
  }
  asked->reason = {ReasonCode::kChosen, "asked for"};
  choice.layout = product_kernel(choice).layout_for(problem.parts).to_string();
  return choice;
}

const ProductKernel& product_kernel(const Choice& choice) {
  const auto kernels = product_kernels();
  const auto found = std::ranges::find(kernels, choice.chosen().kernel, &ProductKernel::name);
  CHECK(found != kernels.end(), "{} is no kernel of the table", choice.chosen().kernel);
  return *found;
}

}  // namespace vernier
