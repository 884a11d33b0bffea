#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/kv_numbers.cuh"
#include "backends/cuda/kernels/tile_numbers.cuh"
#include "backends/cuda/kernels/visible.cuh"

namespace vernier::cuda {

inline constexpr int kTileWarps = 8;
inline constexpr int kTileThreads = kTileWarps * kLanes;
inline constexpr int kLeafKeys = kRangeKeys / kTileWarps;  ///< of a warp: four tiles of eight
/// Powers lie below 2^kLift, so that the second part of a small one is still a float16.
inline constexpr float kLift = 10;

/// 2^e of a whole e that is at most 0; what is too small for a float is 0.
__device__ __forceinline__ float two_to(float e) {
  return e > -127.0f ? float_of(static_cast<uint32_t>(static_cast<int32_t>(e) + 127) << 23) : 0.0f;
}
/// The whole exponent that stands for a largest score; what has none but -infinity keeps a number.
__device__ __forceinline__ float exponent_of(float most) {
  return most == -INFINITY ? -kLift : ceilf(most * 1.44269504f) - kLift;
}
/// e^score / 2^exponent.
__device__ __forceinline__ float power(float score, float exponent) {
  return exp2f(fmaf(score, 1.92596299e-8f, fmaf(score, 1.44269502f, -exponent)));
}

/// A softmax over some keys, of one number: the exponent its powers are against, their sum, and the sum of powers times
/// values. Factors are powers of two, so that joining rounds as adding does.
struct SoftmaxSum {
  float exponent = -INFINITY;
  float powers = 0;
  float values = 0;

  __device__ __forceinline__ void join(float other_exponent, float other_powers, float other_values) {
    const float all = exponent > other_exponent ? exponent : other_exponent;
    const float mine = two_to(exponent - all), other = two_to(other_exponent - all);
    powers = powers * mine + other_powers * other;
    values = values * mine + other_values * other;
    exponent = all;
  }
  __device__ __forceinline__ void join(const SoftmaxSum& other) { join(other.exponent, other.powers, other.values); }
};

/// How lanes share a head's numbers. Lane 4 g + t of a warp loads a run of key g's numbers, the t-th of four, and a run
/// of the numbers of four keys, the g-th of eight: products may take dimensions in any order, so no layout is changed.
template <KvNumbers S, int kDim>
struct TileShape {
  static constexpr int kBytes = kv_number_bytes(S);
  static constexpr bool kBF16 = enters_as_bf16(S);
  static constexpr int kKeyRun = kBytes == 1 && kDim % 64 == 0 ? 16 : 8;
  static constexpr int kKeyWords = kKeyRun * kBytes / 4;
  static constexpr int kKeyChunks = kDim / (4 * kKeyRun);
  static constexpr int kSteps = kDim / 16;  // of a product over a head's numbers
  static constexpr int kValueRun = kDim % 64 == 0 ? 8 : 4;
  static constexpr int kValueWords = kValueRun * kBytes / 4;
  static constexpr int kValueChunks = kDim / (8 * kValueRun);
  static constexpr int kOwn = kTileHeads * kDim / kTileThreads;  // numbers of all heads that a thread adds up
};

template <KvNumbers S, int kDim>
struct TileMemory {
  uint4 query[TileShape<S, kDim>::kSteps][kLanes];                                       // as a product takes it
  uint2 query_rest[TileShape<S, kDim>::kBF16 ? TileShape<S, kDim>::kSteps : 1][kLanes];  // third parts
  float query_factor[kTileHeads];
  float exponent[kTileWarps][kTileHeads];
  float powers[kTileWarps][kTileHeads];
  uint32_t arrived;
};

/// A row and query heads that share a KV head.
template <KvNumbers S, int kDim>
struct TileRow {
  using Shape = TileShape<S, kDim>;
  const AttendTilesCall& call;
  TileMemory<S, kDim>& memory;
  float* numbers;  // [warps, heads, kDim] in shared memory
  int64_t row;
  int32_t kv_head, first_head, heads;
  Visible visible;
  int32_t lane, warp;
  uint32_t keys[4][Shape::kKeyChunks][Shape::kKeyWords];
  using Values = uint32_t[2][4][Shape::kValueWords];
  Values values;       // the first numbers of the leaf's
  int64_t place = -1;  // of the lane's key; below 0: not seen
  const int32_t* blocks;
  int32_t first_block_position, first_new;  // positions from there on are of this step

