#pragma once

#include "backends/cuda/kernels/fast.h"

/// E4M3 with a scale for each block, for few rows: a unit's sum has a place of its own in shared memory, so any warp
/// may make it, and as many share 16 outputs as keep the memory busy. C++17; no header of CUDA.
namespace vernier::cuda {

inline constexpr int64_t kMostPartRows = 4;
inline constexpr int64_t kMostPartColumns = 8192;  ///< beyond, warps with a quarter each are busy enough

constexpr bool parts_take(FastCodes codes, int64_t rows, int64_t cols) {
  return codes == FastCodes::kE4M3Block && rows <= kMostPartRows && cols <= kMostPartColumns;
}
/// fast_product of a call that parts_take takes, to the bit.
LaunchCode fast_parts_product(const ProductCall& call, Stream stream);

}  // namespace vernier::cuda
