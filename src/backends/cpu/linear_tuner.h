#pragma once

#include <memory>
#include <vector>

#include "backends/cpu/linear.h"
#include "backends/cpu/prepared_linear.h"
#include "base/random.h"
#include "tune/measure.h"

namespace vernier {

/// Measures the candidates of one problem on a matrix of the model: its own codes and scales, rows of numbers whose
/// sizes differ, weights in no cache and activations where the step before left them. A candidate must give, to the
/// bit, what the fixed plan gives, and that what float64 gives to rounding. One thread; the matrix outlives it.
class LinearTuner {
 public:
  /// `kind` of linear_kinds(matrix).
  LinearTuner(ThreadPool& pool, const CpuMatrix& matrix, const MatrixSegment& kind, int64_t batch_rows);

  Result<Measured> measure(const MeasureRules& rules);
  /// The candidates, the fixed plan first; they run while this lives. Refused where they take more than `most_bytes`.
  Result<std::vector<Contender>> contenders(int64_t most_bytes);
  /// What all candidates together take.
  int64_t needed_bytes() const;

 private:
  void make_input();
  void run(const LinearPlan& plan, std::vector<float>& out);
  Status check(const LinearPlan& plan);
  Status compare_with_reference();
  double run_cold(const LinearPlan& plan);

  ThreadPool& pool_;
  CpuMatrix matrix_;  // the kind alone
  int64_t rows_;
  PreparedLinear prepared_;
  LinearScratch scratch_;
  std::vector<float> input_;     // [rows, cols]
  std::vector<float> expected_;  // [rows, matrix rows], of the fixed plan; empty until it ran
  std::vector<float> output_;
};

}  // namespace vernier
