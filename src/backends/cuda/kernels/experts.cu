#include <cuda_runtime.h>

#include "backends/cuda/kernels/choose.cuh"
#include "backends/cuda/kernels/fused_product.cuh"
#include "backends/cuda/kernels/laid_rows.cuh"

namespace vernier::cuda {
namespace {

constexpr int kPlaceThreads = 1024;
constexpr int64_t kRouteBytes = 40 * 1024;  // of a block: as many rows as fit

/// Of a row, a multiple of four.
int32_t route_bytes(const RouteCall& call) {
  return static_cast<int32_t>((route_shared_bytes(call.experts, call.chosen, call.groups) + 3) / 4 * 4);
}

/// A warp a row.
__global__ void route_kernel(const __grid_constant__ RouteCall call, int32_t row_bytes) {
  extern __shared__ __align__(16) unsigned char memory[];
  start_next();
  await_previous();
  const auto warp = static_cast<int32_t>(threadIdx.x / kLanes);
  const int64_t row = int64_t{blockIdx.x} * (blockDim.x / kLanes) + warp;
  if (row < call.rows) route_row(call, call.logits + row * call.experts, memory + warp * row_bytes, row);
}

__global__ void __launch_bounds__(kPlaceThreads) find_places_kernel(const __grid_constant__ PlacesCall call) {
  extern __shared__ int32_t next[];
  start_next();
  await_previous();
  place_choices(call, next);
}

/// The first block chooses, a row a warp at a time; each other lays out a row.
__global__ void __launch_bounds__(kPlaceThreads)
    choose_kernel(const __grid_constant__ ChooseCall call, int32_t row_bytes, int32_t rows_at_once) {
  extern __shared__ __align__(16) unsigned char memory[];
  start_next();
  await_previous();
  if (blockIdx.x > 0) {
    const int64_t row = blockIdx.x - 1;
    return lay_row(call.x.data + row * call.x.stride, call.cols, call.laid + row * laid_row_words(call.cols),
                   threadIdx.x, blockDim.x);
  }
  const auto warp = static_cast<int32_t>(threadIdx.x / kLanes);
  if (warp < rows_at_once) {
    for (int64_t row = warp; row < call.route.rows; row += rows_at_once) {
      route_row(call.route, call.route.logits + row * call.route.experts, memory + warp * row_bytes, row);
    }
  }
  __syncthreads();
  place_choices(call.places, reinterpret_cast<int32_t*>(memory));
}

/// Norm, the router's product, the choice, and rows laid out: a block has a row and some outputs, and who comes last
/// chooses.
template <Codes K>
__global__ void __launch_bounds__(kProductWarps* kLanes)
    router_kernel(const __grid_constant__ RouterCall call, RowPointers x, int32_t row_bytes) {
  extern __shared__ float4 staged[];
  __shared__ float scratch[kLanes];
  __shared__ uint32_t before;
  start_next();
  const ProductCall& of = call.router;
  const auto warp = static_cast<int>(threadIdx.x / kLanes), lane = static_cast<int>(threadIdx.x % kLanes);
  const int64_t output = int64_t{blockIdx.x} * kProductWarps + warp, cols = of.parts[0].weight.cols, row = blockIdx.y;
  const bool there = output < of.outputs;
  const HeldRow<K, 1> held(of.parts[0].weight, there ? output : 0);
  await_previous();
  const float* in[1] = {x.row(row)};
  if (call.norm != nullptr) {
    float* normed = reinterpret_cast<float*>(staged);
    const float inverse = inverse_norm(in[0], cols, call.norm_eps, scratch);
    for (int64_t i = threadIdx.x; i < cols; i += kNormThreads) normed[i] = in[0][i] * inverse * call.norm[i];
    __syncthreads();
    in[0] = normed;
  }
  float sum[1];
  held.dot(in, true, sum);
  if (there && lane == 0) {
    of.out.data[row * of.out.stride + output] = of.bias == nullptr ? sum[0] : sum[0] + of.bias[output];
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) before = atomicInc(call.arrived, gridDim.x * gridDim.y - 1);
  lay_row(in[0], cols, call.laid + row * laid_row_words(cols), static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x),
          static_cast<int>(gridDim.x * blockDim.x));
  __syncthreads();
  if (before + 1 != gridDim.x * gridDim.y) return;
  __threadfence();
  auto* memory = reinterpret_cast<unsigned char*>(staged) + warp * row_bytes;
  auto* logits = reinterpret_cast<float*>(memory + row_bytes) - call.route.experts;
  for (int64_t own = warp; own < of.rows; own += kProductWarps) {
    for (int32_t i = lane; i < call.route.experts; i += kLanes) {
      logits[i] = __ldcg(of.out.data + own * of.out.stride + i);
    }
    __syncwarp();
    route_row(call.route, logits, memory, own);
  }
  __syncthreads();
  place_choices(call.places, reinterpret_cast<int32_t*>(staged));
}

template <Codes K>
LaunchCode launch_router(const RouterCall& call, Stream stream) {
  const RouteCall& route = call.route;
  const auto row_bytes = static_cast<int32_t>(router_row_bytes(route.experts, route.chosen, route.groups));
  const int64_t normed = call.norm == nullptr ? 0 : call.router.parts[0].weight.cols * 4;
  const int64_t routed = int64_t{row_bytes} * kProductWarps;
  const dim3 grid(blocks_for(call.router.outputs, kProductWarps), row_blocks(call.router.rows));
  return launch_early(router_kernel<K>, grid, kProductWarps * kLanes,
                      static_cast<size_t>(normed > routed ? normed : routed), stream, call, row_pointers(call.router.x),
                      row_bytes);
}

__global__ void combine_kernel(const __grid_constant__ CombineCall call) {
  const int64_t row = blockIdx.x;
  for (int64_t col = threadIdx.x; col < call.cols; col += blockDim.x) {
    float sum = 0;
    for (int32_t i = 0; i < call.chosen; ++i) {
      const int64_t choice = row * call.chosen + i;
      const bool identity = call.expert_of[choice] >= call.weighted;
      const float answer = identity ? call.x.data[row * call.x.stride + col]
                                    : call.answers.data[call.place_of[choice] * call.answers.stride + col];
      sum = fmaf(call.weight_of[choice], answer, sum);
    }
    call.out.data[row * call.out.stride + col] = sum;
  }
}

}  // namespace

