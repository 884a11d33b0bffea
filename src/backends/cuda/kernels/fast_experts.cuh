#pragma once

#include "backends/cuda/kernels/fast_staged.cuh"

/// A layer's experts for few rows, in two launches: gate and up with the gate, and down with the sum of the answers.
/// What stands in the grid are the experts that some row chose.
namespace vernier::cuda {

/// One expert's outputs, biases and all, of one of its rows.
template <class F>
__device__ __forceinline__ float expert_number(const QView& view, const float* bias, int64_t output, float sum) {
  sum *= sum_factor<F>(view, output);
  return bias == nullptr ? sum : sum + bias[output];
}

template <class F>
constexpr int staged_blocks() {
  return F::kPieces == 1 ? 4 : 2;  // of a processor
}

/// Strips of a block's share: blocks of one expert stand gridDim.x apart.
__device__ __forceinline__ int strips_of_block(int64_t strips) {
  return static_cast<int>((strips - blockIdx.x + gridDim.x - 1) / gridDim.x);
}

template <class F>
__global__ void __launch_bounds__(StagedBlock<F, 2>::kThreads, staged_blocks<F>())
    fast_gated_experts_kernel(const __grid_constant__ FastExpertsCall call) {
  using Block = StagedBlock<F, 2>;
  extern __shared__ __align__(128) unsigned char shared[];
  await_previous();
  start_next();
  const ActiveExpert of = call.active[blockIdx.y];
  if (of.expert < 0) return;
  const int side = static_cast<int>(threadIdx.x) / (kQuarters * kLanes);
  const QView view = call.weights[side][of.expert];
  const auto first = static_cast<int>(blockIdx.x), step = static_cast<int>(gridDim.x);
  const int output = static_cast<int>(threadIdx.x) % Block::kOutputs, r = static_cast<int>(threadIdx.x) / 16;
  for (int32_t place = of.first; place < of.end; place += Block::kRows) {
    if (place != of.first) __syncthreads();  // rows and sums have been read
    const int count = min(of.end - place, Block::kRows);
    const auto make_x = [&](uint32_t at) {
      const StagedRows x{at, count};
      x.stage<F, Block::kWarps>(view.cols, [&](int row, int column) {
        return *reinterpret_cast<const float4*>(call.x.data + call.source_rows[place + row] * call.x.stride + column);
      });
      __syncthreads();
      return x;
    };
    const auto take = [&](int strip, const float* sums) {
      if (r >= count) return;
      const int64_t column = int64_t{first + strip * step} * Block::kOutputs + output;
      float numbers[2];
#pragma unroll
      for (int of_side = 0; of_side < 2; ++of_side) {
        const float* bias = call.biases[of_side] == nullptr ? nullptr : call.biases[of_side][of.expert];
        numbers[of_side] = expert_number<F>(call.weights[of_side][of.expert], bias, call.first_row[of_side] + column,
                                            Block::sum(sums, of_side, r, output));
      }
      call.out.data[(place + r) * call.out.stride + column] = gated(numbers[0], numbers[1], call.gate);
    };
    Block::run(view, call.first_row[side] + int64_t{first} * Block::kOutputs,
               strips_of_block(call.outputs / Block::kOutputs), step, shared, make_x, take);
  }
}

template <class F>
__global__ void __launch_bounds__(StagedBlock<F, 2>::kThreads, staged_blocks<F>())
    fast_answering_experts_kernel(const __grid_constant__ FastExpertsCall call,
                                  const __grid_constant__ CombineCall combine, uint32_t* arrived) {
  using Block = StagedBlock<F, 2>;
  constexpr int kOutputs = 2 * Block::kOutputs;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ uint32_t before;
  await_previous();
  start_next();
  const ActiveExpert of = call.active[blockIdx.y];
  if (of.expert < 0) return;
  const int side = static_cast<int>(threadIdx.x) / (kQuarters * kLanes);
  const QView view = call.weights[0][of.expert];
  const float* bias = call.biases[0] == nullptr ? nullptr : call.biases[0][of.expert];
  const auto first = static_cast<int>(blockIdx.x), step = static_cast<int>(gridDim.x);
  const int strips = strips_of_block(call.outputs / kOutputs);
  const int output = static_cast<int>(threadIdx.x) % kOutputs, r = static_cast<int>(threadIdx.x) / kOutputs;
  for (int32_t place = of.first; place < of.end; place += Block::kRows) {
    if (place != of.first) __syncthreads();
    const int count = min(of.end - place, Block::kRows);
    const auto make_x = [&](uint32_t at) {
      const StagedRows x{at, count};
      x.stage<F, Block::kWarps>(view.cols, [&](int row, int column) {
        return *reinterpret_cast<const float4*>(call.x.data + (place + row) * call.x.stride + column);
      });
      __syncthreads();
      return x;
    };
    const auto take = [&](int strip, const float* sums) {
      if (r >= count) return;
      const int64_t column = int64_t{first + strip * step} * kOutputs + output;
      call.out.data[(place + r) * call.out.stride + column] =
          expert_number<F>(view, bias, column, Block::sum(sums, output / 16, r, output % 16));
    };
    Block::run(view, int64_t{first} * kOutputs + side * Block::kOutputs, strips, 2 * step, shared, make_x, take);
  }
  // Who comes last of those with these outputs adds each row's answers.
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) before = atomicInc(arrived + blockIdx.x, static_cast<uint32_t>(of.all - 1));
  __syncthreads();
  if (before + 1 != static_cast<uint32_t>(of.all)) return;
  __threadfence();
  for (int strip = 0; strip < strips; ++strip) {
    const int64_t column = int64_t{first + strip * step} * kOutputs + output;
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

inline int expert_rows(int64_t rows) {
  return static_cast<int>(rows < 8 ? rows : 8);
}

/// Blocks of one expert: so many strips each that all fill the chip about once.
inline unsigned blocks_of_expert(int64_t strips, int32_t most_active, int filled) {
  const int64_t most = filled / most_active < 1 ? 1 : filled / most_active;
  // A block's first strip waits for its codes; the next ones are on their way meanwhile.
  const int64_t least = strips * most_active >= 3 * int64_t{filled} / 4 ? 3 : 1;
  int64_t each = (strips + most - 1) / most;
  each = each < least ? least : each;
  return static_cast<unsigned>((strips + each - 1) / each);
}

template <FastCodes C>
LaunchCode launch_fast_gated_experts(const FastExpertsCall& call, Stream stream) {
  using F = Fragment<C>;
  using Block = StagedBlock<F, 2>;
  static const LaunchCode kAllowed = allow_shared(fast_gated_experts_kernel<F>, kMostStagedBytes);
  if (kAllowed != kLaunched) return kAllowed;
  const dim3 grid(blocks_of_expert(call.outputs / Block::kOutputs, call.most_active, call.filled),
                  static_cast<unsigned>(call.most_active));
  return launch_early(fast_gated_experts_kernel<F>, grid, Block::kThreads,
                      static_cast<size_t>(Block::shared_bytes(expert_rows(call.rows), call.cols)), stream, call);
}

template <FastCodes C>
LaunchCode launch_fast_answering_experts(const FastExpertsCall& call, const CombineCall& combine, uint32_t* arrived,
                                         Stream stream) {
  using F = Fragment<C>;
  using Block = StagedBlock<F, 2>;
  static const LaunchCode kAllowed = allow_shared(fast_answering_experts_kernel<F>, kMostStagedBytes);
  if (kAllowed != kLaunched) return kAllowed;
  const dim3 grid(blocks_of_expert(call.outputs / (2 * Block::kOutputs), call.most_active, call.filled),
                  static_cast<unsigned>(call.most_active));
  return launch_early(fast_answering_experts_kernel<F>, grid, Block::kThreads,
                      static_cast<size_t>(Block::shared_bytes(expert_rows(call.rows), call.cols)), stream, call,
                      combine, arrived);
}

}  // namespace vernier::cuda