  __device__ TileRow(const AttendTilesCall& of, TileMemory<S, kDim>& shared, float* more)
      : call(of),
        memory(shared),
        numbers(more),
        row(int64_t{of.first_row} + blockIdx.x),
        visible(of.of, row),
        lane(static_cast<int32_t>(threadIdx.x % kLanes)),
        warp(static_cast<int32_t>(threadIdx.x / kLanes)) {
    const int32_t group = of.of.heads / of.of.kv_heads, tiles = (group + kTileHeads - 1) / kTileHeads;
    const int32_t at = static_cast<int32_t>(blockIdx.y), first = at % tiles * kTileHeads;
    kv_head = at / tiles;
    first_head = kv_head * group + first;
    heads = min(kTileHeads, group - first);
    blocks = of.of.table.blocks + of.of.table.begin[visible.sequence];
    first_block_position = of.of.table.first_position[visible.sequence];
    first_new = of.of.rows.first_position[visible.sequence];
  }

  __device__ int32_t leaf(int32_t range) const { return range * kRangeKeys + warp * kLeafKeys; }
  __device__ int64_t find_place(int32_t range) const {
    const int32_t position = leaf(range) + lane, each = call.of.table.block_tokens;
    if (position < visible.begin || position >= visible.end) return -1;
    const int32_t before = position - first_block_position, block = before / each;
    const int32_t token = before - block * each;  // the first position is a multiple of a block
    return ((int64_t{blocks[block]} * call.of.kv_heads + kv_head) * each + token) * kDim;
  }

  /// Asks for the lane's key and value as far as the second level of cache.
  __device__ void prefetch(int64_t at, bool key_too) const {
    if (at < 0) return;
#pragma unroll
    for (int i = 0; i < kDim * Shape::kBytes; i += 128) {
      if (key_too) asm volatile("prefetch.global.L2 [%0];" ::"l"(call.of.keys.codes + at * Shape::kBytes + i));
      asm volatile("prefetch.global.L2 [%0];" ::"l"(call.of.values.codes + at * Shape::kBytes + i));
    }
  }

  /// Of a leaf, keys and their first values before a position or from it on; `clear`: the others become 0.
  __device__ void load(int32_t range, int32_t from, int32_t to, bool clear) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int64_t at = __shfl_sync(0xFFFFFFFFu, place, 8 * n + lane / 4);
      const int32_t position = leaf(range) + 8 * n + lane / 4;
      const bool wanted = at >= 0 && position >= from && position < to;
#pragma unroll
      for (int c = 0; c < Shape::kKeyChunks; ++c) {
#pragma unroll
        for (int i = 0; i < Shape::kKeyWords; ++i) keys[n][c][i] = clear ? 0 : keys[n][c][i];
        if (wanted) {
          load_words(call.of.keys.codes + (at + (4 * c + lane % 4) * Shape::kKeyRun) * Shape::kBytes, keys[n][c]);
        }
      }
    }
    load_values(range, 0, from, to, clear, values);
  }
  __device__ void load_values(int32_t range, int chunk, int32_t from, int32_t to, bool clear, Values& into) const {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int32_t key = 16 * step + k / 2 * 8 + lane % 4 * 2 + k % 2, position = leaf(range) + key;
        const int64_t at = __shfl_sync(0xFFFFFFFFu, place, key);
#pragma unroll
        for (int i = 0; i < Shape::kValueWords; ++i) into[step][k][i] = clear ? 0 : into[step][k][i];
        if (at >= 0 && position >= from && position < to) {
          load_words(call.of.values.codes + (at + (8 * chunk + lane / 4) * Shape::kValueRun) * Shape::kBytes,
                     into[step][k]);
        }
      }
    }
  }

  /// Each warp one head's query, as parts in the order in which a product takes them.
  __device__ void place_query() {
    const float* q = call.of.q.data + row * call.of.q.stride + int64_t{first_head + warp} * kDim;
    float most = 0, own[kDim / kLanes];
#pragma unroll
    for (int i = 0; i < kDim / kLanes; ++i) {
      own[i] = warp < heads ? q[lane + kLanes * i] : 0.0f;
      most = fmaxf(most, fabsf(own[i]));
    }
    for (int step = kLanes / 2; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, step));
    // The largest into [2^13, 2^14), so that the parts of small ones are float16 numbers; a power of two changes no
    // bit.
    int32_t shift = 0;
    if (!Shape::kBF16 && most > 0x1p-100f && most < 0x1p100f) {
      shift = 13 - (static_cast<int32_t>(bits_of(most) >> 23) - 127);
    }
    auto* words = reinterpret_cast<uint16_t*>(memory.query);
    auto* rest = reinterpret_cast<uint16_t*>(memory.query_rest);
