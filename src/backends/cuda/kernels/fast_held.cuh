#pragma once

#include "backends/cuda/kernels/fast_held.h"
#include "backends/cuda/kernels/fast_rows.cuh"
#include "backends/cuda/kernels/laid_rows.cuh"
#include "backends/cuda/kernels/row_math.cuh"

/// Experts of few rows with codes of four bits, whose decoding takes the time: rows come rounded and laid out, and
/// nothing else is done for a unit but to fetch, decode and multiply.
namespace vernier::cuda {

/// What codes of a scale are multiplied by.
__device__ __forceinline__ Pair nibble_factor(uint32_t scale) {
  return (scale + 126 - kScalePlaces) * 0x00800080u;
}

/// A warp's units of one strip of 16 outputs after the other, `strip_step` outputs apart: those of the next strips are
/// on their way while the last ones are used. A thread reads from shared memory what it copied there itself.
template <class F, int kStages>
struct NibbleRing {
  static constexpr int kStageBytes = 2 * kLanes * (16 + 4), kBytes = kStages * kStageBytes;

  const unsigned char* codes[2];
  const unsigned char* scales[2];
  int units, in_strip, strips;  // of a strip; that are to be fetched of this one, and it and those behind it
  int last_step;                // to a strip's last unit, whose codes may lie behind the row's end
  int jump, scale_jump;         // from there to the next strip's first
  uint32_t to, from, begin;     // stages

  __device__ __forceinline__ NibbleRing(const QView& view, int64_t first_output, uint32_t shared, int first_unit,
                                        int unit_count, int strip_count, int strip_step)
      : units(unit_count), in_strip(unit_count), strips(unit_count > 0 ? strip_count : 0) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes, thread = lane % 4;
    // What lies behind a row's end is multiplied by zeros: its last codes stand in for it.
    const int last = first_unit + unit_count - 1;
    const int at = first_unit * 64 + thread * 16;
    const int tail = min(0, static_cast<int>(view.row_bytes) - 16 - (last * 64 + thread * 16));
    last_step = 64 + tail;
    jump = strip_step * static_cast<int>(view.row_bytes) - (units - 1) * 64 - tail;
    // A word has the scales of four threads; a row's are padded to words.
    scale_jump = strip_step * static_cast<int>(view.groups_across) - (units - 1) * 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64_t row = view.first_row + first_output + i * 8 + lane / 4;
      codes[i] = view.codes + row * view.row_bytes + at + (units == 1 ? tail : 0);
      scales[i] = view.inner_scales + row * view.groups_across + first_unit * 4;
    }
    begin = to = from = shared + lane * 16;
  }
  __device__ __forceinline__ static uint32_t after(uint32_t stage, uint32_t begin) {
    const uint32_t next = stage + kStageBytes;
    return next == begin + kBytes ? begin : next;
  }
  __device__ __forceinline__ void fetch() {
    if (strips > 0) {
      const uint32_t scale_to = to + 2 * kLanes * 16 - static_cast<int>(threadIdx.x) % kLanes * 12;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        copy_async<16>(to + i * kLanes * 16, codes[i]);
        copy_async<4>(scale_to + i * kLanes * 4, scales[i]);
      }
      int step = 64, scale_step = 4;
      --in_strip;
      if (in_strip == 1) step = last_step;
      if (in_strip == 0) {
        step = jump, scale_step = scale_jump;
        in_strip = units;
        --strips;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) codes[i] += step, scales[i] += scale_step;
    }
    close_copies();
    to = after(to, begin);
  }
};

/// kSides strips at once, of 16 outputs each, by four warps each, a quarter of the columns each, for up to eight rows.
template <class F, int kSides, int kStages>
struct NibbleBlock {
  using Ring = NibbleRing<F, kStages>;
  static constexpr int kWarps = kQuarters * kSides, kThreads = kWarps * kLanes, kRows = 8, kOutputs = 16;
  static constexpr int kSums = kWarps * kOutputs * kRows;  ///< numbers; two such places take turns
  static constexpr int kBeforeRows = 2 * kSums * 4 + kWarps * Ring::kBytes;
  static constexpr int row_bytes(int64_t cols) { return static_cast<int>(fast_units(cols)) * kLaidUnitPairs * 4 + 64; }
  static constexpr int shared_bytes(int rows, int64_t cols) { return kBeforeRows + rows * row_bytes(cols); }

