#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/aligned_buffer.h"
#include "backends/cpu/cpu_matrix.h"
#include "backends/cpu/linear_plan.h"
#include "base/thread_pool.h"

namespace vernier {

/// What happens to a row of the input just before it is multiplied: a norm, a gate. Runs once a row, on any thread.
struct RowPrologue {
  /// From an input row to `cols` numbers of the matrix's input. Null: the row is taken as it is.
  void (*run)(const void* context, const float* row, float* out, int64_t cols) = nullptr;
  const void* context = nullptr;
};

/// Input rows: row t starts at x + t * stride. `cols` is the matrix's; with a prologue a row may hold more.
struct LinearInput {
  const float* x = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  RowPrologue prologue = {};
  bool read_ahead = true;  ///< the next step will multiply by this matrix at this place, as a rule
};

/// Memory that matrix products work in; grows to the largest product seen and never shrinks, so that a steady stream of
/// steps allocates nothing. For one pool, one product at a time.
class LinearScratch {
 public:
  explicit LinearScratch(int threads);

  /// The products that follow are those of the last step, as a rule: while threads wait, they fetch what they will
  /// read.
  void begin_step() { products = 0; }

  /// Int8 rows with groups of 32 or of 16 columns.
  struct IntStage {
    AlignedBuffer<int8_t> codes;
    AlignedBuffer<float> scale;
    AlignedBuffer<float> sum;
    int64_t codes_stride = 0;
    int64_t stride = 0;
    IntRows rows(int64_t first) const;
  };
  /// What a product does with one segment.
  struct SegmentWork {
    const MatrixSegment* segment;
    LinearPlan plan;
    int64_t row_chunks;
    int64_t chunks;
  };
  struct ThreadPart {
    AlignedBuffer<uint8_t> codes;  // unpacked panels
    AlignedBuffer<float> scale;
    AlignedBuffer<float> minimum;
    AlignedBuffer<float> weights;   // decoded panels
    AlignedBuffer<uint16_t> pairs;  // the same as bf16
    AlignedBuffer<float> out;       // a tile before its epilogue
    AlignedBuffer<float> row;
  };

  AlignedBuffer<float> floats;   // [rows, padded cols], where the input cannot be read in place
  AlignedBuffer<uint16_t> bf16;  // [rows, padded cols]
  IntStage group32;
  IntStage group16;
  std::vector<SegmentWork> work;
  /// [products of a step, threads], of streamed weights: this step's, then what is left of earlier ones.
  std::vector<const uint8_t*> starts;
  size_t products = 0;  // of this step
  std::vector<ThreadPart> threads;
};

/// out[t][r] = x[t] . row r of the matrix (+ bias[r]) (+ out[t][r] where `add_into_out`). `bias` may be null. Rows of
/// `out` are out_stride apart and may not overlap the input.
struct LinearOutput {
  float* out = nullptr;
  int64_t stride = 0;
  const float* bias = nullptr;
  bool add_into_out = false;
};

void linear(ThreadPool& pool, LinearScratch& scratch, const CpuMatrix& matrix, const LinearInput& input,
            const LinearOutput& output);

/// Makes room for products of up to `rows` rows with this matrix, or with one of its size and formats.
void reserve_linear(LinearScratch& scratch, const CpuMatrix& matrix, int64_t rows);

/// Rows `tokens` of the matrix times `scale`: out row t at out + t * out_stride. Tokens are rows of the matrix.
void embed_rows(ThreadPool& pool, const CpuMatrix& matrix, std::span<const int32_t> tokens, float scale, float* out,
                int64_t out_stride);

}  // namespace vernier
