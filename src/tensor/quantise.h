#pragma once

#include <cmath>
#include <limits>

#include "tensor/qtensor.h"

namespace vernier {

/// What the numbers of a matrix lost, as energies, and the block of it that lost most.
struct QuantLoss {
  double signal = 0;                                          ///< sum of squares of the numbers
  double noise = 0;                                           ///< sum of squares of the differences
  double worst_db = std::numeric_limits<double>::infinity();  ///< of the block with the smallest ratio
  int64_t worst_row = 0, worst_col = 0;                       ///< where that block begins

  double snr_db() const { return ratio_db(signal, noise); }
  /// Infinite where nothing is lost.
  static double ratio_db(double signal, double noise) {
    return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
  }
};

struct QuantiseOptions {
  /// NVFP4: the magnitude that the global scale is made for, so that the parts of a fused weight can share one. 0: the
  /// matrix's own largest.
  float largest = 0;
  int threads = 1;
};

/// The matrix in another codec, with the scales that lose least: beside the scale that brings the largest magnitude of
/// a group to the largest code its neighbours are tried, and the one with the smallest sum of squared differences is
/// taken (of f32 scales for E4M3 only where that is a sixteenth smaller). GGUF's integer blocks and dense numbers are
/// those of `encode`. A matrix of that codec is given back as it is.
///
/// Never holds all numbers decoded: a few MB for each thread beside the result. Refuses NaN and infinities with their
/// place, and columns that are no multiple of the codec's group.
Result<QTensor> quantise(const QTensor& source, const Codec& target, const QuantiseOptions& options = {});

/// The largest magnitude; refuses NaN and infinities.
Result<float> largest_finite(const QTensor& source, int threads = 1);

/// What `result` lost of `source`, over blocks of one row and as many columns as the result's group has, at most 256.
QuantLoss measure_loss(const QTensor& source, const QTensor& result, int threads = 1);

}  // namespace vernier
