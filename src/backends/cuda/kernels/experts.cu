#include <cuda_runtime.h>

#include <cmath>

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/launch.h"

namespace vernier::cuda {
namespace {

constexpr int kRouteThreads = 128;
constexpr int kPlaceThreads = 1024;

/// A score and whose it is; of equal ones the lower number wins.
struct Scored {
  float score;
  int32_t index;  // below 0: none
};

__device__ bool better(const Scored& a, const Scored& b) {
  if (a.index < 0 || b.index < 0) return b.index < 0 && a.index >= 0;
  return a.score > b.score || (a.score == b.score && a.index < b.index);
}

/// The best of all threads', in every thread.
__device__ Scored block_best(Scored own, Scored* scratch) {
  for (int step = kLanes / 2; step > 0; step /= 2) {
    const Scored other{__shfl_xor_sync(0xFFFFFFFFu, own.score, step), __shfl_xor_sync(0xFFFFFFFFu, own.index, step)};
    if (better(other, own)) own = other;
  }
  __syncthreads();
  if (threadIdx.x % kLanes == 0) scratch[threadIdx.x / kLanes] = own;
  __syncthreads();
  Scored best = scratch[0];
  for (int i = 1; i < kRouteThreads / kLanes; ++i) {
    if (better(scratch[i], best)) best = scratch[i];
  }
  return best;
}

/// One row's shared memory.
struct RouteMemory {
  float* scores;         // [experts] by which experts are chosen
  float* group_scores;   // [groups]
  int32_t* expert;       // [chosen]
  float* weight;         // [chosen]
  unsigned char* open;   // [experts] may still be chosen
  unsigned char* group;  // [groups] is chosen

  __device__ RouteMemory(float* memory, const RouteCall& call) {
    scores = memory;
    group_scores = scores + call.experts;
    weight = group_scores + call.groups;
    expert = reinterpret_cast<int32_t*>(weight + call.chosen);
    open = reinterpret_cast<unsigned char*>(expert + call.chosen);
    group = open + call.experts;
  }
};

/// What a row's logits are worth in sums.
struct Softmax {
  double largest = 0, sum = 0;
  bool nan = false;
};

__device__ Softmax softmax_of(const float* logits, int32_t experts, double* scratch) {
  double largest = -INFINITY, nans = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < experts; i += kRouteThreads) {
    const double logit = static_cast<double>(logits[i]);
    largest = logit > largest ? logit : largest;
    nans += isnan(logit) ? 1 : 0;
  }
  Softmax made;
  made.largest = block_all(largest, Most{}, scratch);
  made.nan = block_all(nans, Sum{}, scratch) > 0;
  double sum = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < experts; i += kRouteThreads) {
    sum += exp(static_cast<double>(logits[i]) - made.largest);
  }
  made.sum = block_all(sum, Sum{}, scratch);
  return made;
}

__device__ float choice_score(const RouteCall& call, const Softmax& all, float logit, int32_t expert) {
  float score = logit;
  if (!call.softmax) {
    score = 1.0f / (1.0f + expf(-logit));
  } else if (call.correction != nullptr) {
    score = static_cast<float>(exp(static_cast<double>(logit) - all.largest) / all.sum);
  }
  if (call.correction != nullptr) score += call.correction[expert];
  // A NaN compares with nothing: without this no expert might be found.
  return isnan(score) ? -INFINITY : score;
}

/// Which groups' experts may be chosen.
__device__ void choose_groups(const RouteCall& call, const RouteMemory& memory) {
  const int32_t size = call.experts / call.groups;
  for (int32_t g = static_cast<int32_t>(threadIdx.x); g < call.groups; g += kRouteThreads) {
    float best = -INFINITY, second = -INFINITY;
    for (int32_t i = g * size; i < (g + 1) * size; ++i) {
      const float score = memory.scores[i], less = score < best ? score : best;
      second = less > second ? less : second;
      best = score > best ? score : best;
    }
    memory.group_scores[g] = call.best_two && size > 1 ? best + second : best;
  }
  __syncthreads();
  for (int32_t g = static_cast<int32_t>(threadIdx.x); g < call.groups; g += kRouteThreads) {
    const float own = memory.group_scores[g];
    int32_t ahead = 0;
    for (int32_t other = 0; other < call.groups; ++other) {
      const float score = memory.group_scores[other];
      if (score > own || (score == own && other < g)) ++ahead;
    }
    memory.group[g] = ahead < call.chosen_groups ? 1 : 0;
  }
  __syncthreads();
}

