#pragma once

#include <cuda_runtime.h>

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/decode.h"
#include "backends/cuda/kernels/launch.h"

namespace vernier::cuda {

inline constexpr int kProductWarps = 8;  ///< of a block, each with an output of its own

inline unsigned blocks_for(int64_t count, int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

__device__ __forceinline__ float warp_sum(float value) {
  for (int step = kLanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
  return value;
}

/// Rows of x as a product reads them.
struct RowPointers {
  const float* data;
  int64_t stride;
  bool vectors;  ///< every row begins at a multiple of 16 bytes

  __device__ __forceinline__ const float* row(int64_t index) const { return data + index * stride; }
};

inline RowPointers row_pointers(ConstRows x) {
  return {x.data, x.stride, x.stride % 4 == 0 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0};
}

/// The products of one output with kRows rows. Lane l of a warp takes columns [8 l, 8 l + 8), [8 l + 256, ...), and the
/// lanes' sums are added as a tree: one order, whatever kRows is.
template <Codes K, int kRows>
__device__ __forceinline__ void dot_rows(const QView& weight, int64_t output, const float* const (&x)[kRows],
                                         bool vectors, float (&sums)[kRows]) {
  const RowDecoder<K> decoder(weight, output);
  const int64_t cols = weight.cols;
  for (int r = 0; r < kRows; ++r) sums[r] = 0.0f;
  for (int64_t col = (threadIdx.x % kLanes) * kChunk; col < cols; col += kLanes * kChunk) {
    float w[kChunk];
    decoder.decode(col, w);
    const bool whole = vectors && col + kChunk <= cols;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float in[kChunk];
      if (whole) {
        *reinterpret_cast<float4*>(in) = *reinterpret_cast<const float4*>(x[r] + col);
        *reinterpret_cast<float4*>(in + 4) = *reinterpret_cast<const float4*>(x[r] + col + 4);
      } else {
#pragma unroll
        for (int i = 0; i < kChunk; ++i) in[i] = col + i < cols ? x[r][col + i] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sums[r] = fmaf(in[i], w[i], sums[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) sums[r] = warp_sum(sums[r]);
}

template <Codes K, int kRows>
__global__ void __launch_bounds__(kProductWarps* kLanes)
    product_kernel(const __grid_constant__ ProductCall call, RowPointers x) {
  const int64_t at = int64_t{blockIdx.x} * kProductWarps + threadIdx.x / kLanes;
  if (at >= call.outputs) return;
  const int64_t output = call.parts[0].first_output + at;
  int part = 0;
  while (part + 1 < call.part_count && output >= call.parts[part + 1].first_output) ++part;
  const int64_t first = int64_t{blockIdx.y} * kRows;
  const float* in[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) in[r] = x.row(first + r < call.rows ? first + r : call.rows - 1);
  float sums[kRows];
  dot_rows<K, kRows>(call.parts[part].weight, output - call.parts[part].first_output, in, x.vectors, sums);
  if (threadIdx.x % kLanes != 0) return;
  const float bias = call.bias == nullptr ? 0.0f : call.bias[output];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (first + r >= call.rows) return;
    float* to = call.out.data + (first + r) * call.out.stride + output;
    float sum = sums[r];
    if (call.bias != nullptr) sum += bias;
    *to = call.add ? *to + sum : sum;
  }
}

template <Codes K, int kRows>
__global__ void __launch_bounds__(kProductWarps* kLanes)
    grouped_product_kernel(const __grid_constant__ GroupedProductCall call, RowPointers x) {
  const int32_t matrix = static_cast<int32_t>(blockIdx.y);
  const int32_t begin = call.first[matrix], end = call.first[matrix + 1];
  if (begin == end) return;
  const QView weight = call.weights[matrix];
  if (weight.codes == nullptr || weight.kind != K) return;
  const int64_t output = int64_t{blockIdx.x} * kProductWarps + threadIdx.x / kLanes;
  if (output >= weight.rows) return;
  const float* biases = call.biases == nullptr ? nullptr : call.biases[matrix];
  const float bias = biases == nullptr ? 0.0f : biases[output];
  for (int32_t first = begin; first < end; first += kRows) {
    const float* in[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int32_t place = first + r < end ? first + r : end - 1;
      in[r] = x.row(call.source_rows == nullptr ? place : call.source_rows[place]);
    }
    float sums[kRows];
    dot_rows<K, kRows>(weight, output, in, x.vectors, sums);
    if (threadIdx.x % kLanes != 0) continue;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r < end)
        call.out.data[(first + r) * call.out.stride + output] = biases == nullptr ? sums[r] : sums[r] + bias;
    }
  }
}

template <Codes K>
__global__ void gather_kernel(const __grid_constant__ GatherCall call) {
  const int64_t row = blockIdx.x, index = call.indices[row] - call.first_index;
  if (index < 0 || index >= call.table.rows) return;
  const RowDecoder<K> decoder(call.table, index);
  float* out = call.out.data + row * call.out.stride;
  for (int64_t col = threadIdx.x * kChunk; col < call.table.cols; col += blockDim.x * kChunk) {
    float numbers[kChunk];
    decoder.decode(col, numbers);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      if (col + i < call.table.cols) out[col + i] = numbers[i] * call.factor;
    }
  }
}

/// The three kernels for one kind of codes.
template <Codes K>
LaunchCode launch_product(const ProductCall& call, Stream stream) {
  const RowPointers x = row_pointers(call.x);
  const unsigned outputs = blocks_for(call.outputs, kProductWarps);
  if (call.rows == 1) {
    product_kernel<K, 1><<<dim3(outputs, 1), kProductWarps * kLanes, 0, stream_of(stream)>>>(call, x);
  } else {
    product_kernel<K, 8>
        <<<dim3(outputs, blocks_for(call.rows, 8)), kProductWarps * kLanes, 0, stream_of(stream)>>>(call, x);
  }
  return after_launch();
}

template <Codes K>
LaunchCode launch_grouped_product(const GroupedProductCall& call, Stream stream) {
  const dim3 grid(blocks_for(call.most_outputs, kProductWarps), static_cast<unsigned>(call.matrices));
  grouped_product_kernel<K, 4><<<grid, kProductWarps * kLanes, 0, stream_of(stream)>>>(call, row_pointers(call.x));
  return after_launch();
}

template <Codes K>
LaunchCode launch_gather(const GatherCall& call, Stream stream) {
  gather_kernel<K><<<static_cast<unsigned>(call.rows), 128, 0, stream_of(stream)>>>(call);
  return after_launch();
}

}  // namespace vernier::cuda
