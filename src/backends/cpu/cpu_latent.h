#pragma once

#include <cstdint>

#include "backends/cpu/aligned_buffer.h"
#include "backends/cpu/attention.h"
#include "backends/cpu/kernels/rows.h"
#include "backends/cpu/linear.h"
#include "backends/cpu/rope_rows.h"
#include "base/thread_pool.h"
#include "ops/ops.h"

namespace vernier {

/// Runs a step's attention over compressed rows: each head's query goes through the head's matrix, so that it meets the
/// cached rows as they are, and the mean of the rows through another. A row serves as key and value, and is stored
/// once. Memory grows to the largest step seen. One thread.
class CpuLatent {
 public:
  CpuLatent(const RowKernels& rows, ThreadPool& pool, LinearScratch& scratch, Attention& attention)
      : kernels_(rows), pool_(pool), scratch_(scratch), attention_(attention) {}

  void begin(const StepView& step) { rope_.begin(step.positions); }
  /// From q [rows, heads * query_dim] and compressed [rows, row_dim] to out [rows, heads * value_dim].
  void run(const LatentLayer& layer, CpuKvStore& kv, const float* q, const float* compressed, int64_t rows, float* out);

 private:
  void fill_rows(const LatentLayer& layer, const float* q, const float* compressed, int64_t rows);

  const RowKernels& kernels_;
  ThreadPool& pool_;
  LinearScratch& scratch_;
  Attention& attention_;
  RopeRows rope_;
  FloatBuffer rows_;   // [rows, heads * row_dim | row_dim | row_dim]: queries, key, value
  FloatBuffer means_;  // [rows, heads * row_dim]
};

}  // namespace vernier
