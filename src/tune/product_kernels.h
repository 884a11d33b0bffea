#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "tensor/casts.h"
#include "tensor/codec.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"
#include "tune/choice.h"
#include "tune/device_features.h"

namespace vernier {

/// What a product by a weight is, as far as choosing its kernel goes.
struct ProductProblem {
  Codec codec;
  int64_t outputs = 0;  ///< of this rank, logical
  int64_t inputs = 0;
  int64_t batch_rows = 1;
  DType result = DType::kBF16;
  int parts = 1;                  ///< of a fused weight
  int global_scales = 1;          ///< distinct ones among its rows
  bool experts = false;           ///< one of many that a row may choose
  bool parts_fill_blocks = true;  ///< each part but the last ends with a scale group
  bool may_requantise = true;     ///< codes may be made anew for scales that a kernel reads

  Problem to_problem() const;
};

/// A kernel for products on an accelerator: all that it asks of a problem and of a chip. Preparation, launch and tuning
/// read the same row.
struct ProductKernel {
  std::string_view name;
  bool experts = false;
  ChipFeatureSet needs = {};
  int64_t shared_bytes = 0;
  uint64_t codecs = 0;            ///< bit i: reads CodecId i
  BlockSize block = {0, 0};       ///< scale groups that it is made for; 0: any
  int64_t group_multiple = 1;     ///< of a scale group's columns, which are cut into its tiles
  bool powers_of_two = false;     ///< reads E8M0 alone: blocks under f32 scales are requantised
  bool one_global_scale = false;  ///< for all rows
  bool part_by_part = false;      ///< runs each part of a fused weight for itself
  bool bf16_result = false;       ///< alone
  int64_t outputs_multiple = 1;
  int64_t inputs_multiple = 1;
  bool pads = false;   ///< the layout pads to those multiples; else they are asked for
  Layout layout = {};  ///< of the weight

  bool reads(CodecId id) const { return (codecs >> static_cast<unsigned>(id) & 1u) != 0; }
  /// Of a weight of so many parts: gate and up lie as the kernel's activation reads them.
  Layout layout_for(int parts) const;
};

/// All of them, fastest first; the last for each kind of product takes every problem on every chip.
std::span<const ProductKernel> product_kernels();

/// Whether the kernel can serve the problem on the chip, and if not why: kChosen for can. Pure.
Reason judge_product(const ProductKernel& kernel, const ProductProblem& problem, const DeviceFeatures& device);
/// The fastest that can, with the verdict on every other one for this kind of product.
Choice choose_product(const ProductProblem& problem, const DeviceFeatures& device);
/// The kernel that was asked for by name. An error names every candidate and what each lacks.
Result<Choice> require_product(const ProductProblem& problem, const DeviceFeatures& device, std::string_view kernel);
/// The row of a choice's kernel.
const ProductKernel& product_kernel(const Choice& choice);

}  // namespace vernier
