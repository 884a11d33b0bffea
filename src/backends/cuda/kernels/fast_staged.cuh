#pragma once

#include "backends/cuda/kernels/fast_rows.cuh"
#include "backends/cuda/kernels/row_math.cuh"

/// Up to eight rows that a block rounds and lays out in its shared memory at its beginning, for all its warps: a norm
/// may come before, and what acts on whole outputs, a gate or a sum of answers, behind.
namespace vernier::cuda {

/// Rows in shared memory: [unit][half][two][row][thread of four][four pairs], as multiply_half takes them.
struct StagedRows {
  uint32_t at;
  int count;  // of rows; others are zeros

  /// By all kWarps warps of a block; `number(r, column)` gives four numbers from a column on.
  template <class F, int kWarps, class Number>
  __device__ __forceinline__ void stage(int64_t cols, Number number) const {
    const int warp = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
    const auto units = static_cast<int>(fast_units(cols));
    int half, thread, four;
    F::owner(lane, half, thread, four);
    const uint32_t to = at + (half * 2 + four / 2) * count * 64 + thread * 16 + four % 2 * 8;
    for (int unit = warp; unit < units; unit += kWarps) {
      const int column = unit * kUnitColumns + lane * 4;
#pragma unroll 4
      for (int r = 0; r < count; ++r) {
        float4 own = make_float4(0, 0, 0, 0);
        if (column < cols) own = number(r, column);
        float first[2], second[2];
        F::join(own, first, second);
        asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to + unit * count * kUnitBytes + r * 64),
                     "r"(row_pair<F>(first[0], first[1])), "r"(row_pair<F>(second[0], second[1]))
                     : "memory");
      }
    }
  }
  __device__ __forceinline__ void half(int unit, int half, Pair (&pairs)[8]) const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const uint32_t from = at + (unit * 4 + half * 2) * count * 64 + lane * 16;
#pragma unroll
    for (Pair& pair : pairs) pair = 0;
    if (lane / 4 >= count) return;
#pragma unroll
    for (int two = 0; two < 2; ++two) {
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(pairs[4 * two]), "=r"(pairs[4 * two + 1]), "=r"(pairs[4 * two + 2]), "=r"(pairs[4 * two + 3])
                   : "r"(from + two * count * 64));
    }
  }

  static constexpr int kUnitBytes = 4 * 64;  // of a row
};

/// A warp's weights of one strip of 16 outputs after the other, `step` strips apart: the next one's are on their way
/// before the last one's are used up.
template <class F, int kStages>
struct StripWeights : WarpWeights<F, 1, kStages> {
  using Weights = WarpWeights<F, 1, kStages>;
  int first, next, strips;        // units of a strip, the one to be fetched, and strips that are left
  int64_t code_jump, scale_jump;  // from a strip's last to the next one's first

  __device__ __forceinline__ StripWeights(const QView& of, int64_t first_output, uint32_t shared, int begin, int end,
                                          int count, int step)
      : Weights(of, first_output, shared, begin, end), first(begin), next(begin), strips(begin < end ? count : 0) {
    code_jump = int64_t{step} * 16 * of.row_bytes - F::at(end - begin, 0, 0);
    scale_jump = 0;
    if constexpr (F::kScaleWord) scale_jump = int64_t{step} * 16 * of.groups_across - F::scales_at(end - begin, 0);
  }

  __device__ __forceinline__ void fetch_next(int stage) {
    if constexpr (F::kPieces > 0) {
      if (strips == 0) return close_copies();
      this->fetch(next, stage);
      if (++next < this->end) return;
      next = first;
      --strips;
      const int units = this->end - first;
      this->left += F::at(units, 0, 0);
      if constexpr (F::kScaleWord) this->scale_left += F::scales_at(units, 0);
#pragma unroll
      for (int slot = 0; slot < 2; ++slot) {
        this->codes[slot] += code_jump;
        if constexpr (F::kScaleWord) this->scales[slot] += scale_jump;
      }
    }
  }
  /// The rows that are decoded from here on.
  __device__ __forceinline__ void step_rows(int step) {
    this->row[0] += static_cast<uint32_t>(step * 16);
    this->row[1] += static_cast<uint32_t>(step * 16);
  }
};