  /// `count` strips of the warp's side from `first_output` on, `step` outputs apart. `row_of(r)` of `rows` is asked
  /// once weights are on their way; `before(i)` comes before the i-th strip's products, and `take(i, sums)` behind.
  template <class RowOf, class Before, class Take>
  __device__ __forceinline__ static void run(const QView& view, int64_t first_output, int count, int step, int rows,
                                             unsigned char* shared, RowOf row_of, Before before, Take take) {
    const int warp = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
    const int quarter = warp % kQuarters;
    const auto units = static_cast<int>(fast_units(view.cols));
    const int begin = units * quarter / kQuarters, end = units * (quarter + 1) / kQuarters;
    Ring ring(view, first_output, shared_address(shared) + 2 * kSums * 4 + warp * Ring::kBytes, begin, end - begin,
              count, step);
#pragma unroll
    for (int i = 0; i < kStages; ++i) ring.fetch();
    unsigned char* staged = shared + kBeforeRows;
    const int pitch = row_bytes(view.cols), pieces = units * (kLaidUnitPairs / 4);
    for (int r = 0; r < rows; ++r) {
      const uint4* from = reinterpret_cast<const uint4*>(row_of(r));
      uint4* to = reinterpret_cast<uint4*>(staged + r * pitch);
      for (int i = static_cast<int>(threadIdx.x); i < pieces; i += kThreads) to[i] = from[i];
    }
    __syncthreads();
    const bool there = lane / 4 < rows;
    const uint32_t x_begin = shared_address(staged) + (there ? lane / 4 : 0) * pitch + begin * 256 + lane % 4 * 16;
    uint32_t now[4][4] = {};
    for (int strip = 0; strip < count; ++strip) {
      before(strip);
      float sums[1][1][4] = {};
      uint32_t x = x_begin;
#pragma unroll 1
      for (int unit = begin; unit < end; ++unit) {
        wait_copies<kStages - 1>();
        if (there) {
#pragma unroll
          for (int i = 0; i < 4; ++i) load_four(x + i * 64, now[i]);
        }
        x += 256;
        uint32_t words[2][4];
        Pair factors[2];
#pragma unroll
        for (int slot = 0; slot < 2; ++slot) {
          load_four(ring.from + slot * kLanes * 16, words[slot]);
          factors[slot] =
              nibble_factor(load_byte(ring.from + 2 * kLanes * 16 - lane * 12 + slot * kLanes * 4 + lane % 4));
        }
        ring.from = Ring::after(ring.from, ring.begin);
        ring.fetch();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Pair in[1][8], high[2][8];
#pragma unroll
          for (int i = 0; i < 8; ++i) in[0][i] = now[2 * half + i / 4][i % 4];
#pragma unroll
          for (int slot = 0; slot < 2; ++slot) {
            spread_nibbles(words[slot] + 2 * half, high[slot]);
            scale_pairs(high[slot], factors[slot]);
          }
          multiply_half<F, 1, 1>(high, high, in, sums);
        }
      }
      float* all = reinterpret_cast<float*>(shared) + strip % 2 * kSums;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        all[(warp * kRows + lane % 4 * 2 + i % 2) * kOutputs + lane / 4 + i / 2 * 8] = sums[0][0][i];
      }
      __syncthreads();
      take(strip, all);
    }
    wait_copies<0>();
  }

  /// Of an output of a side's strip, its quarters in their order.
  __device__ __forceinline__ static float sum(const float* sums, int side, int row, int output) {
    const float* at = sums + (side * kQuarters * kRows + row) * kOutputs + output;
    float sum = at[0];
#pragma unroll
    for (int quarter = 1; quarter < kQuarters; ++quarter) sum += at[quarter * kOutputs * kRows];
    return sum;
  }

 private:
  __device__ __forceinline__ static void load_four(uint32_t at, uint32_t (&words)[4]) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(at));
  }
  __device__ __forceinline__ static uint32_t load_byte(uint32_t at) {
    uint32_t byte;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(at));
    return byte;
  }
};

/// What acts on the sums of one expert's outputs.
struct ExpertSums {
  float factor;
  const float* bias;  // null: none

  template <class F>
  __device__ __forceinline__ static ExpertSums of(const QView& view, const float* const* biases, int32_t expert,
                                                  int64_t first_row) {
    const float* bias = biases == nullptr ? nullptr : biases[expert];
    return {F::kSumFactor * view.outer_scale, bias == nullptr ? nullptr : bias + first_row};
  }
  __device__ __forceinline__ float bias_of(int64_t output) const { return bias == nullptr ? 0.0f : bias[output]; }
  __device__ __forceinline__ float number(float sum, float own_bias) const {
    sum *= factor;
    return bias == nullptr ? sum : sum + own_bias;
  }
};

__device__ __forceinline__ ActiveExpert active_expert(const ActiveExpert* at) {
  const int4 chosen = __ldcg(reinterpret_cast<const int4*>(at));
  return {chosen.x, chosen.y, chosen.z, chosen.w};
}

__device__ __forceinline__ int held_strips(int64_t strips) {
  return static_cast<int>((strips - blockIdx.x + gridDim.x - 1) / gridDim.x);
}

