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

/// A warp's units of one strip of 16 outputs after the other, `strip_step` outputs apart, kGroup at a time: the next
/// ones are on their way while the last ones are used. A thread reads from shared memory what it copied there itself.
template <int kGroup>
struct NibbleRing {
  static constexpr int kUnitBytes = 2 * kLanes * (16 + 4), kGroupBytes = kGroup * kUnitBytes, kBytes = 2 * kGroupBytes;

  const unsigned char* codes;   // of the next unit of row g of a strip's 16; row g + 8 is that much further
  const unsigned char* scales;  // a word has those of four threads; a row's are padded to words
  int64_t half_codes, half_scales;
  int units, left, strips;  // of a strip; that are to be fetched of this one; it and those behind it
  int last_there;           // bytes of a strip's last unit: a row may end within it
  int jump, scale_jump;     // from a strip's first unit to the next one's
  uint32_t to;              // the thread's place in the group that is to be fetched
  uint32_t other;           // and the distance to the other one

  __device__ __forceinline__ NibbleRing(const QView& view, int64_t first_output, uint32_t shared, int first_unit,
                                        int unit_count, int strip_count, int strip_step)
      : units(unit_count), left(unit_count), strips(unit_count > 0 ? strip_count : 0) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes, at = first_unit * 64 + lane % 4 * 16;
    const auto row_bytes = static_cast<int>(view.row_bytes), groups = static_cast<int>(view.groups_across);
    last_there = at + (unit_count - 1) * 64 < row_bytes ? 16 : 0;
    jump = strip_step * row_bytes;
    scale_jump = strip_step * groups;
    half_codes = 8 * row_bytes, half_scales = 8 * groups;
    const int64_t row = view.first_row + first_output + lane / 4;
    codes = view.codes + row * row_bytes + at;
    scales = view.inner_scales + row * groups + first_unit * 4;
    to = shared + lane * 16;
    other = kGroupBytes;
  }
  /// Where a group that has arrived lies for a thread's codes and its own scales: `to` comes round to it.
  __device__ __forceinline__ uint32_t scales_at() const {
    return to + 2 * kLanes * 16 - static_cast<int>(threadIdx.x) % kLanes * 12;
  }
  __device__ __forceinline__ void fetch() {
    if (strips > 0) {
      const uint32_t scales_to = scales_at();
#pragma unroll
      for (int u = 0; u < kGroup; ++u) {
        if (u >= left) break;
        const int there = u == left - 1 ? last_there : 16;
        copy_async<16>(to + u * kUnitBytes, codes + u * 64, there);
        copy_async<16>(to + u * kUnitBytes + kLanes * 16, codes + half_codes + u * 64, there);
        copy_async<4>(scales_to + u * kUnitBytes, scales + u * 4);
        copy_async<4>(scales_to + u * kUnitBytes + kLanes * 4, scales + half_scales + u * 4);
      }
      if (left > kGroup) {
        left -= kGroup;
        codes += kGroup * 64, scales += kGroup * 4;
      } else {
        const int behind = (units - left);
        codes += jump - behind * 64, scales += scale_jump - behind * 4;
        left = units;
        --strips;
      }
    }
    close_copies();
    to += other;
    other = 0u - other;
  }
};

