#include <cuda_runtime.h>

#include <cmath>

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/kv_numbers.cuh"
#include "backends/cuda/kernels/launch.h"
#include "backends/cuda/kernels/visible.cuh"

namespace vernier::cuda {
namespace {

constexpr int kThreads = kRowThreads;

/// A softmax over some keys: its largest score, and the sum of the others' powers against it.
struct Denominator {
  float most = -INFINITY;
  float sum = 0;

  /// Takes in another; what was summed is from now on to be multiplied by `mine`, the other's numbers by `other`.
  __device__ void join(float other_most, float other_sum, float& mine, float& other) {
    const float all = most > other_most ? most : other_most;
    mine = expf(most - all);
    other = expf(other_most - all);
    sum = sum * mine + other_sum * other;
    most = all;
  }
};

/// The block's shared memory: of dim, dim and twice kRangeKeys places.
struct Shared {
  float* query;
  float* total;
  float* scores;
  int64_t* places;

  __device__ Shared(unsigned char* memory, int32_t dim) {
    places = reinterpret_cast<int64_t*>(memory);
    scores = reinterpret_cast<float*>(places + kRangeKeys);
    query = scores + kRangeKeys;
    total = query + dim;
  }
};

size_t shared_bytes(int32_t dim) {
  return kRangeKeys * (sizeof(int64_t) + sizeof(float)) + 2 * static_cast<size_t>(dim) * sizeof(float);
}

/// One head of one row. kFresh: some keys are those of the step.
template <KvNumbers S, bool kFresh>
struct RowHead {
  const AttendCall& call;
  int64_t row;
  int32_t head, kv_head;
  Visible visible;
  Shared shared;
  float* scratch;
  float key_scale = 1, value_scale = 1;

  __device__ RowHead(const AttendCall& of, int64_t at_row, int32_t at_head, unsigned char* memory, float* sums)
      : call(of),
        row(at_row),
        head(at_head),
        kv_head(at_head / (of.heads / of.kv_heads)),
        visible(of, at_row),
        shared(memory, of.head_dim),
        scratch(sums) {
    if (call.causal) {
      key_scale = call.keys.scales[kv_head];
      value_scale = call.values.scales[kv_head];
    }
    const float* q = call.q.data + row * call.q.stride + int64_t{head} * call.head_dim;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < call.head_dim; i += kThreads) {
      shared.query[i] = q[i];
      shared.total[i] = 0.0f;
    }
  }

  /// Where a key's numbers begin in the cache; or, below 0, which row of the step holds them.
  __device__ int64_t place_of(int32_t position) const {
    const int32_t first = call.rows.first_position[visible.sequence];
    if (kFresh && position >= first) {
      return -1 - (int64_t{call.rows.first_row[visible.sequence]} + position - first);
    }
    return kv_offset(call.keys, slot_of(call.table, visible.sequence, position), kv_head);
  }

  __device__ float key_number(int64_t place, int32_t i) const {
    if (place < 0)
      return call.fresh_keys.data[(-1 - place) * call.fresh_keys.stride + int64_t{kv_head} * call.head_dim + i];
    return kv_read<S>(call.keys, place + i, key_scale);
  }
  __device__ float value_number(int64_t place, int32_t i) const {
    if (kFresh && place < 0) {
      return call.fresh_values.data[(-1 - place) * call.fresh_values.stride + int64_t{kv_head} * call.head_dim + i];
    }
    return kv_read<S>(call.values, place + i, value_scale);
  }