/// kSides strips at once, of 16 outputs each, by four warps each, a quarter of the columns each.
template <class F, int kSides>
struct StagedBlock {
  static constexpr int kWarps = kQuarters * kSides, kThreads = kWarps * kLanes, kRows = 8, kOutputs = 16;
  static constexpr int kStages = F::kPieces == 1 ? 4 : row_stages<F>();
  using Weights = StripWeights<F, kStages>;
  static constexpr int kSums = kWarps * kOutputs * kRows;  ///< numbers; two such places take turns
  static constexpr int kRingBytes = kWarps * Weights::kBytes;
  static constexpr int kBeforeRows = 2 * kSums * 4 + kRingBytes;
  static constexpr int shared_bytes(int rows, int64_t cols) {
    return kBeforeRows + static_cast<int>(fast_units(cols)) * rows * StagedRows::kUnitBytes;
  }

  /// `count` strips from the one of `first_output` on, which is the warp's side's, `step` apart, all of them there.
  /// `make_x` is asked once weights are on their way and makes rows that all warps see; `take(i, sums)` gets the i-th
  /// strip's in shared memory, see `sum`, with all threads of the block.
  template <class MakeX, class Take>
  __device__ __forceinline__ static void run(const QView& view, int64_t first_output, int count, int step,
                                             unsigned char* shared, MakeX make_x, Take take) {
    const int warp = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
    const int quarter = warp % kQuarters;
    const auto units = static_cast<int>(fast_units(view.cols));
    const int begin = units * quarter / kQuarters, end = units * (quarter + 1) / kQuarters;
    Weights weights(view, first_output, shared_address(shared) + 2 * kSums * 4 + warp * Weights::kBytes, begin, end,
                    count, step);
#pragma unroll
    for (int i = 0; i < kStages; ++i) weights.fetch_next(i);
    const StagedRows x = make_x(shared_address(shared) + kBeforeRows);
    int stage = 0;
    for (int strip = 0; strip < count; ++strip) {
      UnitScales<Weights> unit_scales(weights, begin);
      float sums[1][1][4] = {};
      for (int unit = begin; unit < end; ++unit) {
        if constexpr (F::kPieces > 0) wait_copies<kStages - 1>();
        float scales[2], parts[1][1][4] = {};
        if constexpr (F::kScale == ScalePlace::kUnit) unit_scales.next(scales);
        const uint32_t words[2] = {weights.scale_word(stage, 0), weights.scale_word(stage, 1)};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Pair in[1][8], high[2][8], low[2][8];
          x.half(unit, half, in[0]);
#pragma unroll
          for (int slot = 0; slot < 2; ++slot) {
            weights.half(unit, stage, slot, half, words[slot], high[slot], low[slot]);
          }
          if (half == 1) weights.fetch_next(stage);
          if constexpr (F::kScale == ScalePlace::kUnit) {
            multiply_half<F, 1, 1>(high, low, in, parts);
          } else {
            multiply_half<F, 1, 1>(high, low, in, sums);
          }
        }
        if constexpr (F::kScale == ScalePlace::kUnit) {
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[0][0][i] = fmaf(scales[i / 2], parts[0][0][i], sums[0][0][i]);
        }
        stage = stage + 1 == kStages ? 0 : stage + 1;
      }
      weights.step_rows(step);
      float* all = reinterpret_cast<float*>(shared) + strip % 2 * kSums;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        all[(warp * kRows + lane % 4 * 2 + i % 2) * kOutputs + lane / 4 + i / 2 * 8] = sums[0][0][i];
      }
      __syncthreads();
      take(strip, all);
    }
    if constexpr (F::kPieces > 0) wait_copies<0>();
  }

  /// Of an output of a side's strip, its quarters in their order.
  __device__ __forceinline__ static float sum(const float* sums, int side, int row, int output) {
    const float* at = sums + (side * kQuarters * kRows + row) * kOutputs + output;
    float sum = at[0];
#pragma unroll
    for (int quarter = 1; quarter < kQuarters; ++quarter) sum += at[quarter * kOutputs * kRows];
    return sum;
  }
};

}  // namespace vernier::cuda