#pragma unroll
    for (int i = 0; i < kDim / kLanes; ++i) {
      const int32_t d = lane + kLanes * i, run = Shape::kKeyRun;
      const int32_t step = d / (4 * run) * (run / 4) + d % run / 4, of_lane = warp * 4 + d % (4 * run) / run;
      const int32_t at = ((step * kLanes + of_lane) * 4 + d % 4 / 2 * 2) * 2 + d % 2;
      float left = own[i] * power_of_two(shift);
      words[at] = static_cast<uint16_t>(take_part<Shape::kBF16>(left));
      words[at + 2] = static_cast<uint16_t>(take_part<Shape::kBF16>(left));
      if (Shape::kBF16) {
        rest[((step * kLanes + of_lane) * 2 + d % 4 / 2) * 2 + d % 2] =
            static_cast<uint16_t>(take_part<Shape::kBF16>(left));
      }
    }
    if (lane == 0) memory.query_factor[warp] = power_of_two(-shift);
  }

  /// q k of the loaded keys: of head g, keys 8 n + 2 t and the next.
  __device__ void dot_keys(float (&scores)[4][2]) const {
    float sums[4][4] = {};
#pragma unroll
    for (int c = 0; c < Shape::kKeyChunks; ++c) {
#pragma unroll
      for (int quarter = 0; quarter < Shape::kKeyRun / 4; ++quarter) {
        const int step = c * (Shape::kKeyRun / 4) + quarter;
        const uint4 q = memory.query[step][lane];
        const uint32_t parts[4] = {q.x, q.y, q.z, q.w};
        uint32_t rest[4] = {};
        if constexpr (Shape::kBF16) {
          rest[0] = memory.query_rest[step][lane].x;
          rest[2] = memory.query_rest[step][lane].y;
        }
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          uint32_t b0, b1;
          four_of_row<S>(keys[n][c], quarter, b0, b1);
          multiply_tiles<Shape::kBF16>(sums[n], parts, b0, b1);
          if constexpr (Shape::kBF16) multiply_tiles<Shape::kBF16>(sums[n], rest, b0, b1);
        }
      }
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      scores[n][0] = sums[n][0] + sums[n][2];
      scores[n][1] = sums[n][1] + sums[n][3];
    }
  }

  /// From scores to powers; their exponent and sum to shared memory.
  __device__ void take_softmax(int32_t range, float (&scores)[4][2]) const {
    const int32_t g = lane / 4, first = leaf(range) + lane % 4 * 2;
    const float factor = memory.query_factor[g], scale = call.of.scale * call.of.keys.scales[kv_head];
    float most = -INFINITY;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float score = scores[n][i] * factor * scale;
        if (call.of.soft_cap > 0) score = call.of.soft_cap * tanhf(score / call.of.soft_cap);
        const int32_t position = first + 8 * n + i;
        if (position < visible.begin || position >= visible.end) score = -INFINITY;
        most = fmaxf(most, score);
        scores[n][i] = score;
      }
    }
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 2));
    const float exponent = exponent_of(most);
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        scores[n][i] = power(scores[n][i], exponent);
        sum += scores[n][i];
      }
    }
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    if (lane % 4 == 0) {
      memory.exponent[warp][g] = exponent;
      memory.powers[warp][g] = sum;
    }
  }

  /// Powers times values, to shared memory.
  __device__ void mix(int chunk, const uint32_t (&powers)[2][4], const uint32_t (&rest)[2][4], const Values& of) const {
    float sums[Shape::kValueRun][4] = {};
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int j = 0; j < Shape::kValueRun; ++j) {
        const uint32_t b0 = two_of_rows<S>(of[step][0], of[step][1], j);
        const uint32_t b1 = two_of_rows<S>(of[step][2], of[step][3], j);
        multiply_tiles<Shape::kBF16>(sums[j], powers[step], b0, b1);
        if constexpr (Shape::kBF16) multiply_tiles<Shape::kBF16>(sums[j], rest[step], b0, b1);
      }
    }
    const int32_t g = lane / 4;
    if (g >= heads) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float* to = numbers + (warp * heads + g) * kDim + (8 * chunk + lane % 4 * 2 + i) * Shape::kValueRun;