  /// The powers of one range's scores, to shared.scores; its keys' count, and its denominator.
  __device__ int32_t score(int32_t range, float& most, float& sum) const {
    const int32_t begin = max(visible.begin, range * kRangeKeys), end = min(visible.end, (range + 1) * kRangeKeys);
    const int32_t count = end - begin, thread = static_cast<int32_t>(threadIdx.x);
    __syncthreads();  // the last range's scores have been used
    for (int32_t i = thread; i < count; i += kThreads) shared.places[i] = place_of(begin + i);
    __syncthreads();
#pragma unroll 4
    for (int32_t i = thread / kLanes; i < count; i += kThreads / kLanes) {
      const int64_t place = shared.places[i];
      float dot = 0;
      for (int32_t d = thread % kLanes; d < call.head_dim; d += kLanes) {
        dot = fmaf(shared.query[d], key_number(place, d), dot);
      }
      for (int step = kLanes / 2; step > 0; step /= 2) dot += __shfl_xor_sync(0xFFFFFFFFu, dot, step);
      dot *= call.scale;
      if (call.soft_cap > 0) dot = call.soft_cap * tanhf(dot / call.soft_cap);
      if (thread % kLanes == 0) shared.scores[i] = dot;
    }
    __syncthreads();
    most = -INFINITY;
    for (int32_t i = thread; i < count; i += kThreads) most = shared.scores[i] > most ? shared.scores[i] : most;
    most = block_all(most, Most{}, scratch);
    sum = 0;
    for (int32_t i = thread; i < count; i += kThreads) sum += shared.scores[i] = expf(shared.scores[i] - most);
    sum = block_all(sum, Sum{}, scratch);
    return count;
  }

  __device__ float mixed(int32_t count, int32_t d) const {
    float sum = 0;
#pragma unroll 8
    for (int32_t i = 0; i < count; ++i) sum = fmaf(shared.scores[i], value_number(shared.places[i], d), sum);
    return sum;
  }
};

/// The last step of a row: a sink joins once, and what was summed is divided.
__device__ void finish(const AttendCall& call, int64_t row, int32_t head, Denominator all, const float* total) {
  float keep = 1, unused;
  if (call.sinks != nullptr) all.join(call.sinks[head], 1.0f, keep, unused);
  float* out = call.out.data + row * call.out.stride + int64_t{head} * call.head_dim;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < call.head_dim; i += kThreads)
    out[i] = total[i] * keep / all.sum;
}

template <KvNumbers S, bool kFresh>
__global__ void __launch_bounds__(kThreads) attend_rows_kernel(const __grid_constant__ AttendCall call) {
  extern __shared__ unsigned char memory[];
  __shared__ float scratch[kLanes];
  const RowHead<S, kFresh> of(call, blockIdx.x, static_cast<int32_t>(blockIdx.y), memory, scratch);
  Denominator all;
  for (int32_t range = of.visible.first_range(); range < of.visible.end_range(); ++range) {
    float most, sum, mine, other;
    const int32_t count = of.score(range, most, sum);
    all.join(most, sum, mine, other);
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < call.head_dim; i += kThreads) {
      of.shared.total[i] = of.shared.total[i] * mine + of.mixed(count, i) * other;
    }
  }
  finish(call, of.row, of.head, all, of.shared.total);
}

/// Where a range's part lies: largest score, sum, numbers.
__device__ float* part_at(float* parts, const AttendCall& call, int64_t row, int32_t head, int32_t ranges,
                          int32_t range) {
  return parts + ((row * call.heads + head) * ranges + range) * attend_part_numbers(call.head_dim);
}

template <KvNumbers S, bool kFresh>
__global__ void __launch_bounds__(kThreads)
    attend_ranges_kernel(const __grid_constant__ AttendCall call, int32_t first_row, int32_t ranges, float* parts) {
  extern __shared__ unsigned char memory[];
  __shared__ float scratch[kLanes];
  const RowHead<S, kFresh> of(call, int64_t{first_row} + blockIdx.x, static_cast<int32_t>(blockIdx.y), memory, scratch);
  const int32_t range = of.visible.first_range() + static_cast<int32_t>(blockIdx.z);
  if (range >= of.visible.end_range()) return;
  float most, sum;
  const int32_t count = of.score(range, most, sum);
  float* part = part_at(parts, call, blockIdx.x, of.head, ranges, static_cast<int32_t>(blockIdx.z));
  if (threadIdx.x == 0) part[0] = most, part[1] = sum;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < call.head_dim; i += kThreads)
    part[2 + i] = of.mixed(count, i);
}

