#pragma once

#include "api/kernel_rows.h"
#include "base/result.h"
#include "ops/backend.h"

namespace vernier {

/// How long a row is measured. A step of `many` launches is compared with one of `few`: what it takes longer is that of
/// the launches alone, without the step's begin and end. The backend makes graphs of such steps where it can.
struct BenchEffort {
  int few = 20, many = 140;
  int rounds = 6;              ///< steps of either sort, of which the best counts
  double other_bytes = 1.5e9;  ///< launches go round among buffers that are so large together: no cache holds them
  int tokens_a_chunk = 2048;   ///< of a cache that is filled
};

/// A row's time on a backend, on random numbers. Fails where the backend does, or has no such format.
Result<KernelTime> measure_row(Backend& backend, const KernelRow& row, const BenchEffort& effort);

/// What rows are divided by, now.
Result<KernelLimits> measure_kernel_limits(Backend& backend);

}  // namespace vernier