#pragma unroll
      for (int j = 0; j < Shape::kValueRun; j += 4) {
        *reinterpret_cast<float4*>(to + j) =
            make_float4(sums[j][i] + sums[j][i + 2], sums[j + 1][i] + sums[j + 1][i + 2],
                        sums[j + 2][i] + sums[j + 2][i + 2], sums[j + 3][i] + sums[j + 3][i + 2]);
      }
    }
  }

  /// The warp's leaf of a range, whose keys are loaded: its softmax and mixed values, to shared memory.
  __device__ void attend_leaf(int32_t range) const {
    if (__ballot_sync(0xFFFFFFFFu, place >= 0) == 0) {
      if (lane < kTileHeads) memory.exponent[warp][lane] = -INFINITY;
      return;
    }
    float scores[4][2];
    dot_keys(scores);
    // What keys took is free for more values.
    Values more[2];
    if constexpr (Shape::kValueChunks > 1) load_values(range, 1, 0, INT32_MAX, true, more[1]);
    take_softmax(range, scores);
    uint32_t powers[2][4], rest[2][4] = {};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      powers[n / 2][n % 2 * 2] = take_parts<Shape::kBF16>(scores[n][0], scores[n][1]);
      powers[n / 2][n % 2 * 2 + 1] = take_parts<Shape::kBF16>(scores[n][0], scores[n][1]);
      if constexpr (Shape::kBF16) rest[n / 2][n % 2 * 2] = take_parts<Shape::kBF16>(scores[n][0], scores[n][1]);
    }