template <class F, int kStages, int kBlocks>
__global__ void __launch_bounds__(NibbleBlock<F, 2, kStages>::kThreads, kBlocks)
    held_gated_kernel(const __grid_constant__ HeldExpertsCall held) {
  const FastExpertsCall& call = held.of;
  using Block = NibbleBlock<F, 2, kStages>;
  extern __shared__ __align__(128) unsigned char shared[];
  await_previous();
  start_next();
  const ActiveExpert of = active_expert(call.active + blockIdx.y);
  if (of.expert < 0) return;
  const int side = static_cast<int>(threadIdx.x) / (kQuarters * kLanes);
  const QView& view = call.weights[side][of.expert];
  const auto first = static_cast<int>(blockIdx.x) * 16, step = static_cast<int>(gridDim.x) * 16;
  const int output = static_cast<int>(threadIdx.x) % 16, r = static_cast<int>(threadIdx.x) / 16;
  ExpertSums sums_of[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    sums_of[i] = ExpertSums::of<F>(call.weights[i][of.expert], call.biases[i], of.expert, call.first_row[i]);
  }
  for (int32_t place = of.first; place < of.end; place += Block::kRows) {
    if (place != of.first) __syncthreads();  // rows and sums have been read
    const int rows = min(of.end - place, Block::kRows);
    const auto behind = static_cast<int>(fast_units(call.outputs) * 16 - call.outputs / 8);
    for (int i = blockIdx.x == 0 ? static_cast<int>(threadIdx.x) : rows * behind; i < rows * behind;
         i += Block::kThreads) {
      const int piece = laid_piece(static_cast<int>(call.outputs / 8) + i % behind);
      reinterpret_cast<uint4*>(held.laid_out + (place + i / behind) * laid_row_words(call.outputs))[piece] =
          make_uint4(0, 0, 0, 0);
    }
    float bias[2];
    Block::run(
        view, call.first_row[side] + first, held_strips(call.outputs / 16), step, rows, shared,
        [&](int row) { return held.laid + call.source_rows[place + row] * laid_row_words(call.cols); },
        [&](int strip) {
          if (r >= rows) return;
#pragma unroll
          for (int i = 0; i < 2; ++i) bias[i] = sums_of[i].bias_of(first + strip * step + output);
        },
        [&](int strip, const float* sums) {
          if (r >= rows) return;
          const float made = gated(sums_of[0].number(Block::sum(sums, 0, r, output), bias[0]),
                                   sums_of[1].number(Block::sum(sums, 1, r, output), bias[1]), call.gate);
          reinterpret_cast<__nv_bfloat16*>(
              held.laid_out + (place + r) * laid_row_words(call.outputs))[laid_number(first + strip * step + output)] =
              __float2bfloat16_rn(made);
        });
  }
}

template <class F, int kStages, int kBlocks>
__global__ void __launch_bounds__(NibbleBlock<F, 2, kStages>::kThreads, kBlocks)
    held_answering_kernel(const __grid_constant__ HeldExpertsCall held, const __grid_constant__ CombineCall combine,
                          uint32_t* arrived) {
  const FastExpertsCall& call = held.of;
  using Block = NibbleBlock<F, 2, kStages>;
  constexpr int kOutputs = 32;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ uint32_t before;
  start_next();
  // The launch before waited for the one that chose before it let this one begin.
  const ActiveExpert of = active_expert(call.active + blockIdx.y);
  if (of.expert < 0) return;
  const int side = static_cast<int>(threadIdx.x) / (kQuarters * kLanes);
  const QView& view = call.weights[0][of.expert];
  const ExpertSums sums_of = ExpertSums::of<F>(view, call.biases[0], of.expert, 0);
  const auto first = static_cast<int>(blockIdx.x) * kOutputs, step = static_cast<int>(gridDim.x) * kOutputs;
  const int strips = held_strips(call.outputs / kOutputs);
  const int output = static_cast<int>(threadIdx.x) % kOutputs, r = static_cast<int>(threadIdx.x) / kOutputs;
  for (int32_t place = of.first; place < of.end; place += Block::kRows) {
    if (place != of.first) __syncthreads();
    const int rows = min(of.end - place, Block::kRows);
    float bias = 0;
    Block::run(
        view, first + side * 16, strips, step, rows, shared,
        [&](int row) {
          await_previous();
          return held.laid + (place + row) * laid_row_words(call.cols);
        },
        [&](int strip) {
          if (r < rows) bias = sums_of.bias_of(first + strip * step + output);
        },
        [&](int strip, const float* sums) {
          if (r >= rows) return;
          call.out.data[(place + r) * call.out.stride + first + strip * step + output] =
              sums_of.number(Block::sum(sums, output / 16, r, output % 16), bias);
        });
  }
  // Who comes last of those with these outputs adds each row's answers.
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) before = atomicInc(arrived + blockIdx.x, static_cast<uint32_t>(of.all - 1));
  __syncthreads();
  if (before + 1 != static_cast<uint32_t>(of.all)) return;
  __threadfence();
  for (int strip = 0; strip < strips; ++strip) {
    const int64_t column = first + strip * step + output;
    for (int64_t row = r; row < combine.rows; row += Block::kThreads / kOutputs) {
      float sum = 0;
#pragma unroll 4
      for (int32_t i = 0; i < combine.chosen; ++i) {
        const int64_t choice = row * combine.chosen + i;
        const float answer = __ldcg(combine.answers.data + combine.place_of[choice] * combine.answers.stride + column);
        sum = fmaf(combine.weight_of[choice], answer, sum);
      }
      combine.out.data[row * combine.out.stride + column] = sum;
    }
  }
}

}  // namespace vernier::cuda
