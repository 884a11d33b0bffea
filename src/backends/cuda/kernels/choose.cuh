#pragma once

#include <cmath>

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/choose.h"

/// Which experts a row chooses, by a warp, and where each choice stands, by a block.
namespace vernier::cuda {

/// Larger for a larger number, the same for both zeros, and 0 for none.
__device__ __forceinline__ uint32_t ordered(float number) {
  const auto bits = __float_as_uint(number + 0.0f);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

template <class T, class Join>
__device__ __forceinline__ T warp_all(T value, Join join) {
  for (int step = kLanes / 2; step > 0; step /= 2) value = join(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
  return value;
}

/// One row's shared memory.
struct RouteMemory {
  float* scores;         // [experts] by which experts are chosen
  float* group_scores;   // [groups]
  int32_t* expert;       // [chosen]
  unsigned char* open;   // [experts] may still be chosen
  unsigned char* group;  // [groups] is chosen

  __device__ RouteMemory(unsigned char* memory, const RouteCall& call) {
    scores = reinterpret_cast<float*>(memory);
    group_scores = scores + call.experts;
    expert = reinterpret_cast<int32_t*>(group_scores + call.groups);
    open = reinterpret_cast<unsigned char*>(expert + call.chosen);
    group = open + call.experts;
  }
};

/// What a row's logits are worth in sums.
struct Softmax {
  double largest = 0, sum = 0;
  bool nan = false;
};

/// Its sum only where that is asked for.
__device__ inline Softmax softmax_of(const float* logits, int32_t experts, bool summed, int32_t lane) {
  float largest = -INFINITY;
  bool nan = false;
  for (int32_t i = lane; i < experts; i += kLanes) {
    largest = logits[i] > largest ? logits[i] : largest;
    nan = nan || isnan(logits[i]);
  }
  Softmax made;
  made.largest = static_cast<double>(warp_all(largest, Most{}));
  made.nan = __any_sync(0xFFFFFFFFu, nan);
  if (!summed) return made;
  double sum = 0;
  for (int32_t i = lane; i < experts; i += kLanes) sum += exp(static_cast<double>(logits[i]) - made.largest);
  made.sum = warp_all(sum, Sum{});
  return made;
}

__device__ inline float choice_score(const RouteCall& call, const Softmax& all, float logit, int32_t expert) {
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
__device__ inline void choose_groups(const RouteCall& call, const RouteMemory& memory, int32_t lane) {
  const int32_t size = call.experts / call.groups;
  for (int32_t g = lane; g < call.groups; g += kLanes) {
    float best = -INFINITY, second = -INFINITY;
    for (int32_t i = g * size; i < (g + 1) * size; ++i) {
      const float score = memory.scores[i], less = score < best ? score : best;
      second = less > second ? less : second;
      best = score > best ? score : best;
    }
    memory.group_scores[g] = call.best_two && size > 1 ? best + second : best;
  }
  __syncwarp();
  for (int32_t g = lane; g < call.groups; g += kLanes) {
    const float own = memory.group_scores[g];
    int32_t ahead = 0;
    for (int32_t other = 0; other < call.groups; ++other) {
      const float score = memory.group_scores[other];
      if (score > own || (score == own && other < g)) ++ahead;
    }
    memory.group[g] = ahead < call.chosen_groups ? 1 : 0;
  }
  __syncwarp();
}

/// From the chosen experts' logits to their weights, in order of the experts' numbers.
__device__ inline void weigh(const RouteCall& call, const RouteMemory& memory, const Softmax& all, const float* logits,
                             int64_t row, int32_t lane) {
  const auto raw = [&](int32_t i) {
    if (i >= call.chosen) return 0.0;
    const auto logit = static_cast<double>(logits[memory.expert[i]]);
    return call.softmax ? exp(logit - all.largest) : 1 / (1 + exp(-logit));
  };
  double sum = call.softmax ? all.sum : 1;
  if (call.normalize) {
    sum = call.softmax ? 0 : 1e-20;
    for (int32_t first = 0; first < call.chosen; first += kLanes) {
      const double own = raw(first + lane);
      for (int32_t i = 0; i < kLanes && first + i < call.chosen; ++i) sum += __shfl_sync(0xFFFFFFFFu, own, i);
    }
  }
  if (all.nan) sum = NAN;  // no row loses its NaN by choosing around it
  for (int32_t i = lane; i < call.chosen; i += kLanes) {
    const int32_t expert = memory.expert[i];
    int32_t at = 0;
    for (int32_t j = 0; j < call.chosen; ++j) at += memory.expert[j] < expert ? 1 : 0;
    call.expert_of[row * call.chosen + at] = expert;
    call.weight_of[row * call.chosen + at] = static_cast<float>(raw(i) / sum * static_cast<double>(call.scale));
  }
}

/// By a warp, with route_shared_bytes of shared memory.
__device__ inline void route_row(const RouteCall& call, const float* logits, unsigned char* shared, int64_t row) {
  const RouteMemory memory(shared, call);
  const auto lane = static_cast<int32_t>(threadIdx.x % kLanes);
  const Softmax all = softmax_of(logits, call.experts, call.softmax && (!call.normalize || call.correction != nullptr), lane);
  for (int32_t i = lane; i < call.experts; i += kLanes) memory.scores[i] = choice_score(call, all, logits[i], i);
  __syncwarp();
  if (call.groups > 1) choose_groups(call, memory, lane);
  const int32_t size = call.experts / call.groups;
  for (int32_t i = lane; i < call.experts; i += kLanes) memory.open[i] = call.groups == 1 ? 1 : memory.group[i / size];
  for (int32_t round = 0; round < call.chosen; ++round) {
    uint32_t own = 0;  // of equal ones the lower number wins
    int32_t index = call.experts;
    for (int32_t i = lane; i < call.experts; i += kLanes) {
      const uint32_t score = memory.open[i] != 0 ? ordered(memory.scores[i]) : 0;
      if (score > own) own = score, index = i;
    }
    const uint32_t most = __reduce_max_sync(0xFFFFFFFFu, own);
    const int32_t best = __reduce_min_sync(0xFFFFFFFFu, own == most ? index : call.experts);
    if (lane == best % kLanes) {
      memory.expert[round] = best;
      memory.open[best] = 0;
    }
  }
  __syncwarp();
  weigh(call, memory, all, logits, row, lane);
  __syncwarp();
}

/// By one block: counts, then ends, then each choice takes a place. Which place of its expert a choice takes is of no
/// matter: places are computed apart, and a row finds its own. `next` has a place for each expert.
__device__ inline void place_choices(const PlacesCall& call, int32_t* next) {
  __shared__ int32_t active;
  const auto thread = static_cast<int32_t>(threadIdx.x), threads = static_cast<int32_t>(blockDim.x);
  for (int32_t i = thread; i < call.experts; i += threads) next[i] = 0;
  __syncthreads();
  for (int64_t c = thread; c < call.choices; c += threads) atomicAdd(&next[call.expert_of[c]], 1);
  __syncthreads();
  if (thread < kLanes) {
    int32_t before = 0, found = 0;
    for (int32_t base = 0; base < call.experts; base += kLanes) {
      const int32_t expert = base + thread, count = expert < call.experts ? next[expert] : 0;
      int32_t end = count;
      for (int step = 1; step < kLanes; step *= 2) {
        const int32_t lower = __shfl_up_sync(0xFFFFFFFFu, end, step);
        end += thread >= step ? lower : 0;
      }
      end += before;
      const bool chosen = count > 0 && expert < call.weighted;
      const uint32_t all = __ballot_sync(0xFFFFFFFFu, chosen);
      if (chosen) {
        const int32_t at = found + __popc(all & ((1u << thread) - 1));
        call.active[at] = {expert, end - count, end, 0};
      }
      if (expert < call.experts) call.first[expert] = next[expert] = end - count;
      found += __popc(all);
      before = __shfl_sync(0xFFFFFFFFu, end, kLanes - 1);
    }
    if (thread == 0) {
      call.first[call.experts] = before;
      active = found;
    }
  }
  __syncthreads();
  for (int32_t i = thread; i < call.most_active; i += threads) {
    if (i < active) {
      call.active[i].all = active;
    } else {
      call.active[i] = {-1, 0, 0, active};
    }
  }
  for (int64_t c = thread; c < call.choices; c += threads) {
    const int32_t place = atomicAdd(&next[call.expert_of[c]], 1);
    call.place_of[c] = place;
    call.row_at[place] = static_cast<int32_t>(c / call.chosen);
  }
}

}  // namespace vernier::cuda