#pragma unroll
    for (int chunk = 0; chunk < Shape::kValueChunks; ++chunk) {
      if (chunk == 0) {
        mix(chunk, powers, rest, values);
      } else {
        mix(chunk, powers, rest, more[chunk % 2]);
      }
      if (chunk + 2 < Shape::kValueChunks) load_values(range, chunk + 2, 0, INT32_MAX, true, more[chunk % 2]);
    }
  }

  __device__ bool owns(int i) const {
    return static_cast<int32_t>(threadIdx.x) + kTileThreads * i < heads * kDim;
  }
  __device__ int32_t own_number(int i) const {
    return static_cast<int32_t>(threadIdx.x) + kTileThreads * i;
  }

  /// The leaves of a range, in their order, for one of the thread's own numbers.
  __device__ SoftmaxSum range_sum(int i) const {
    SoftmaxSum sum;
    const int32_t number = own_number(i), head = number / kDim;
    for (int32_t of = 0; of < kTileWarps; ++of) {
      if (memory.exponent[of][head] == -INFINITY) continue;  // its numbers were not written
      sum.join(memory.exponent[of][head], memory.powers[of][head], numbers[of * heads * kDim + number]);
    }
    return sum;
  }

  /// The last step of a row: a sink joins once, and what was summed is divided.
  __device__ void finish(int i, SoftmaxSum all) const {
    const int32_t number = own_number(i), head = first_head + number / kDim;
    if (call.of.sinks != nullptr) {
      const float sink = call.of.sinks[head], exponent = exponent_of(sink);
      all.join(exponent, power(sink, exponent), 0.0f);
    }
    call.of.out.data[row * call.of.out.stride + int64_t{head} * kDim + number % kDim] =
        all.values / all.powers * call.of.values.scales[kv_head];
  }

  // ---- ranges side by side ----

  /// A part's numbers: exponent, powers, values [kDim]. Behind a row's ranges come its spans.
  __device__ float* part(int i, int32_t at) const {
    const int32_t each = call.ranges + tile_spans(call.ranges);
    return call.parts +
           ((int64_t{blockIdx.x} * call.of.heads + first_head + own_number(i) / kDim) * each + at) * (kDim + 2);
  }
  __device__ void put(int i, int32_t at, const SoftmaxSum& sum) const {
    float* to = part(i, at);
    const int32_t dim = own_number(i) % kDim;
    if (dim == 0) to[0] = sum.exponent, to[1] = sum.powers;
    to[2 + dim] = sum.values;
  }
  __device__ SoftmaxSum get(int i, int32_t at) const {
    const float* from = part(i, at);
    return {__ldcg(from), __ldcg(from + 1), __ldcg(from + 2 + own_number(i) % kDim)};
  }
  /// Whether this block is the last of `count` that come here; it then sees what the others put.
  __device__ bool is_last(int32_t counter, int32_t count) const {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      uint32_t* at =
          call.arrived + (int64_t{blockIdx.x} * gridDim.y + blockIdx.y) * (tile_spans(call.ranges) + 1) + counter;
      memory.arrived = atomicInc(at, static_cast<uint32_t>(count - 1));  // and 0 again after the last
    }
    __syncthreads();
    __threadfence();
    return memory.arrived == static_cast<uint32_t>(count - 1);
  }

  /// This block's ranges have been put: joins those of a span, and all spans, where it is the last to come.
  __device__ void join_parts(int32_t span) const {
    const int32_t first = visible.first_range(), end = visible.end_range(), first_span = first / kSpanRanges;
    const int32_t spans = (end - 1) / kSpanRanges - first_span + 1;
    const int32_t from = max(first, span * kSpanRanges), to = min(end, (span + 1) * kSpanRanges);
    if (!is_last(span - first_span, (to - 1) / call.each - from / call.each + 1)) return;
    for (int i = 0; i < Shape::kOwn; ++i) {
      if (!owns(i)) continue;
      SoftmaxSum sum, all;
      for (int32_t of = from; of < to; ++of) sum.join(get(i, of - first));
      if (spans > 1) {
        put(i, call.ranges + span - first_span, sum);
      } else {
        all.join(sum);
        finish(i, all);
      }
    }
    if (spans == 1 || !is_last(tile_spans(call.ranges), spans)) return;
    for (int i = 0; i < Shape::kOwn; ++i) {
      if (!owns(i)) continue;
      SoftmaxSum all;
#pragma unroll 4
      for (int32_t of = 0; of < spans; ++of) all.join(get(i, call.ranges + of));
      finish(i, all);
    }
  }

  /// Ranges one after another, the first of which is loaded; what `take(range)` does sees a range's sums.
  template <class Take>
  __device__ void walk(int32_t range, int32_t end, Take take) {
    int64_t next = range + 1 < end ? find_place(range + 1) : -1;
    for (; range < end; ++range) {
      // A range ahead: what is loaded next is then on its way from far memory for as long as this one takes.
      prefetch(next, true);
      const int64_t after = range + 2 < end ? find_place(range + 2) : -1;
      attend_leaf(range);
      place = next;
      next = after;
      if (range + 1 < end) load(range + 1, 0, INT32_MAX, true);
      __syncthreads();
      take(range);
      if (range + 1 < end) __syncthreads();  // shared memory is used again
    }
  }

  /// All of a row's.
  __device__ void walk_row() {
    SoftmaxSum span[Shape::kOwn], all[Shape::kOwn];
    const int32_t end = visible.end_range();
    walk(visible.first_range(), end, [&](int32_t range) {
      const bool span_ends = range + 1 == end || (range + 1) % kSpanRanges == 0;
#pragma unroll
      for (int i = 0; i < Shape::kOwn; ++i) {
        if (!owns(i)) continue;
        span[i].join(range_sum(i));
        if (!span_ends) continue;
        all[i].join(span[i]);
        span[i] = SoftmaxSum();
      }
    });
#pragma unroll
    for (int i = 0; i < Shape::kOwn; ++i) {
      if (owns(i)) finish(i, all[i]);
    }
  }

  /// Those of one block among several.
  __device__ void walk_part(int32_t begin, int32_t end) {
    const int32_t first = visible.first_range();
    walk(begin, end, [&](int32_t range) {
      for (int i = 0; i < Shape::kOwn; ++i) {
        if (owns(i)) put(i, range - first, range_sum(i));
      }
    });
    join_parts(begin / kSpanRanges);
  }
};

