#include "backends/cuda/kernels/limits.h"

#include <cuda_runtime.h>

#include "backends/cuda/kernels/block.cuh"

namespace vernier::cuda {
namespace {

constexpr int kPeakThreads = 512;
constexpr int kBlocksEach = 4;  // of a multiprocessor
constexpr int kChains = 8;      // apart from each other, so that none waits

__global__ void f32_loop_kernel(int rounds, float* unused) {
  float sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = static_cast<float>(threadIdx.x + i);
  const float factor = 1.0f - 1e-7f * static_cast<float>(blockIdx.x);
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) sums[i] = fmaf(sums[i], factor, 1.0f);
  }
  float all = 0;
  for (int i = 0; i < kChains; ++i) all += sums[i];
  if (all == -1.0f) *unused = all;
}

__global__ void int8_loop_kernel(int rounds, float* unused) {
  int sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = static_cast<int>(threadIdx.x) + i;
  const int factor = static_cast<int>(0x01020304u + blockIdx.x);
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) sums[i] = __dp4a(sums[i], factor, sums[i]);
  }
  int all = 0;
  for (int i = 0; i < kChains; ++i) all ^= sums[i];
  if (all == 0x7FFFFFFF) *unused = 1.0f;
}

int64_t steps_of(const PeakCall& call) {
  return int64_t{call.multiprocessors} * kBlocksEach * kPeakThreads * kChains * call.rounds;
}

}  // namespace

LaunchCode f32_loop(const PeakCall& call, int64_t* operations, Stream stream) {
  *operations = steps_of(call) * 2;
  const auto blocks = static_cast<unsigned>(call.multiprocessors * kBlocksEach);
  f32_loop_kernel<<<blocks, kPeakThreads, 0, stream_of(stream)>>>(call.rounds, call.unused);
  return after_launch();
}

LaunchCode int8_loop(const PeakCall& call, int64_t* operations, Stream stream) {
  *operations = steps_of(call) * 8;
  const auto blocks = static_cast<unsigned>(call.multiprocessors * kBlocksEach);
  int8_loop_kernel<<<blocks, kPeakThreads, 0, stream_of(stream)>>>(call.rounds, call.unused);
  return after_launch();
}

}  // namespace vernier::cuda
