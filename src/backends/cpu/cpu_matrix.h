#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/cpu_isa.h"
#include "backends/cpu/kernels/linear_kernels.h"
#include "backends/cpu/packed_bytes.h"
#include "base/thread_pool.h"
#include "ops/backend.h"
#include "tune/choice.h"

namespace vernier {

class LinearTactics;
class PreparedLinear;

/// Rows of a CpuMatrix that share a format: one part of a fused weight.
struct MatrixSegment {
  PanelLayout layout;
  std::string codec;  ///< as stored in the checkpoint
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t panels = 0;                        ///< of layout.rows rows; the last may be padded
  const uint8_t* data = nullptr;             ///< [panels] of layout.panel_bytes
  std::vector<float> row_scale;              ///< [rows], or empty: multiplies a row of the decoded panel
  Reason fp8_refused = {};                   ///< of an FP8 codec that is kept as floats: why
  const PreparedLinear* prepared = nullptr;  ///< the plans of its products; null: fixed ones
};

/// A matrix packed for the CPU: panels of 8 or 16 rows side by side (kernels/panel_format.h), segment after segment.
/// Owns its memory, which is near the size of the file's; immutable; any thread may read.
class CpuMatrix final : public PackedMatrix {
 public:
  CpuMatrix(int64_t rows, int64_t cols, std::vector<MatrixSegment> segments, PackedBytes bytes, PackedInfo info,
            Isa isa, Numerics numerics);

  PackedInfo info() const override { return info_; }
  std::span<const MatrixSegment> segments() const { return segments_; }
  /// Before anybody multiplies by it. What is prepared outlives it.
  void set_prepared(size_t segment, const PreparedLinear& prepared) { segments_[segment].prepared = &prepared; }
  const LinearKernels& kernels() const { return *kernels_; }
  Isa isa() const { return isa_; }
  Numerics numerics() const { return numerics_; }
  /// Whether this segment meets int8 activations.
  bool is_integer(const MatrixSegment& segment) const {
    return numerics_ == Numerics::kFast && vernier::is_integer(segment.layout.format);
  }

 private:
  std::vector<MatrixSegment> segments_;
  PackedBytes bytes_;
  PackedInfo info_;
  const LinearKernels* kernels_;
  Isa isa_;
  Numerics numerics_;
};

const LinearKernels& linear_kernels(Isa isa);

/// CHECKs that the matrix is this backend's.
const CpuMatrix& cpu_matrix(const PackedMatrix& matrix);

/// Packs the rows of all parts, one below the other, each with its own format and scales. Exact: `decode_packed_row`
/// gives the bits of QTensor::decode_row (but for the sign of a zero). Refuses no codec of the table: what has no
/// panel format of its own is stored as float numbers. The caller lets go of the file's pages. Memory comes from
/// `arena`, or is the matrix's own where that is null. With `tactics`, its products take their plans from there.
Result<std::shared_ptr<const CpuMatrix>> pack_matrix(std::span<const QTensor> parts, PackUse use, Isa isa,
                                                     Numerics numerics, ThreadPool& pool, PackArena* arena = nullptr,
                                                     LinearTactics* tactics = nullptr);

/// Row `row` as float32: `out` is [cols].
void decode_packed_row(const CpuMatrix& matrix, int64_t row, float* out);

}  // namespace vernier