/// From the chosen experts' logits to their weights, by one thread, and both in order of the experts' numbers.
__device__ void weigh(const RouteCall& call, const RouteMemory& memory, const Softmax& all, const float* logits,
                      int64_t row) {
  auto raw = [&](int32_t expert) {
    const double logit = static_cast<double>(logits[expert]);
    return call.softmax ? exp(logit - all.largest) : 1 / (1 + exp(-logit));
  };
  double sum = call.softmax ? all.sum : 1;
  if (call.normalize) {
    sum = call.softmax ? 0 : 1e-20;
    for (int32_t i = 0; i < call.chosen; ++i) sum += raw(memory.expert[i]);
  }
  if (all.nan) sum = NAN;  // no row loses its NaN by choosing around it
  for (int32_t i = 0; i < call.chosen; ++i) {
    const int32_t expert = memory.expert[i];
    int32_t at = 0;
    for (int32_t j = 0; j < call.chosen; ++j) at += memory.expert[j] < expert ? 1 : 0;
    call.expert_of[row * call.chosen + at] = expert;
    call.weight_of[row * call.chosen + at] = static_cast<float>(raw(expert) / sum * static_cast<double>(call.scale));
  }
}

__global__ void __launch_bounds__(kRouteThreads) route_kernel(const __grid_constant__ RouteCall call) {
  extern __shared__ float dynamic[];
  __shared__ double sums[kLanes];
  __shared__ Scored bests[kLanes];
  const RouteMemory memory(dynamic, call);
  start_next();
  await_previous();
  const int64_t row = blockIdx.x;
  const float* logits = call.logits + row * call.experts;
  const Softmax all = softmax_of(logits, call.experts, sums);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < call.experts; i += kRouteThreads) {
    memory.scores[i] = choice_score(call, all, logits[i], i);
  }
  __syncthreads();
  if (call.groups > 1) choose_groups(call, memory);
  const int32_t size = call.experts / call.groups;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < call.experts; i += kRouteThreads) {
    memory.open[i] = call.groups == 1 ? 1 : memory.group[i / size];
  }
  __syncthreads();
  for (int32_t round = 0; round < call.chosen; ++round) {
    Scored own{0, -1};
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < call.experts; i += kRouteThreads) {
      const Scored one{memory.scores[i], i};
      if (memory.open[i] != 0 && better(one, own)) own = one;
    }
    const Scored best = block_best(own, bests);
    if (threadIdx.x == 0) {
      memory.expert[round] = best.index;
      memory.open[best.index] = 0;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) weigh(call, memory, all, logits, row);
}

/// By one block: counts, then ends, then each choice takes a place. Which place of its expert a choice takes is of no
/// matter: places are computed apart, and a row finds its own.
__global__ void __launch_bounds__(kPlaceThreads) find_places_kernel(const __grid_constant__ PlacesCall call) {
  extern __shared__ int32_t next[];  // [experts]
  __shared__ int32_t active;
  start_next();
  await_previous();
  const int64_t thread = threadIdx.x;
  for (int64_t i = thread; i < call.experts; i += kPlaceThreads) next[i] = 0;
  __syncthreads();
  for (int64_t c = thread; c < call.choices; c += kPlaceThreads) atomicAdd(&next[call.expert_of[c]], 1);
  __syncthreads();
  if (thread == 0) {
    int32_t end = 0, found = 0;
    for (int32_t i = 0; i < call.experts; ++i) {
      const int32_t first = end;
      end += next[i];
      if (end > first && i < call.weighted) call.active[found++] = {i, first, end, 0};
      call.first[i] = next[i] = first;
    }
    call.first[call.experts] = end;
    active = found;
  }
  __syncthreads();
  for (int32_t i = static_cast<int32_t>(thread); i < call.most_active; i += kPlaceThreads) {
    if (i < active) {
      call.active[i].all = active;
    } else {
      call.active[i] = {-1, 0, 0, active};
    }
  }
  for (int64_t c = thread; c < call.choices; c += kPlaceThreads) {
    const int32_t place = atomicAdd(&next[call.expert_of[c]], 1);
    call.place_of[c] = place;
    call.row_at[place] = static_cast<int32_t>(c / call.chosen);
  }
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
  const auto shared = static_cast<size_t>(route_shared_bytes(call.experts, call.chosen, call.groups));
  return launch_early(route_kernel, dim3(row_blocks(call.rows)), kRouteThreads, shared, stream, call);
}

LaunchCode find_places(const PlacesCall& call, Stream stream) {
  if (call.choices == 0) return kLaunched;
  return launch_early(find_places_kernel, dim3(1), kPlaceThreads, static_cast<size_t>(call.experts) * 4, stream, call);
}

LaunchCode combine(const CombineCall& call, Stream stream) {
  if (call.rows == 0) return kLaunched;
  combine_kernel<<<row_blocks(call.rows), kRowThreads, 0, stream_of(stream)>>>(call);
  return after_launch();
}

}  // namespace vernier::cuda
