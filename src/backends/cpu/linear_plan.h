#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/linear_kernel_choice.h"
#include "base/result.h"
#include "tune/tactic.h"

namespace vernier {

/// How the products of a segment run for steps of some number of rows: what a tactic decides. Nothing of it changes a
/// bit of a result, as all that may serve one product add in one order (CPU-13).
struct LinearPlan {
  LinearKernel kernel = LinearKernel::kFloatTile;
  int64_t chunk_panels = 1;  ///< that a thread claims at a time
  int64_t rows_at_once = 1;  ///< of activations: that meet codes as they come, or that panels are unpacked once for
  int64_t cols_at_once = 0;  ///< of panels, unpacked at a time; 0: the kernel unpacks none
  bool narrower = false;     ///< by the instruction set below, whose panels are the same (tiles by vectors)
  bool alone = false;        ///< on the calling thread, where handing out work costs more than it gains

  bool operator==(const LinearPlan&) const = default;
};

/// What plans may ask for: scratch memory holds this much.
inline constexpr int64_t kMostChunkPanels = 64;
inline constexpr int64_t kMostTileRows = 256;
inline constexpr int64_t kMostIntTileCols = 1536;
inline constexpr int64_t kMostFloatTileCols = 512;

/// The plan that is not measured.
LinearPlan fixed_plan(const CpuMatrix& matrix, const MatrixSegment& segment, int64_t rows, int threads);

/// That of the segment's tactic, or the fixed one.
LinearPlan plan_linear(const CpuMatrix& matrix, const MatrixSegment& segment, int64_t rows, int threads);

/// Every plan that is worth measuring, the fixed one first; each may serve by `linear_verdict`.
std::vector<LinearPlan> linear_candidates(const CpuMatrix& matrix, const MatrixSegment& segment, int64_t rows,
                                          int threads);

/// A plan as a tactic names it, and back. Refuses a kernel that cannot serve this, and a parameter out of its range.
NamedKernel name_plan(const LinearPlan& plan, const CpuMatrix& matrix, const MatrixSegment& segment);
Result<LinearPlan> read_plan(const NamedKernel& named, const CpuMatrix& matrix, const MatrixSegment& segment,
                             int64_t rows, int threads);

}  // namespace vernier
