#pragma once

#include <cmath>

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/choose.h"

/// Which experts a row chooses, by a warp, and where each choice stands, by a block.
namespace vernier::cuda {

/// A score and whose it is; of equal ones the lower number wins.
struct Scored {
  float score;
  int32_t index;  // below 0: none
};

__device__ __forceinline__ bool better(const Scored& a, const Scored& b) {
  if (a.index < 0 || b.index < 0) return b.index < 0 && a.index >= 0;
  return a.score > b.score || (a.score == b.score && a.index < b.index);
}

template <class T, class Join>
__device__ __forceinline__ T warp_all(T value, Join join) {
  for (int step = kLanes / 2; step > 0; step /= 2) value = join(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
  return value;
}

/// The best of all lanes', in every lane.
__device__ __forceinline__ Scored warp_best(Scored own) {
  for (int step = kLanes / 2; step > 0; step /= 2) {
    const Scored other{__shfl_xor_sync(0xFFFFFFFFu, own.score, step), __shfl_xor_sync(0xFFFFFFFFu, own.index, step)};
    if (better(other, own)) own = other;
  }
  return own;
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

__device__ inline Softmax softmax_of(const float* logits, int32_t experts, int32_t lane) {
  double largest = -INFINITY;
  bool nan = false;
  for (int32_t i = lane; i < experts; i += kLanes) {
    const auto logit = static_cast<double>(logits[i]);
    largest = logit > largest ? logit : largest;
    nan = nan || isnan(logit);
  }
  Softmax made;
  made.largest = warp_all(largest, Most{});
  made.nan = __any_sync(0xFFFFFFFFu, nan);
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
  const Softmax all = softmax_of(logits, call.experts, lane);
  for (int32_t i = lane; i < call.experts; i += kLanes) memory.scores[i] = choice_score(call, all, logits[i], i);
  __syncwarp();
  if (call.groups > 1) choose_groups(call, memory, lane);
  const int32_t size = call.experts / call.groups;
  for (int32_t i = lane; i < call.experts; i += kLanes) memory.open[i] = call.groups == 1 ? 1 : memory.group[i / size];
  for (int32_t round = 0; round < call.chosen; ++round) {
    Scored own{0, -1};
    for (int32_t i = lane; i < call.experts; i += kLanes) {
      const Scored one{memory.scores[i], i};
      if (memory.open[i] != 0 && better(one, own)) own = one;
    }
    const Scored best = warp_best(own);
    if (lane == best.index % kLanes) {
      memory.expert[round] = best.index;
      memory.open[best.index] = 0;
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
