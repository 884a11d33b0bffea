#include <cuda_runtime.h>

#include <cmath>

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/kv_numbers.cuh"
#include "backends/cuda/kernels/launch.h"

namespace vernier::cuda {
namespace {

__global__ void fill_rope_kernel(const int32_t* positions, const float* frequencies, int32_t pairs, double magnitude,
                                 float* cosines, float* sines) {
  const int64_t at = int64_t{blockIdx.x} * pairs;
  for (int32_t pair = static_cast<int32_t>(threadIdx.x); pair < pairs; pair += static_cast<int32_t>(blockDim.x)) {
    // In float64: at position 8000 a float32 angle is off by up to 2.4e-4.
    double sine, cosine;
    sincos(static_cast<double>(positions[blockIdx.x]) * static_cast<double>(frequencies[pair]), &sine, &cosine);
    cosines[at + pair] = static_cast<float>(magnitude * cosine);
    sines[at + pair] = static_cast<float>(magnitude * sine);
  }
}

/// One number's way into the cache, and to where this step reads it.
template <KvPart P>
__device__ void keep(const AttendPrepareCall& call, const KvView<P>& view, Rows fresh, int64_t row, int32_t head,
                     const float* numbers, bool store) {
  const int32_t dim = call.head_dim;
  const float scale = call.store ? view.scales[head] : 1.0f;
  int64_t at = 0;
  if (store) at = kv_offset(view, slot_of(call.table, call.rows.sequence[row], call.rows.positions[row]), head);
  unsigned long long saturated = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < dim; i += static_cast<int32_t>(blockDim.x)) {
    float number = numbers[i];
    bool too_large = false;
    if (call.store) {
      const uint32_t code = kv_code(view.stored, scale, number, too_large);
      if (store) kv_write(view, at + i, code);
      if (store && too_large) ++saturated;
      if (call.fresh == FreshKeys::kRoundTrip) number = kv_number(view.stored, scale, code);
    }
    if (call.fresh != FreshKeys::kNone) fresh.data[row * fresh.stride + int64_t{head} * dim + i] = number;
  }
  if (saturated > 0) atomicAdd(call.saturated, saturated);
}

/// One head of one row: blockIdx.y counts query heads, then key heads, then value heads.
__global__ void attend_prepare_kernel(const __grid_constant__ AttendPrepareCall call) {
  extern __shared__ float numbers[];  // [head_dim]
  __shared__ float scratch[kLanes];
  start_next();
  await_previous();
  const int64_t row = blockIdx.x;
  const int32_t head = static_cast<int32_t>(blockIdx.y), dim = call.head_dim;
  const bool query = head < call.heads, value = head >= call.heads + call.kv_heads;
  const float* in = call.qkv.data + row * call.qkv.stride + int64_t{head} * dim;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < dim; i += static_cast<int32_t>(blockDim.x))
    numbers[i] = in[i];
  __syncthreads();
  if (value) {
    return keep(call, call.values, call.fresh_values, row, head - call.heads - call.kv_heads, numbers,
                call.store && !call.one_row);
  }
  if (const float* norm = query ? call.q_norm : call.k_norm; norm != nullptr) {
    float squares = 0;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < dim; i += static_cast<int32_t>(blockDim.x)) {
      squares = fmaf(numbers[i], numbers[i], squares);
    }
    squares = block_all(squares, Sum{}, scratch);
    const float inverse = 1.0f / sqrtf(squares / static_cast<float>(dim) + call.norm_eps);
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < dim; i += static_cast<int32_t>(blockDim.x)) {
      numbers[i] = numbers[i] * inverse * norm[i];
    }
    __syncthreads();
  }
  const int32_t pairs = call.rope.pairs;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < pairs; i += static_cast<int32_t>(blockDim.x)) {
    const float cosine = call.rope.cosines[row * pairs + i], sine = call.rope.sines[row * pairs + i];
    const float low = numbers[i], high = numbers[i + pairs];
    numbers[i] = low * cosine - high * sine;
    numbers[i + pairs] = high * cosine + low * sine;
  }
  __syncthreads();
  if (!query) return keep(call, call.keys, call.fresh_keys, row, head - call.heads, numbers, call.store);
  float* to = call.q.data + row * call.q.stride + int64_t{head} * dim;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < dim; i += static_cast<int32_t>(blockDim.x))
    to[i] = numbers[i];
}

/// blockIdx.y counts the heads; the last is the compressed row.
__global__ void latent_prepare_kernel(const __grid_constant__ LatentPrepareCall call) {
  __shared__ float scratch[kLanes];
  const int64_t row = blockIdx.x;
  const int32_t head = static_cast<int32_t>(blockIdx.y), rope_dim = call.rope_dim, pairs = rope_dim / 2;
  const int64_t row_dim = int64_t{call.rank} + rope_dim;
  const bool query = head < call.heads;
  const float* compressed = call.compressed.data + row * call.compressed.stride;
  const float* turning =
      query ? call.q.data + row * call.q.stride + int64_t{head} * (call.nope_dim + rope_dim) + call.nope_dim
            : compressed + call.rank;
  float* to = call.out.data + row * call.out.stride + head * row_dim;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < pairs; i += static_cast<int32_t>(blockDim.x)) {
    const float cosine = call.rope.cosines[row * pairs + i], sine = call.rope.sines[row * pairs + i];
    const float low = turning[call.neighbours ? 2 * i : i], high = turning[call.neighbours ? 2 * i + 1 : i + pairs];
    const float turned_low = low * cosine - high * sine, turned_high = high * cosine + low * sine;
    to[i] = turned_low;
    to[i + pairs] = turned_high;
    if (!query) {
      to[row_dim + i] = turned_low;
      to[row_dim + i + pairs] = turned_high;
    }
  }
  if (query) return;
  float squares = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < call.rank; i += static_cast<int32_t>(blockDim.x)) {
    squares = fmaf(compressed[i], compressed[i], squares);
  }
  squares = block_all(squares, Sum{}, scratch);
  const float inverse = 1.0f / sqrtf(squares / static_cast<float>(call.rank) + call.norm_eps);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < call.rank; i += static_cast<int32_t>(blockDim.x)) {
    to[rope_dim + i] = to[row_dim + rope_dim + i] = compressed[i] * inverse * call.norm[i];
  }
}

}  // namespace

LaunchCode fill_rope(const int32_t* positions, int64_t rows, const float* frequencies, int32_t pairs, double magnitude,
                     float* cosines, float* sines, Stream stream) {
  if (rows == 0 || pairs == 0) return kLaunched;
  fill_rope_kernel<<<row_blocks(rows), kRowThreads, 0, stream_of(stream)>>>(positions, frequencies, pairs, magnitude,
                                                                            cosines, sines);
  return after_launch();
}

LaunchCode attend_prepare(const AttendPrepareCall& call, Stream stream) {
  if (call.rows.rows == 0) return kLaunched;
  const dim3 grid(row_blocks(call.rows.rows), static_cast<unsigned>(call.heads + 2 * call.kv_heads));
  const auto shared = static_cast<size_t>(call.head_dim) * sizeof(float);
  return launch_early(attend_prepare_kernel, grid, kRowThreads, shared, stream, call);
}

LaunchCode latent_prepare(const LatentPrepareCall& call, Stream stream) {
  if (call.rows == 0) return kLaunched;
  const dim3 grid(row_blocks(call.rows), static_cast<unsigned>(call.heads + 1));
  latent_prepare_kernel<<<grid, kRowThreads, 0, stream_of(stream)>>>(call);
  return after_launch();
}

}  // namespace vernier::cuda
