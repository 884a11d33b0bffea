#pragma once

#include "backends/cuda/kernels/tensor_ops.cuh"

/// Rows of x as codes of four bits are multiplied by them: rounded once, by whom makes them, for all who read.
namespace vernier::cuda {

/// Pairs of a unit of 128 columns: [half][two][thread of four][four pairs], each of two columns that are four apart.
inline constexpr int kLaidUnitPairs = 64;

/// Where the 16 bytes of columns [8 eight, 8 eight + 8) stand: thread t of four has 32 columns, 16 of them in each
/// half.
__host__ __device__ constexpr int laid_piece(int eight) {
  return eight / 16 * 16 + eight % 4 * 4 + eight % 16 / 4;
}

/// Thread `thread` of `threads` takes its share of a row that begins at a multiple of 16 bytes; zeros stand behind its
/// end. `cols` is a multiple of 8.
__device__ __forceinline__ void lay_row(const float* x, int64_t cols, Pair* out, int thread, int threads) {
  const auto eights = static_cast<int>((cols + 127) / 128 * 16);
  for (int eight = thread; eight < eights; eight += threads) {
    float4 low = make_float4(0, 0, 0, 0), high = low;
    if (eight * 8 < cols) {
      low = *reinterpret_cast<const float4*>(x + eight * 8);
      high = *reinterpret_cast<const float4*>(x + eight * 8 + 4);
    }
    reinterpret_cast<uint4*>(out)[laid_piece(eight)] =
        make_uint4(pair_of(low.x, high.x), pair_of(low.y, high.y), pair_of(low.z, high.z), pair_of(low.w, high.w));
  }
}

/// Where a column of a laid out row stands, in numbers of two bytes.
__device__ __forceinline__ int laid_number(int column) {
  return laid_piece(column / 8) * 8 + column % 4 * 2 + column % 8 / 4;
}

}  // namespace vernier::cuda