/// Two blocks a processor where what a thread has on its way fits half of its registers.
template <KvNumbers S, int kDim>
constexpr int tile_blocks() {
  return kDim * kv_number_bytes(S) <= 128 ? 2 : 1;
}

template <KvNumbers S, int kDim>
__global__ void __launch_bounds__(kTileThreads, tile_blocks<S, kDim>())
    attend_tiles_kernel(const __grid_constant__ AttendTilesCall call) {
  extern __shared__ float4 numbers[];
  __shared__ TileMemory<S, kDim> memory;
  start_next();
  TileRow<S, kDim> of(call, memory, reinterpret_cast<float*>(numbers));
  int32_t begin = of.visible.first_range(), end = of.visible.end_range();
  if (call.ranges > 0) {
    const int32_t part = begin / call.each + static_cast<int32_t>(blockIdx.z);
    begin = max(begin, part * call.each);
    end = min(end, (part + 1) * call.each);
  }
  if (begin >= end) return;
  of.place = of.find_place(begin);
  if (TileShape<S, kDim>::kValueChunks > 1) of.prefetch(of.place, false);
  // Keys of earlier steps are there; those of this one were written by the kernel before.
  of.load(begin, 0, of.first_new, true);
  await_previous();
  if ((end - 1) * kRangeKeys + kRangeKeys > of.first_new) of.load(begin, of.first_new, INT32_MAX, false);
  of.place_query();
  __syncthreads();
  if (call.ranges == 0) return of.walk_row();
  of.walk_part(begin, end);
}

template <KvNumbers S, int kDim>
LaunchCode launch_tiles(const AttendTilesCall& call, Stream stream) {
  const int32_t group = call.of.heads / call.of.kv_heads;
  const dim3 grid(row_blocks(call.end_row - call.first_row),
                  static_cast<unsigned>(tile_groups(call.of.heads, call.of.kv_heads)),
                  static_cast<unsigned>(call.ranges == 0 ? 1 : tile_parts(call.ranges, call.each)));
  const size_t shared =
      size_t{kTileWarps} * kDim * sizeof(float) * static_cast<size_t>(group < kTileHeads ? group : kTileHeads);
  if (shared + sizeof(TileMemory<S, kDim>) > 48 * 1024) {
    const cudaError_t error = cudaFuncSetAttribute(
        attend_tiles_kernel<S, kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    if (error != cudaSuccess) return static_cast<LaunchCode>(error);
  }
  return launch_early(attend_tiles_kernel<S, kDim>, grid, kTileThreads, shared, stream, call);
}

/// All widths of heads for one stored type.
template <KvNumbers S>
LaunchCode launch_attend_tiles(const AttendTilesCall& call, Stream stream) {
  switch (call.of.head_dim) {
    case 32:
      return launch_tiles<S, 32>(call, stream);
    case 64:
      return launch_tiles<S, 64>(call, stream);
    case 96:
      return launch_tiles<S, 96>(call, stream);
    case 128:
      return launch_tiles<S, 128>(call, stream);
    case 192:
      return launch_tiles<S, 192>(call, stream);
    default:
      return launch_tiles<S, 256>(call, stream);
  }
}

}  // namespace vernier::cuda
