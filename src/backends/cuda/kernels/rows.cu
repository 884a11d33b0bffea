#include <cuda_runtime.h>

#include <cmath>

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/launch.h"
#include "backends/cuda/kernels/row_math.cuh"

namespace vernier::cuda {
namespace {

constexpr int kFlatThreads = 256;
constexpr int kWideThreads = 512;

/// Of a grid of rows by pieces of kFlatThreads columns.
__device__ __forceinline__ int64_t column() {
  return int64_t{blockIdx.y} * kFlatThreads + threadIdx.x;
}

__global__ void rms_norm_kernel(ConstRows x, const float* weight, float eps, int64_t cols, Rows out) {
  __shared__ float scratch[kLanes];
  const float* in = x.data + int64_t{blockIdx.x} * x.stride;
  start_next();
  await_previous();
  const float inverse = inverse_norm(in, cols, eps, scratch);
  float* to = out.data + int64_t{blockIdx.x} * out.stride;
  for (int64_t i = threadIdx.x; i < cols; i += kNormThreads) to[i] = in[i] * inverse * weight[i];
}

__global__ void layer_norm_kernel(ConstRows x, const float* weight, const float* bias, float eps, int64_t cols,
                                  Rows out) {
  __shared__ float scratch[kLanes];
  const float* in = x.data + int64_t{blockIdx.x} * x.stride;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) sum += in[i];
  const float mean = block_all(sum, Sum{}, scratch) / static_cast<float>(cols);
  float squares = 0;
  for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) squares = fmaf(in[i] - mean, in[i] - mean, squares);
  squares = block_all(squares, Sum{}, scratch);
  const float inverse = 1.0f / sqrtf(squares / static_cast<float>(cols) + eps);
  float* to = out.data + int64_t{blockIdx.x} * out.stride;
  for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) to[i] = fmaf((in[i] - mean) * inverse, weight[i], bias[i]);
}

__global__ void copy_rows_kernel(ConstRows x, const int32_t* source_rows, int64_t cols, Rows out) {
  start_next();
  await_previous();
  const int64_t row = source_rows == nullptr ? int64_t{blockIdx.x} : int64_t{source_rows[blockIdx.x]};
  const float* in = x.data + row * x.stride;
  float* to = out.data + int64_t{blockIdx.x} * out.stride;
  const int64_t i = column();
  if (i < cols) to[i] = in[i];
}

__global__ void add_kernel(const float* x, int64_t count, float* into) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) into[i] += x[i];
}

__global__ void soft_cap_kernel(float* x, int64_t count, float cap) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) x[i] = cap * tanhf(x[i] / cap);
}

__global__ void activate_kernel(ConstRows x, Activation act, int64_t cols, Rows out) {
  const float* in = x.data + int64_t{blockIdx.x} * x.stride;
  float* to = out.data + int64_t{blockIdx.x} * out.stride;
  const int64_t i = column();
  if (i < cols) to[i] = activated(in[i], act, 1.0f);
}

__global__ void gate_kernel(ConstRows x, GateRule rule, int64_t cols, const int32_t* made, Rows out) {
  start_next();
  await_previous();
  if (made != nullptr && static_cast<int64_t>(blockIdx.x) >= *made) return;
  const float* in = x.data + int64_t{blockIdx.x} * x.stride;
  float* to = out.data + int64_t{blockIdx.x} * out.stride;
  const int64_t i = column();
  if (i >= cols) return;
  to[i] = gated(in[i], in[cols + i], rule);
}

unsigned flat_blocks(int64_t count) {
  return static_cast<unsigned>((count + kFlatThreads - 1) / kFlatThreads);
}

dim3 row_grid(int64_t rows, int64_t cols) {
  return dim3(row_blocks(rows), flat_blocks(cols));
}

}  // namespace

LaunchCode rms_norm(ConstRows x, const float* weight, float eps, int64_t rows, int64_t cols, Rows out, Stream stream) {
  if (rows == 0) return kLaunched;
  return launch_early(rms_norm_kernel, dim3(row_blocks(rows)), kNormThreads, 0, stream, x, weight, eps, cols, out);
}

LaunchCode layer_norm(ConstRows x, const float* weight, const float* bias, float eps, int64_t rows, int64_t cols,
                      Rows out, Stream stream) {
  if (rows == 0) return kLaunched;
  layer_norm_kernel<<<row_blocks(rows), kWideThreads, 0, stream_of(stream)>>>(x, weight, bias, eps, cols, out);
  return after_launch();
}

LaunchCode copy_rows(ConstRows x, const int32_t* source_rows, int64_t rows, int64_t cols, Rows out, Stream stream) {
  if (rows == 0) return kLaunched;
  return launch_early(copy_rows_kernel, row_grid(rows, cols), kFlatThreads, 0, stream, x, source_rows, cols, out);
}

LaunchCode add(const float* x, int64_t count, float* into, Stream stream) {
  if (count == 0) return kLaunched;
  add_kernel<<<flat_blocks(count), kFlatThreads, 0, stream_of(stream)>>>(x, count, into);
  return after_launch();
}

LaunchCode soft_cap(float* x, int64_t count, float cap, Stream stream) {
  if (count == 0) return kLaunched;
  soft_cap_kernel<<<flat_blocks(count), kFlatThreads, 0, stream_of(stream)>>>(x, count, cap);
  return after_launch();
}

LaunchCode activate(ConstRows x, Activation act, int64_t rows, int64_t cols, Rows out, Stream stream) {
  if (rows == 0) return kLaunched;
  activate_kernel<<<row_grid(rows, cols), kFlatThreads, 0, stream_of(stream)>>>(x, act, cols, out);
  return after_launch();
}

LaunchCode gate(ConstRows x, const GateRule& rule, int64_t rows, int64_t cols, const int32_t* made, Rows out,
                Stream stream) {
  if (rows == 0) return kLaunched;
  return launch_early(gate_kernel, row_grid(rows, cols), kFlatThreads, 0, stream, x, rule, cols, made, out);
}

}  // namespace vernier::cuda
