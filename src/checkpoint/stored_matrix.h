#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/load_report.h"
#include "tensor/qtensor.h"

namespace vernier {

/// One matrix of a checkpoint with every scale that acts on it, and the tensors that it was made of.
struct StoredMatrix {
  struct Source {
    const StoredTensor* tensor;
    TensorUse use;
  };

  QTensor matrix;
  std::vector<Source> sources;       ///< codes first
  std::optional<float> input_scale;  ///< static scale of the activations: x = code * scale
  bool weights_only = false;         ///< activations are not quantised
};

/// The tensor that holds a module's numbers or codes, under whichever name its dialect uses; null where there is none.
const StoredTensor* find_codes(const Checkpoint& checkpoint, const std::string& module);
/// Names of the tensors that scale the module's numbers, as `inspect` shows them: "weight_scale, weight_scale_2".
std::string scales_beside(const Checkpoint& checkpoint, const std::string& module);

/// Puts a module's matrix [rows, cols] together as the checkpoint's configuration says it lies. Refuses a tensor that
/// is missing, or of a type or shape other than the scheme's, and scales that are no positive finite numbers.
Result<StoredMatrix> read_matrix(const Checkpoint& checkpoint, const std::string& module, int64_t rows, int64_t cols);

}  // namespace vernier
