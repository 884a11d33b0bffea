#pragma once

#include "tensor/casts.h"

namespace vernier {

/// FP8 whose codes are FNUZ: one more step of bias, no infinity, no minus zero, 0x80 the only NaN. A type of its own,
/// so that its codes are never read as those of a QTensor (0x7F is 240 here and NaN there); only the casts below cross
/// over, and say what was lost. No kernel reads it.
class FnuzTensor {
 public:
  /// Scales and extents as in the FN codec of the parts: E4M3 or E5M2 per tensor, channel or block. Refuses what
  /// `QTensor::make` refuses.
  static Result<FnuzTensor> make(QTensorParts parts);
  /// FN numbers under scales twice as large, so that their codes stay: minus zero becomes zero and infinities 2 x the
  /// largest number, which the report counts.
  static Result<std::pair<FnuzTensor, CastReport>> from_fn(const QTensor& tensor);
  /// Under scales half as large, so that codes stay; those above FN's largest saturate, which the report counts.
  Result<Cast> to_fn() const;

  int64_t rows() const { return parts_.rows(); }
  int64_t cols() const { return parts_.cols(); }
  std::vector<float> decode() const;  ///< [rows, cols]

 private:
  explicit FnuzTensor(QTensor parts) : parts_(std::move(parts)) {}

  QTensor parts_;  // scales, sizes and the bytes; never decoded
};

}  // namespace vernier
