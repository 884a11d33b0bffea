#pragma once

#include "backends/cuda/kernels/fast_staged.cuh"

/// A product of few rows that norms them before and gates its outputs behind.
namespace vernier::cuda {

/// Which part has an output, and which of its rows makes it.
template <class F>
__device__ __forceinline__ PartPlace place_of_output(const ProductCall& call, int64_t output) {
  PartPlace place;
  while (place.part + 1 < call.part_count && output >= call.parts[place.part + 1].first_output) ++place.part;
  place.first = output - call.parts[place.part].first_output;
  return place;
}

template <class F>
__device__ __forceinline__ float product_number(const ProductCall& call, int64_t output, float sum) {
  const PartPlace place = place_of_output<F>(call, output);
  sum *= sum_factor<F>(call.parts[place.part].weight, place.first);
  return call.bias == nullptr ? sum : sum + call.bias[output];
}

/// Gated: the first side makes gates, the second what stands beside them; else neighbouring strips of a part.
template <class F>
__global__ void __launch_bounds__(StagedBlock<F, 2>::kThreads)
    fast_fused_kernel(const __grid_constant__ FusedProductCall call) {
  using Block = StagedBlock<F, 2>;
  static_assert(Block::kThreads == kNormThreads, "a block norms in the order of the norm's own kernel");
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ float scratch[kLanes];
  start_next();
  const ProductCall& of = call.product;
  const int side = static_cast<int>(threadIdx.x) / (kQuarters * kLanes);
  const int64_t made = of.outputs / 2, first = int64_t{blockIdx.x} * Block::kOutputs, origin = of.parts[0].first_output;
  PartPlace place;
  if (call.gated) {
    place = place_of_output<F>(of, origin + side * made + first);
  } else {
    place = part_place<2 * Block::kOutputs>(of, blockIdx.x);
    place.first += side * Block::kOutputs;
  }
  const ProductPart& part = of.parts[place.part];
  const auto count = static_cast<int>(of.rows);
  const auto make_x = [&](uint32_t at) {
    await_previous();
    float inverse[kMostFusedRows];
    if (call.norm != nullptr) {
      for (int r = 0; r < kMostFusedRows; ++r) {
        if (r < count) inverse[r] = inverse_norm(of.x.data + r * of.x.stride, part.weight.cols, call.norm_eps, scratch);
      }
    }
    const StagedRows x{at, count};
    x.stage<F, Block::kWarps>(part.weight.cols, [&](int r, int column) {
      float4 own = *reinterpret_cast<const float4*>(of.x.data + r * of.x.stride + column);
      if (call.norm == nullptr) return own;
      const float4 norm = *reinterpret_cast<const float4*>(call.norm + column);
      float factor = inverse[0];
#pragma unroll
      for (int i = 1; i < kMostFusedRows; ++i) factor = i == r ? inverse[i] : factor;
      own.x = own.x * factor * norm.x, own.y = own.y * factor * norm.y;
      own.z = own.z * factor * norm.z, own.w = own.w * factor * norm.w;
      return own;
    });
    __syncthreads();
    return x;
  };
  const auto take = [&](int, const float* sums) {
    const int output = static_cast<int>(threadIdx.x) % Block::kOutputs;
    const int r = static_cast<int>(threadIdx.x) / Block::kOutputs % Block::kRows;
    if (r >= count) return;
    if (call.gated) {
      const int64_t column = first + output;
      if (side > 0 || column >= made) return;
      const float gate = product_number<F>(of, origin + column, Block::sum(sums, 0, r, output));
      const float up = product_number<F>(of, origin + made + column, Block::sum(sums, 1, r, output));
      of.out.data[r * of.out.stride + column] = gated(gate, up, call.gate);
      return;
    }
    if (place.first + output >= part.weight.rows) return;
    put_product<F>(of, part, place.first + output, r, Block::sum(sums, side, r, output));
  };
  Block::run(part.weight, place.first, 1, 1, shared, make_x, take);
}

template <FastCodes C>
LaunchCode launch_fast_fused(const FusedProductCall& call, Stream stream) {
  using F = Fragment<C>;
  using Block = StagedBlock<F, 2>;
  static const LaunchCode kAllowed = allow_shared(fast_fused_kernel<F>, kMostStagedBytes);
  if (kAllowed != kLaunched) return kAllowed;
  const int64_t made = call.product.outputs / 2;
  const unsigned blocks = call.gated ? static_cast<unsigned>((made + Block::kOutputs - 1) / Block::kOutputs)
                                     : part_blocks<2 * Block::kOutputs>(call.product);
  const int bytes = Block::shared_bytes(static_cast<int>(call.product.rows), call.product.parts[0].weight.cols);
  return launch_early(fast_fused_kernel<F>, dim3(blocks), Block::kThreads, static_cast<size_t>(bytes), stream, call);
}

}  // namespace vernier::cuda
