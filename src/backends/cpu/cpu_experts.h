#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/aligned_buffer.h"
#include "backends/cpu/kernels/rows.h"
#include "backends/cpu/linear.h"
#include "base/thread_pool.h"
#include "ops/ops.h"

namespace vernier {

/// act(gate) * up of one row [gate | up], as `spec` says.
void gate_row(const RowKernels& kernels, const GateSpec& spec, const float* row, int64_t cols, float* out);

/// Runs a step's rows through a layer's experts: the router's product, each row's choice, then, expert by expert in
/// order of their numbers, the rows that chose it side by side through both products and back to where they belong.
/// Reads no weight of an expert that no row chose; one that is the identity has none. A row's answers are added in
/// order of its experts' numbers, whatever the other rows chose. Memory grows to the largest step seen. One thread.
class CpuExperts {
 public:
  CpuExperts(const RowKernels& rows, ThreadPool& pool, LinearScratch& scratch)
      : kernels_(rows), pool_(pool), scratch_(scratch) {}

  /// From x [rows, hidden] to out [rows, hidden].
  void run(const ExpertsLayer& layer, const float* x, int64_t rows, float* out);

 private:
  /// A place among the rows of one expert.
  struct Place {
    int32_t row = 0;
    float weight = 0;
  };

  void reserve(const ExpertsLayer& layer, int64_t rows);
  void route(const ExpertsLayer& layer, const float* x, int64_t rows);
  void sort(const ExpertsSpec& spec, int64_t rows);
  void run_expert(const ExpertsLayer& layer, size_t expert, std::span<const Place> places, const float* x, float* out);
  void pass_through(std::span<const Place> places, int64_t cols, const float* x, float* out);
  const float* gather(const float* x, std::span<const Place> places, int64_t cols);
  template <class Answer>
  void scatter(std::span<const Place> places, int64_t cols, float* out, const Answer& answer);

  const RowKernels& kernels_;
  ThreadPool& pool_;
  LinearScratch& scratch_;
  FloatBuffer logits_;                // [rows, experts]
  std::vector<ChosenExpert> chosen_;  // [rows, chosen]
  std::vector<int32_t> first_;        // [experts + 1] of each expert's places
  std::vector<Place> places_;         // by expert, then by row
  FloatBuffer rows_;                  // of one expert, [its rows, hidden]
  FloatBuffer gate_up_;               // [its rows, 2 width]
  FloatBuffer answers_;               // [its rows, hidden]
};

}  // namespace vernier
