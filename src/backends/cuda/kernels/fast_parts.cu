#include "backends/cuda/kernels/fast_parts.h"

#include "backends/cuda/kernels/fast_rows.cuh"

namespace vernier::cuda {
namespace {

using BlockScaled = Fragment<FastCodes::kE4M3Block>;
constexpr int kPartWarps = 8, kPartStages = 4;
using PartWeights = WarpWeights<BlockScaled, 1, kPartStages>;
constexpr int kPartOutputs = 16, kPartRings = kPartWarps * PartWeights::kBytes;
constexpr int kBeforeParts = kPartRings + kPartWarps * kRowsBuffer;

constexpr int part_bytes(int64_t rows, int64_t cols) {
  return kBeforeParts + static_cast<int>(fast_units(cols) * rows) * kPartOutputs * 4;
}

/// A warp's units: their sums to [unit][row][output].
__device__ __forceinline__ void make_parts(PartWeights& weights, PlainRows& x, int begin, int end, float* parts) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  x.clear();
  if (begin < end) x.load<BlockScaled>(begin);
  int stage = 0;
  for (int unit = begin; unit < end; ++unit) {
    x.settle<BlockScaled>();
    if (unit + 1 < end) x.load<BlockScaled>(unit + 1);
    wait_copies<kPartStages - 1>();
    float sums[1][1][4] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Pair in[1][8], high[2][8], low[2][8];
      x.half(half, 0, in[0]);
#pragma unroll
      for (int slot = 0; slot < 2; ++slot) weights.half(unit, stage, slot, half, 0, high[slot], low[slot]);
      if (half == 1) weights.fetch(unit + kPartStages, stage);
      multiply_half<BlockScaled, 1, 1>(high, low, in, sums);
    }
    float* own = parts + unit * x.count * kPartOutputs;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane % 4 * 2 + i % 2, output = lane / 4 + i / 2 * 8;
      if (row < x.count) own[row * kPartOutputs + output] = sums[0][0][i];
    }
    stage = stage + 1 == kPartStages ? 0 : stage + 1;
  }
  wait_copies<0>();
}

__global__ void __launch_bounds__(kPartWarps* kLanes) fast_parts_kernel(const __grid_constant__ ProductCall call) {
  extern __shared__ __align__(128) unsigned char shared[];
  start_next();
  const PartPlace place = part_place<kPartOutputs>(call, blockIdx.x);
  const ProductPart& part = call.parts[place.part];
  const QView& view = part.weight;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  const auto units = static_cast<int>(fast_units(view.cols)), rows = static_cast<int>(call.rows);
  const int begin = units * warp / kPartWarps, end = units * (warp + 1) / kPartWarps;
  PartWeights weights(view, place.first, shared_address(shared) + warp * PartWeights::kBytes, begin, end);
#pragma unroll
  for (int i = 0; i < kPartStages; ++i) weights.fetch(begin + i, i);
  await_previous();
  PlainRows x = plain_rows(call.x, view.cols, rows, shared_address(shared) + kPartRings + warp * kRowsBuffer);
#pragma unroll
  for (int r = 0; r < 8; ++r) x.row[r] = r;
  float* parts = reinterpret_cast<float*>(shared + kBeforeParts);
  make_parts(weights, x, begin, end, parts);
  __syncthreads();
  // A number's quarters by four lanes beside each other; whole warps, for rows make multiples of 16 numbers.
  const int quarter = static_cast<int>(threadIdx.x) % kQuarters;
  const int first = units * quarter / kQuarters, last = units * (quarter + 1) / kQuarters;
  const auto group_units = static_cast<int>(view.group_cols / kUnitColumns);
  const int i = static_cast<int>(threadIdx.x) / kQuarters;
  if (i >= rows * kPartOutputs) return;
  const int64_t output = place.first + i % kPartOutputs, own = output < view.rows ? output : view.rows - 1;
  const float* scales =
      reinterpret_cast<const float*>(view.inner_scales) + (view.first_row + own) / view.group_rows * view.groups_across;
  float sum = 0;
#pragma unroll 8
  for (int unit = first; unit < last; ++unit) {
    sum = fmaf(scales[unit / group_units], parts[unit * rows * kPartOutputs + i], sum);
  }
  const float second = __shfl_down_sync(0xFFFFFFFFu, sum, 1), third = __shfl_down_sync(0xFFFFFFFFu, sum, 2);
  const float fourth = __shfl_down_sync(0xFFFFFFFFu, sum, 3);
  if (quarter > 0 || output >= view.rows) return;
  put_product<BlockScaled>(call, part, output, i / kPartOutputs, sum + second + third + fourth);
}
static_assert(kPartWarps * kLanes >= kMostPartRows * kPartOutputs * kQuarters, "a number has four threads");

}  // namespace

LaunchCode fast_parts_product(const ProductCall& call, Stream stream) {
  static const LaunchCode kAllowed = allow_shared(fast_parts_kernel, part_bytes(kMostPartRows, kMostPartColumns));
  if (kAllowed != kLaunched) return kAllowed;
  return launch_early(fast_parts_kernel, dim3(part_blocks<kPartOutputs>(call)), kPartWarps * kLanes,
                      static_cast<size_t>(part_bytes(call.rows, call.parts[0].weight.cols)), stream, call);
}

}  // namespace vernier::cuda
