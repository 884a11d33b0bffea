#pragma once

#include <cuda.h>

#include "backends/cuda/kernels/tensor_ops.cuh"

/// What kernels of warp groups share: copies of boxes of a matrix to shared memory, by one group for the others.
namespace vernier::cuda {

#ifdef VERNIER_WARPGROUPS

/// The box that begins at this column and row, zeros beyond the matrix. `barrier` hears of its bytes.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, int column, int row, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];\n" ::"r"(
          to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
/// Registers of this warp group's threads from here on.
template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kCount));
}

#endif  // VERNIER_WARPGROUPS

}  // namespace vernier::cuda