/// kSides strips at once, of 16 outputs each, by four warps each, a quarter of the columns each, for up to eight rows.
template <class F, int kSides, int kGroup>
struct NibbleBlock {
  using Ring = NibbleRing<kGroup>;
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
    ring.fetch();
    ring.fetch();
    unsigned char* staged = shared + kBeforeRows;
    const int pitch = row_bytes(view.cols), pieces = units * (kLaidUnitPairs / 4);
    for (int r = 0; r < rows; ++r) {
      const uint4* from = reinterpret_cast<const uint4*>(row_of(r));
      uint4* to = reinterpret_cast<uint4*>(staged + r * pitch);
      for (int i = static_cast<int>(threadIdx.x); i < pieces; i += kThreads) to[i] = from[i];
    }
    __syncthreads();
    // Lanes of rows that are not there make sums that no one takes.
    const uint32_t x_begin =
        shared_address(staged) + (lane / 4 < rows ? lane / 4 * pitch : 0) + begin * 256 + lane % 4 * 16;
    for (int strip = 0; strip < count; ++strip) {
      before(strip);
      float sums[1][1][4] = {};
      uint32_t x = x_begin;
#pragma unroll 1
      for (int left = end - begin; left > 0; left -= kGroup, x += kGroup * 256) {
        wait_copies<1>();
        const uint32_t scales_at = ring.scales_at() + lane % 4;
#pragma unroll
        for (int u = 0; u < kGroup; ++u) {
          if (u >= left) break;
          uint32_t now[4][4];
#pragma unroll
          for (int i = 0; i < 4; ++i) load_four(x + u * 256 + i * 64, now[i]);
          uint32_t words[2][4];
          Pair factors[2];
#pragma unroll
          for (int slot = 0; slot < 2; ++slot) {
            load_four(ring.to + u * Ring::kUnitBytes + slot * kLanes * 16, words[slot]);
            factors[slot] = nibble_factor(load_byte(scales_at + u * Ring::kUnitBytes + slot * kLanes * 4));
          }
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
        ring.fetch();
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

/// What acts on the sum of one expert's output; asked for before it is needed.
struct ExpertOutput {
  float outer = 1, bias = 0;
  bool biased = false;

  __device__ __forceinline__ void load(const QView& view, const float* const* biases, int32_t expert, int64_t row) {
    const float* own = biases == nullptr ? nullptr : biases[expert];
    outer = view.outer_scale;
    biased = own != nullptr;
    if (biased) bias = own[row];
  }
  template <class F>
  __device__ __forceinline__ float number(float sum) const {
    sum *= F::kSumFactor * outer;
    return biased ? sum + bias : sum;
  }
};

__device__ __forceinline__ ActiveExpert active_expert(const ActiveExpert* at) {
  const int4 chosen = __ldcg(reinterpret_cast<const int4*>(at));
  return {chosen.x, chosen.y, chosen.z, chosen.w};
}

__device__ __forceinline__ int held_strips(int64_t strips) {
  return static_cast<int>((static_cast<uint32_t>(strips) - blockIdx.x + gridDim.x - 1) / gridDim.x);
}

/// Zeros from a laid out row's end to that of its last unit, by a warp.
__device__ __forceinline__ void end_laid_row(uint32_t* row, int64_t cols) {
  const int eight = static_cast<int>(cols / 8) + static_cast<int>(threadIdx.x) % kLanes;
  if (eight < static_cast<int>(fast_units(cols)) * 16)
    reinterpret_cast<uint4*>(row)[laid_piece(eight)] = make_uint4(0, 0, 0, 0);
}

template <class F, int kGroup, int kBlocks>
__global__ void __launch_bounds__(NibbleBlock<F, 2, kGroup>::kThreads, kBlocks)
    held_gated_kernel(const __grid_constant__ HeldExpertsCall held) {
  const FastExpertsCall& call = held.of;
  using Block = NibbleBlock<F, 2, kGroup>;
  extern __shared__ __align__(128) unsigned char shared[];
  await_previous();
  start_next();
  const ActiveExpert of = active_expert(call.active + blockIdx.y);
  if (of.expert < 0) return;
  const int side = static_cast<int>(threadIdx.x) / (kQuarters * kLanes);
  const QView view = call.weights[side][of.expert];
  const auto first = static_cast<int>(blockIdx.x) * 16, step = static_cast<int>(gridDim.x) * 16;
  const int output = static_cast<int>(threadIdx.x) % 16, r = static_cast<int>(threadIdx.x) / 16;
  for (int32_t place = of.first; place < of.end; place += Block::kRows) {
    if (place != of.first) __syncthreads();  // rows and sums have been read
    const int rows = min(of.end - place, Block::kRows);
    ExpertOutput outputs[2];
    Block::run(
        view, call.first_row[side] + first, held_strips(call.outputs / 16), step, rows, shared,
        [&](int row) {
          const int32_t source = call.rows == 1 ? 0 : call.source_rows[place + row];
          return held.laid + source * laid_row_words(call.cols);
        },
        [&](int strip) {
          if (r >= rows) return;
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            outputs[i].load(call.weights[i][of.expert], call.biases[i], of.expert,
                            call.first_row[i] + first + strip * step + output);
          }
        },
        [&](int strip, const float* sums) {
          if (r >= rows) return;
          const float made = gated(outputs[0].number<F>(Block::sum(sums, 0, r, output)),
                                   outputs[1].number<F>(Block::sum(sums, 1, r, output)), call.gate);
          reinterpret_cast<__nv_bfloat16*>(
              held.laid_out + (place + r) * laid_row_words(call.outputs))[laid_number(first + strip * step + output)] =
              __float2bfloat16_rn(made);
        });
    const int warp = static_cast<int>(threadIdx.x) / kLanes;
    if (blockIdx.x == 0 && warp < rows) {
      end_laid_row(held.laid_out + (place + warp) * laid_row_words(call.outputs), call.outputs);
    }
  }
}

template <class F, int kGroup, int kBlocks>
__global__ void __launch_bounds__(NibbleBlock<F, 2, kGroup>::kThreads, kBlocks)
    held_answering_kernel(const __grid_constant__ HeldExpertsCall held, const __grid_constant__ CombineCall combine,
                          uint32_t* arrived) {
  const FastExpertsCall& call = held.of;
  using Block = NibbleBlock<F, 2, kGroup>;
  constexpr int kOutputs = 32;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ uint32_t before;
  start_next();
  // The launch before waited for the one that chose before it let this one begin.
  const ActiveExpert of = active_expert(call.active + blockIdx.y);
  if (of.expert < 0) return;
  const int side = static_cast<int>(threadIdx.x) / (kQuarters * kLanes);
  const QView view = call.weights[0][of.expert];
  const auto first = static_cast<int>(blockIdx.x) * kOutputs, step = static_cast<int>(gridDim.x) * kOutputs;
  const int strips = held_strips(call.outputs / kOutputs);
  const int output = static_cast<int>(threadIdx.x) % kOutputs, r = static_cast<int>(threadIdx.x) / kOutputs;
  for (int32_t place = of.first; place < of.end; place += Block::kRows) {
    if (place != of.first) __syncthreads();
    const int rows = min(of.end - place, Block::kRows);
    ExpertOutput own;
    Block::run(
        view, first + side * 16, strips, step, rows, shared,
        [&](int row) {
          await_previous();
          return held.laid + (place + row) * laid_row_words(call.cols);
        },
        [&](int strip) {
          if (r < rows) own.load(view, call.biases[0], of.expert, first + strip * step + output);
        },
        [&](int strip, const float* sums) {
          if (r >= rows) return;
          call.out.data[(place + r) * call.out.stride + first + strip * step + output] =
              own.number<F>(Block::sum(sums, output / 16, r, output % 16));
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
