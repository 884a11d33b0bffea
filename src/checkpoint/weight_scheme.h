#pragma once

#include <cstdint>
#include <string>

namespace vernier {

/// How the tensors of one matrix lie in a checkpoint; all but kDense have scales beside them.
enum class WeightForm : uint8_t {
  kDense,       ///< numbers, or blocks that hold their own scales
  kFp8Tensor,   ///< one scale
  kFp8Channel,  ///< a scale for each row
  kFp8Block,    ///< a scale for each block of rows x columns
  kMxfp8,
  kMxfp4,
  kNvfp4,
  kAwq,            ///< AutoAWQ's packing of 4-bit integers
  kGptq,           ///< integers packed along the inputs
  kMlx,            ///< integers without gaps, a scale and a minimum for each group
  kPackedInteger,  ///< compressed-tensors: integers packed along the inputs, sign bit turned
  kInteger,        ///< compressed-tensors: an I8 each
};

/// What a checkpoint's configuration says of a linear layer.
struct WeightScheme {
  WeightForm form = WeightForm::kDense;
  std::string algorithm;             ///< as the configuration calls it: "fp8", "NVFP4", "float-quantized"
  int block_rows = 0;                ///< kFp8Block
  int block_cols = 0;                ///< kFp8Block
  std::string element;               ///< of FP8 codes, "e4m3" or "e5m2", where the configuration says it
  bool power_of_two_scales = false;  ///< the configuration says so: scale_fmt ue8m0
  bool global_divides = false;       ///< kNvfp4: global scales are stored as what to divide by
  bool needs_input_scale = false;    ///< activations have a static scale, which must be there
  bool weights_only = false;         ///< the configuration says that activations are not quantised

  int bits = 0;                 ///< of an integer code
  int group = 0;                ///< columns of a group of integers; 0: a whole row
  bool symmetric = true;        ///< integers without zero points
  bool zeros_less_one = false;  ///< kGptq: zero points are stored less one
  bool in_words = false;        ///< FP8 and FP4 codes lie in U32, as MLX keeps them

  /// Whether the same bytes mean the same numbers; two tools may call one algorithm by two names.
  bool same_numbers(const WeightScheme& other) const {
    return form == other.form && block_rows == other.block_rows && block_cols == other.block_cols &&
           global_divides == other.global_divides && bits == other.bits && group == other.group &&
           symmetric == other.symmetric && zeros_less_one == other.zeros_less_one && in_words == other.in_words;
  }
};

/// "fp8 (e4m3 or e5m2, blocks of 128x128)"; "not quantised".
std::string describe(const WeightScheme& scheme);

/// The scheme of one linear layer and the rule that chose it.
struct WeightDecision {
  WeightScheme scheme;
  std::string rule;  ///< "group_0 of quantization_config"; empty where the checkpoint has no quantisation
  /// Heads, embeddings and routers: dialects keep them as they were without listing them, so they are quantised only
  /// where their tensors are.
  bool only_if_stored = false;
};

}  // namespace vernier
