#pragma once

#include <cuda_runtime.h>

#include "backends/cuda/kernels/launch.h"

namespace vernier::cuda {

inline constexpr int kLanes = 32;
inline constexpr int kRowThreads = 128;  ///< of a block that works on one row

inline LaunchCode after_launch() {
  return static_cast<LaunchCode>(cudaGetLastError());
}
inline cudaStream_t stream_of(Stream stream) {
  return reinterpret_cast<cudaStream_t>(stream);
}
inline unsigned row_blocks(int64_t rows) {
  return static_cast<unsigned>(rows);
}

/// Launches a kernel that may start while the one before it on the stream still runs: it waits itself, in
/// `await_previous`, before it reads what others wrote, and before it writes.
template <class... Params, class... Args>
LaunchCode launch_early(void (*kernel)(Params...), dim3 grid, unsigned threads, size_t shared, Stream stream,
                        const Args&... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.stream = stream_of(stream);
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &early;
  int device = 0, major = 0;
  (void)cudaGetDevice(&device);
  (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  config.numAttrs = major >= 9 ? 1 : 0;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return static_cast<LaunchCode>(error);
}

/// All that was launched before has run, and what it wrote is seen.
__device__ __forceinline__ void await_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// From here on the next kernel's blocks may take what room there is.
__device__ __forceinline__ void start_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Most {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

/// The same in every thread of the block; `threads` a multiple of 32, at most 1024. `scratch` has 32 places. One order.
template <class T, class Join>
__device__ T block_all(T value, Join join, T* scratch) {
  for (int step = kLanes / 2; step > 0; step /= 2) value = join(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
  const int warps = static_cast<int>(blockDim.x) / kLanes;
  __syncthreads();  // the last use of scratch is over
  if (threadIdx.x % kLanes == 0) scratch[threadIdx.x / kLanes] = value;
  __syncthreads();
  T all = scratch[0];
  for (int i = 1; i < warps; ++i) all = join(all, scratch[i]);
  return all;
}

}  // namespace vernier::cuda
