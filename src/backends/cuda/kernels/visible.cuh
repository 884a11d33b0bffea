#pragma once

#include "backends/cuda/kernels/launch.h"

namespace vernier::cuda {

/// Which keys a row sees.
struct Visible {
  int32_t sequence, begin, end;

  __device__ Visible(const AttendCall& call, int64_t row) {
    const int32_t position = call.rows.positions[row];
    sequence = call.rows.sequence[row];
    begin = call.causal && call.window > 0 && position >= call.window ? position - call.window + 1 : 0;
    end = call.causal ? position + 1 : call.rows.first_position[sequence] + call.rows.row_count[sequence];
  }
  __device__ int32_t first_range() const { return begin / kRangeKeys; }
  __device__ int32_t end_range() const { return (end - 1) / kRangeKeys + 1; }
};

}  // namespace vernier::cuda