LaunchCode route(const RouteCall& call, Stream stream) {
  if (call.rows == 0) return kLaunched;
  const int32_t bytes = route_bytes(call), fit = static_cast<int32_t>(kRouteBytes / bytes);
  const int32_t warps = fit < 1 ? 1 : fit < 4 ? fit : 4;
  return launch_early(route_kernel, dim3(blocks_for(call.rows, warps)), static_cast<unsigned>(warps * kLanes),
                      static_cast<size_t>(warps) * bytes, stream, call, bytes);
}

LaunchCode find_places(const PlacesCall& call, Stream stream) {
  if (call.choices == 0) return kLaunched;
  return launch_early(find_places_kernel, dim3(1), kPlaceThreads, static_cast<size_t>(call.experts) * 4, stream, call);
}

LaunchCode choose(const ChooseCall& call, Stream stream) {
  const int32_t bytes = route_bytes(call.route), fit = static_cast<int32_t>(kRouteBytes / bytes);
  const int32_t at_once = fit < 1 ? 1 : fit < 32 ? fit : 32;
  return launch_early(choose_kernel, dim3(1 + (call.laid == nullptr ? 0 : row_blocks(call.route.rows))), kPlaceThreads,
                      static_cast<size_t>(at_once) * bytes, stream, call, bytes, at_once);
}

LaunchCode route_few(const RouterCall& call, Stream stream) {
  return call.router.parts[0].weight.kind == Codes::kF32 ? launch_router<Codes::kF32>(call, stream)
                                                         : launch_router<Codes::kBF16>(call, stream);
}

LaunchCode combine(const CombineCall& call, Stream stream) {
  if (call.rows == 0) return kLaunched;
  combine_kernel<<<row_blocks(call.rows), kRowThreads, 0, stream_of(stream)>>>(call);
  return after_launch();
}

}  // namespace vernier::cuda