__global__ void __launch_bounds__(kThreads)
    attend_merge_kernel(const __grid_constant__ AttendCall call, int32_t first_row, int32_t ranges, float* parts) {
  extern __shared__ float total[];  // [head_dim]
  const int64_t row = int64_t{first_row} + blockIdx.x;
  const int32_t head = static_cast<int32_t>(blockIdx.y);
  const Visible visible(call, row);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < call.head_dim; i += kThreads) total[i] = 0.0f;
  Denominator all;
  for (int32_t range = 0; range < visible.end_range() - visible.first_range(); ++range) {
    const float* part = part_at(parts, call, blockIdx.x, head, ranges, range);
    float mine, other;
    all.join(part[0], part[1], mine, other);
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < call.head_dim; i += kThreads) {
      total[i] = total[i] * mine + part[2 + i] * other;
    }
  }
  finish(call, row, head, all, total);
}

template <KvNumbers S, bool kFresh>
LaunchCode launch_rows(const AttendCall& call, Stream stream) {
  const dim3 grid(row_blocks(call.rows.rows), static_cast<unsigned>(call.heads));
  attend_rows_kernel<S, kFresh><<<grid, kThreads, shared_bytes(call.head_dim), stream_of(stream)>>>(call);
  return after_launch();
}

template <KvNumbers S, bool kFresh>
LaunchCode launch_ranges(const AttendCall& call, int32_t first_row, int32_t end_row, int32_t ranges, float* parts,
                         Stream stream) {
  const dim3 grid(row_blocks(end_row - first_row), static_cast<unsigned>(call.heads), static_cast<unsigned>(ranges));
  attend_ranges_kernel<S, kFresh>
      <<<grid, kThreads, shared_bytes(call.head_dim), stream_of(stream)>>>(call, first_row, ranges, parts);
  if (const LaunchCode code = after_launch(); code != kLaunched) return code;
  const auto total_bytes = static_cast<size_t>(call.head_dim) * sizeof(float);
  attend_merge_kernel<<<dim3(grid.x, grid.y), kThreads, total_bytes, stream_of(stream)>>>(call, first_row, ranges,
                                                                                          parts);
  return after_launch();
}

template <class Launch>
LaunchCode with_stored(KvNumbers stored, Launch launch) {
  switch (stored) {
    case KvNumbers::kF32:
      return launch(std::integral_constant<KvNumbers, KvNumbers::kF32>{});
    case KvNumbers::kF16:
      return launch(std::integral_constant<KvNumbers, KvNumbers::kF16>{});
    case KvNumbers::kBF16:
      return launch(std::integral_constant<KvNumbers, KvNumbers::kBF16>{});
    case KvNumbers::kE4M3:
      return launch(std::integral_constant<KvNumbers, KvNumbers::kE4M3>{});
    default:
      return launch(std::integral_constant<KvNumbers, KvNumbers::kE5M2>{});
  }
}

}  // namespace

LaunchCode attend_rows(const AttendCall& call, Stream stream) {
  if (call.rows.rows == 0) return kLaunched;
  return with_stored(call.keys.stored, [&](auto stored) {
    return call.fresh ? launch_rows<stored.value, true>(call, stream) : launch_rows<stored.value, false>(call, stream);
  });
}

LaunchCode attend_ranges(const AttendCall& call, int32_t first_row, int32_t end_row, int32_t ranges, float* parts,
                         Stream stream) {
  if (first_row == end_row) return kLaunched;
  return with_stored(call.keys.stored, [&](auto stored) {
    return call.fresh ? launch_ranges<stored.value, true>(call, first_row, end_row, ranges, parts, stream)
                      : launch_ranges<stored.value, false>(call, first_row, end_row, ranges, parts, stream);
  });
}

}  // namespace vernier::cuda
