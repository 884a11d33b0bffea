#pragma once

#include "backends/cuda/kernels/product.cuh"
#include "backends/cuda/kernels/row_math.cuh"

namespace vernier::cuda {

static_assert(kProductWarps * kLanes == kNormThreads, "a product's block norms in the order of the norm's own kernel");

/// One output's weights, the first of them decoded before x is there: they depend on nothing that runs. Columns are
/// taken, and sums are added, as dot_rows does.
template <Codes K, int kRows>
class HeldRow {
 public:
  __device__ __forceinline__ HeldRow(const QView& weight, int64_t output)
      : decoder_(weight, output), cols_(weight.cols), first_(threadIdx.x % kLanes * kChunk) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (column(i) < cols_) decoder_.decode(column(i), held_[i]);
    }
    // What follows is asked for as far as the second level of cache.
    const int64_t ahead = column(kHeld) * weight.row_bytes / (cols_ > 0 ? cols_ : 1);
    if (column(kHeld) < cols_) asm volatile("prefetch.global.L2 [%0];" ::"l"(decoder_.codes + ahead));
  }

  __device__ __forceinline__ void dot(const float* const (&x)[kRows], bool vectors, float (&sums)[kRows]) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[r] = 0.0f;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (column(i) < cols_) add(held_[i], column(i), x, vectors, sums);
    }
    for (int64_t col = column(kHeld); col < cols_; col += kLanes * kChunk) {
      float more[kChunk];
      decoder_.decode(col, more);
      add(more, col, x, vectors, sums);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[r] = warp_sum(sums[r]);
  }

 private:
  static constexpr int kHeld = kRows == 1 ? 6 : 3;

  __device__ __forceinline__ int64_t column(int i) const {
    return first_ + int64_t{i} * kLanes * kChunk;
  }
  __device__ __forceinline__ void add(const float (&w)[kChunk], int64_t col, const float* const (&x)[kRows],
                                      bool vectors, float (&sums)[kRows]) const {
    const bool whole = vectors && col + kChunk <= cols_;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float in[kChunk];
      if (whole) {
        *reinterpret_cast<float4*>(in) = *reinterpret_cast<const float4*>(x[r] + col);
        *reinterpret_cast<float4*>(in + 4) = *reinterpret_cast<const float4*>(x[r] + col + 4);
      } else {
#pragma unroll
        for (int i = 0; i < kChunk; ++i) in[i] = col + i < cols_ ? x[r][col + i] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sums[r] = fmaf(in[i], w[i], sums[r]);
    }
  }

  RowDecoder<K> decoder_;
  int64_t cols_, first_;
  float held_[kHeld][kChunk];
};

/// Each warp an output; of gated ones the block's first warps take gates, the others what stands beside them.
template <Codes K, int kRows>
__global__ void __launch_bounds__(kProductWarps* kLanes)
    fused_product_kernel(const __grid_constant__ FusedProductCall call, RowPointers x) {
  extern __shared__ float4 staged[];
  __shared__ float scratch[kLanes];
  __shared__ float products[kProductWarps][kRows];
  start_next();
  const ProductCall& of = call.product;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t made = call.gated ? of.outputs / 2 : of.outputs;
  const int each = call.gated ? kProductWarps / 2 : kProductWarps;
  const int64_t at = int64_t{blockIdx.x} * each + warp % each;
  const bool there = at < made;
  const int64_t output = of.parts[0].first_output + (there ? at : made - 1) + (warp < each ? 0 : made);
  int part = 0;
  while (part + 1 < of.part_count && output >= of.parts[part + 1].first_output) ++part;
  const QView& weight = of.parts[part].weight;
  const int64_t weight_row = output - of.parts[part].first_output;
  const HeldRow<K, kRows> held(weight, weight_row);
  await_previous();

  const float* in[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) in[r] = x.row(r < of.rows ? r : of.rows - 1);
  if (call.norm != nullptr) {
    const int64_t cols = weight.cols, stride = (cols + 3) / 4 * 4;
    float* normed = reinterpret_cast<float*>(staged);
#pragma unroll 1
    for (int r = 0; r < kRows && r < of.rows; ++r) {
      const float* row = x.row(r);
      const float inverse = inverse_norm(row, cols, call.norm_eps, scratch);
      for (int64_t i = threadIdx.x; i < cols; i += kNormThreads)
        normed[r * stride + i] = row[i] * inverse * call.norm[i];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows; ++r) in[r] = normed + (r < of.rows ? r : of.rows - 1) * stride;
    x.vectors = true;
  }
  float sums[kRows];
  held.dot(in, x.vectors, sums);
  const bool first_lane = threadIdx.x % kLanes == 0;
  if (there && first_lane && of.bias != nullptr) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[r] += of.bias[output];
  }
  if (call.gated) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (there && first_lane) products[warp][r] = sums[r];
    }
    __syncthreads();
    const int own = static_cast<int>(threadIdx.x) % each, r = static_cast<int>(threadIdx.x) / each;
    const int64_t column = int64_t{blockIdx.x} * each + own;
    if (r >= kRows || r >= of.rows || column >= made) return;
    of.out.data[r * of.out.stride + column] = gated(products[own][r], products[own + each][r], call.gate);
    return;
  }
  if (!there || !first_lane) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= of.rows) return;
    float* to = of.out.data + r * of.out.stride + output;
    *to = of.add ? *to + sums[r] : sums[r];
  }
}

template <Codes K>
LaunchCode launch_fused_product(const FusedProductCall& call, Stream stream) {
  const RowPointers x = row_pointers(call.product.x);
  const int64_t made = call.gated ? call.product.outputs / 2 : call.product.outputs;
  const unsigned blocks = blocks_for(made, call.gated ? kProductWarps / 2 : kProductWarps);
  const auto shared = static_cast<size_t>(
      fused_product_bytes(call.product.rows, call.product.parts[0].weight.cols, call.norm != nullptr));
  constexpr unsigned kThreads = kProductWarps * kLanes;
  return call.product.rows == 1
             ? launch_early(fused_product_kernel<K, 1>, dim3(blocks), kThreads, shared, stream, call, x)
             : launch_early(fused_product_kernel<K, kMostFusedRows>, dim3(blocks), kThreads, shared, stream, call, x);
}

}  // namespace vernier::cuda
