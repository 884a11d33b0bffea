#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tensor/qtensor.h"

namespace vernier {

/// Rows and columns that share a scale. A value type: compared as two numbers, however a configuration spells them.
struct BlockSize {
  uint16_t rows = 128;
  uint16_t cols = 128;

  bool operator==(const BlockSize&) const = default;
};

/// What a change of format did to the numbers of a matrix.
struct CastReport {
  int64_t elements = 0;
  int64_t inexact = 0;        ///< elements whose value changed
  int64_t saturated = 0;      ///< of those, clamped to the largest code
  double relative_rms = 0;    ///< of the change, against the numbers
  double worst_relative = 0;  ///< largest change of an element, against the largest number of its block
  double widest_ratio = 1;    ///< largest scale against smallest, within one block of the result

  bool exact() const { return inexact == 0; }
  std::string to_string() const;  ///< "exact", or "2097 of 16384 numbers changed, relative RMS 0.0241, worst 0.031"
};

/// What became of numbers, element by element; the worst change is against the largest of all.
CastReport compare_numbers(std::span<const float> before, std::span<const float> after);

/// Numbers in another format, and what that cost them.
struct Cast {
  QTensor tensor;
  CastReport report;
};

/// Whether a lossy cast is an error.
enum class CastLoss : uint8_t { kReport, kRefuse };

/// Blocks of E4M3 or E5M2 under f32 scales as the same blocks under powers of two. A scale that is one already keeps
/// its codes; any other block gets the smallest power of two that holds its largest number, and its codes are made
/// anew: a scale that is rounded alone would make the block up to twice as large. What has E8M0 scales comes back as it
/// is.
Result<Cast> with_e8m0_scales(const QTensor& tensor, CastLoss loss = CastLoss::kReport);

/// MXFP4 as E4M3 in blocks under E8M0 scales: exact as long as the scales of a block lie within a factor of 2^14. Each
/// block's scale is its largest group scale / 64. `block` divides rows and columns, and holds whole groups of 32.
Result<Cast> mxfp4_to_e4m3(const QTensor& tensor, BlockSize block = {}, CastLoss loss = CastLoss::kRefuse);

/// MXFP8 as E4M3 in blocks under E8M0 scales, refused where a number would change. The last blocks may be ragged.
Result<Cast> mxfp8_to_blocks(const QTensor& tensor, BlockSize block = {}, CastLoss loss = CastLoss::kRefuse);

/// The same codes in smaller blocks, each with a copy of the scale that it had: exact. Both sizes of `block` divide the
/// tensor's own.
Result<QTensor> with_smaller_blocks(const QTensor& tensor, BlockSize block);

}  // namespace vernier
