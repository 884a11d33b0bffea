#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/kv_numbers.cuh"
#include "backends/cuda/kernels/tensor_ops.cuh"
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
  // What is less than a float's smallest normal number is 0.
  float made;
  asm("ex2.approx.ftz.f32 %0, %1;"
      : "=f"(made)
      : "f"(fmaf(score, 1.92596299e-8f, fmaf(score, 1.44269502f, -exponent))));
  return made;
}

/// A softmax over some keys, of a head's kOwn numbers: the exponent its powers are against, their sum, and the sums of
/// powers times values. Factors are powers of two, so that joining rounds as adding does.
template <int kOwn>
struct SoftmaxSum {
  float exponent = -INFINITY;
  float powers = 0;
  float values[kOwn] = {};

  __device__ __forceinline__ void join(const SoftmaxSum& other) {
    const float all = exponent > other.exponent ? exponent : other.exponent;
    const float mine = two_to(exponent - all), others = two_to(other.exponent - all);
    powers = powers * mine + other.powers * others;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) values[i] = values[i] * mine + other.values[i] * others;
    exponent = all;
  }
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
  static constexpr int kOwn = kDim / kLanes;  // numbers of a head that a lane adds up; a warp has a head
  /// Leaves of one-byte numbers go through shared memory, so many on their way at once; others through registers.
  static constexpr int kStages = kBytes == 1 && (kDim == 64 || kDim == 128) ? 1 : 0;
  static constexpr int kLeafBytes = kLeafKeys * kDim * kBytes;  // of keys, and of values behind them
  static constexpr int kRingBytes = kStages * kTileWarps * 2 * kLeafBytes;
};

/// Where a row's pieces of 16 bytes lie, so that those that read at once find banks of their own.
template <int kDim>
__device__ __forceinline__ int key_piece(int key, int piece) {
  return key * kDim + (kDim == 128 ? piece ^ key % 2 * 4 : piece) * 16;
}
template <int kDim>
__device__ __forceinline__ int value_piece(int key, int piece) {
  return key * kDim + (piece ^ key / 2 % (kDim / 32) * 2) * 16;
}

template <KvNumbers S, int kDim>
struct TileMemory {
  uint4 query[TileShape<S, kDim>::kSteps][kLanes];                                       // as a product takes it
  uint2 query_rest[TileShape<S, kDim>::kBF16 ? TileShape<S, kDim>::kSteps : 1][kLanes];  // third parts
  float query_factor[kTileHeads];
  float most[kTileWarps][kTileHeads];    // scores of a leaf
  float powers[kTileWarps][kTileHeads];  // their sum
  float exponent[kTileHeads];            // of the range
  uint32_t arrived;
};

/// A row and query heads that share a KV head.
template <KvNumbers S, int kDim>
struct TileRow {
  using Shape = TileShape<S, kDim>;
  using Sum = SoftmaxSum<Shape::kOwn>;
  const AttendTilesCall& call;
  TileMemory<S, kDim>& memory;
  float* numbers;  // [warps, heads, kDim] in shared memory
  uint32_t ring;   // of the warp
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
  float key_scale;

  __device__ TileRow(const AttendTilesCall& of, TileMemory<S, kDim>& shared, float* more)
      : call(of),
        memory(shared),
        numbers(more + Shape::kRingBytes / 4),
        ring(shared_address(more) + threadIdx.x / kLanes * (2 * Shape::kLeafBytes)),
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
    key_scale = of.of.scale * of.of.keys.scales[kv_head];
  }

  __device__ int32_t leaf(int32_t range) const { return range * kRangeKeys + warp * kLeafKeys; }
  /// Whether the warp's leaf of a range has a key that is seen, and whether it has no other.
  __device__ bool sees(int32_t range) const {
    return leaf(range) < visible.end && leaf(range) + kLeafKeys > visible.begin;
  }
  __device__ bool sees_all(int32_t range) const {
    return leaf(range) >= visible.begin && leaf(range) + kLeafKeys <= visible.end;
  }
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

  /// Scores of what is seen, each head's largest to shared memory.
  __device__ void take_scores(int32_t range, float (&scores)[4][2]) const {
    const int32_t g = lane / 4, first = leaf(range) + lane % 4 * 2;
    const float factor = memory.query_factor[g];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) scores[n][i] = scores[n][i] * factor * key_scale;
    }
    if (call.of.soft_cap > 0) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) scores[n][i] = call.of.soft_cap * tanhf(scores[n][i] / call.of.soft_cap);
      }
    }
    if (!sees_all(range)) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int32_t position = first + 8 * n + i;
          if (position < visible.begin || position >= visible.end) scores[n][i] = -INFINITY;
        }
      }
    }
    float most = -INFINITY;
#pragma unroll
    for (int n = 0; n < 4; ++n) most = fmaxf(most, fmaxf(scores[n][0], scores[n][1]));
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 2));
    if (lane % 4 == 0) memory.most[warp][g] = most;
  }
  /// Powers against the range's largest score; their sum to shared memory.
  __device__ void take_powers(float (&scores)[4][2]) const {
    const int32_t g = lane / 4;
    float most = memory.most[0][g];
#pragma unroll
    for (int of = 1; of < kTileWarps; ++of) most = fmaxf(most, memory.most[of][g]);
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
    if (lane % 4 != 0) return;
    memory.powers[warp][g] = sum;
    memory.exponent[g] = exponent;  // each warp's is the same
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

  /// Largest scores of the warp's leaf to shared memory, whether it sees a key or not.
  __device__ void tell_scores(int32_t range, bool seen, float (&scores)[4][2]) const {
    if (seen) {
      take_scores(range, scores);
    } else if (lane < kTileHeads) {
      memory.most[warp][lane] = -INFINITY;
    }
  }
  /// From scores to what is multiplied with values; once the scores of all leaves are told.
  struct Powers {
    uint32_t two[2][4], rest[2][4];
  };
  __device__ Powers powers_of(float (&scores)[4][2]) const {
    take_powers(scores);
    Powers made = {};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      made.two[n / 2][n % 2 * 2] = take_parts<Shape::kBF16>(scores[n][0], scores[n][1]);
      made.two[n / 2][n % 2 * 2 + 1] = take_parts<Shape::kBF16>(scores[n][0], scores[n][1]);
      if constexpr (Shape::kBF16) made.rest[n / 2][n % 2 * 2] = take_parts<Shape::kBF16>(scores[n][0], scores[n][1]);
    }
    return made;
  }
  __device__ void tell_nothing() const {
    if (lane < kTileHeads) memory.powers[warp][lane] = 0;
    for (int32_t i = lane; i < heads * kDim; i += kLanes) numbers[warp * heads * kDim + i] = 0;
  }

  /// The warp's leaf of a range, whose keys are loaded: its powers and mixed values, to shared memory. All warps of the
  /// block come here together.
  __device__ void attend_leaf(int32_t range) {
    const bool seen = sees(range);
    float scores[4][2];
    Values more[2];
    if (seen) {
      dot_keys(scores);
      // What keys took is free for more values.
      if constexpr (Shape::kValueChunks > 1) load_values(range, 1, 0, INT32_MAX, true, more[1]);
    }
    tell_scores(range, seen, scores);
    __syncthreads();
    if (!seen) return tell_nothing();
    const Powers powers = powers_of(scores);
#pragma unroll
    for (int chunk = 0; chunk < Shape::kValueChunks; ++chunk) {
      if (chunk == 0) {
        mix(chunk, powers.two, powers.rest, values);
      } else {
        mix(chunk, powers.two, powers.rest, more[chunk % 2]);
      }
      if (chunk + 2 < Shape::kValueChunks) load_values(range, chunk + 2, 0, INT32_MAX, true, more[chunk % 2]);
    }
  }

  // ---- leaves in shared memory ----

  __device__ uint32_t slot(int stage, KvPart part) const {
    return ring + (stage * kTileWarps * 2 + (part == KvPart::kValues ? 1 : 0)) * Shape::kLeafBytes;
  }
  /// Whether a leaf's keys are all seen, all before a position, and beside each other in one block.
  __device__ bool in_a_row(int32_t range, int32_t to) const {
    return sees_all(range) && leaf(range) + kLeafKeys <= to && call.of.table.block_tokens % kLeafKeys == 0;
  }
  /// Asks for a leaf's keys, or values, at positions of [from, to), `at` being the lane's own place; what is not seen
  /// becomes 0 where `clear`.
  template <KvPart P>
  __device__ void copy_leaf(int32_t range, int stage, int64_t at, int32_t from, int32_t to, bool clear) const {
    constexpr int kPieces = kDim / 16, kKeysAtOnce = kLanes / kPieces;
    const unsigned char* codes = P == KvPart::kKeys ? call.of.keys.codes : call.of.values.codes;
    const int32_t piece = lane % kPieces;
    if (clear && in_a_row(range, to)) {
      const unsigned char* first = codes + __shfl_sync(0xFFFFFFFFu, at, 0) + lane * 16;
#pragma unroll
      for (int i = 0; i < kLeafKeys / kKeysAtOnce; ++i) {
        const int32_t key = i * kKeysAtOnce + lane / kPieces;
        copy_async<16>(
            slot(stage, P) + (P == KvPart::kKeys ? key_piece<kDim>(key, piece) : value_piece<kDim>(key, piece)),
            first + i * kLanes * 16);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kLeafKeys / kKeysAtOnce; ++i) {
      const int32_t key = i * kKeysAtOnce + lane / kPieces, position = leaf(range) + key;
      const int64_t place_of = __shfl_sync(0xFFFFFFFFu, at, key);
      const bool wanted = place_of >= 0 && position >= from && position < to;
      if (!wanted && (place_of >= 0 || !clear)) continue;
      copy_async<16>(
          slot(stage, P) + (P == KvPart::kKeys ? key_piece<kDim>(key, piece) : value_piece<kDim>(key, piece)),
          codes + (wanted ? place_of + piece * 16 : 0), wanted ? 16 : 0);
    }
  }

  __device__ void dot_keys_in(uint32_t at, float (&scores)[4][2]) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int c = 0; c < Shape::kKeyChunks; ++c) {
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(keys[n][c][0]), "=r"(keys[n][c][1]), "=r"(keys[n][c][2]), "=r"(keys[n][c][3])
                     : "r"(at + key_piece<kDim>(8 * n + lane / 4, 4 * c + lane % 4)));
      }
    }
    dot_keys(scores);
  }
  __device__ void values_in(uint32_t at, int chunk, Values& into) const {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int32_t key = 16 * step + k / 2 * 8 + lane % 4 * 2 + k % 2;
        asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                     : "=r"(into[step][k][0]), "=r"(into[step][k][1])
                     : "r"(at + value_piece<kDim>(key, 4 * chunk + lane / 8) + lane / 4 % 2 * 8));
      }
    }
  }

  /// A lane's own numbers of the warp's head, beside each other, from or to memory.
  __device__ static void load_own(const float* from, float (&values)[Shape::kOwn], bool far) {
    constexpr int kOwn = Shape::kOwn;
#pragma unroll
    for (int i = 0; i < kOwn; i += kOwn % 4 == 0 ? 4 : kOwn % 2 == 0 ? 2 : 1) {
      if constexpr (kOwn % 4 == 0) {
        const auto* at = reinterpret_cast<const float4*>(from + i);
        *reinterpret_cast<float4*>(values + i) = far ? __ldcg(at) : *at;
      } else if constexpr (kOwn % 2 == 0) {
        const auto* at = reinterpret_cast<const float2*>(from + i);
        *reinterpret_cast<float2*>(values + i) = far ? __ldcg(at) : *at;
      } else {
        values[i] = far ? __ldcg(from + i) : from[i];
      }
    }
  }
  /// The leaves of a range, in their order; for warps that have a head.
  __device__ Sum range_sum() const {
    Sum sum;
    sum.exponent = memory.exponent[warp];
#pragma unroll
    for (int32_t of = 0; of < kTileWarps; ++of) {
      sum.powers += memory.powers[of][warp];
      float values[Shape::kOwn];
      load_own(numbers + (of * heads + warp) * kDim + lane * Shape::kOwn, values, false);
#pragma unroll
      for (int i = 0; i < Shape::kOwn; ++i) sum.values[i] += values[i];
    }
    return sum;
  }

  /// The last step of a row: a sink joins once, and what was summed is divided.
  __device__ void finish(Sum all) const {
    const int32_t head = first_head + warp;
    if (call.of.sinks != nullptr) {
      Sum sink;
      sink.exponent = exponent_of(call.of.sinks[head]);
      sink.powers = power(call.of.sinks[head], sink.exponent);
      all.join(sink);
    }
    float* to = call.of.out.data + row * call.of.out.stride + int64_t{head} * kDim + lane * Shape::kOwn;
#pragma unroll
    for (int i = 0; i < Shape::kOwn; ++i) to[i] = all.values[i] / all.powers * call.of.values.scales[kv_head];
  }

  // ---- ranges side by side ----

  /// A part's numbers: exponent, powers, and behind kPartHead values [kDim]. Behind a row's ranges come its spans.
  __device__ float* part(int32_t at) const {
    const int32_t each = call.ranges + tile_spans(call.ranges);
    return call.parts + ((int64_t{blockIdx.x} * call.of.heads + first_head + warp) * each + at) * (kDim + kPartHead);
  }
  __device__ void put(int32_t at, const Sum& sum) const {
    float* to = part(at);
    if (lane == 0) to[0] = sum.exponent, to[1] = sum.powers;
    to += kPartHead + lane * Shape::kOwn;
#pragma unroll
    for (int i = 0; i < Shape::kOwn; ++i) to[i] = sum.values[i];
  }
  /// Parts [from, to) in their order, several on their way at once.
  __device__ Sum join_of(int32_t from, int32_t to) const {
    constexpr int kAtOnce = 8;
    Sum all;
    for (; from < to; from += kAtOnce) {
      Sum parts[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (from + i >= to) continue;
        const float* at = part(from + i);
        const float2 head = __ldcg(reinterpret_cast<const float2*>(at));
        parts[i].exponent = head.x, parts[i].powers = head.y;
        load_own(at + kPartHead + lane * Shape::kOwn, parts[i].values, true);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (from + i < to) all.join(parts[i]);
      }
    }
    return all;
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

  /// The spans of a row, and which is its first.
  __device__ int32_t first_span() const {
    return visible.first_range() / kSpanRanges;
  }
  __device__ int32_t spans() const {
    return (visible.end_range() - 1) / kSpanRanges - first_span() + 1;
  }

  /// A span's sum has been made by this block: all spans, where it is the last to come.
  __device__ void end_span(int32_t span, const Sum& sum) const {
    if (spans() == 1) {
      Sum all;
      all.join(sum);
      if (warp < heads) finish(all);
      return;
    }
    if (warp < heads) put(call.ranges + span - first_span(), sum);
    if (!is_last(tile_spans(call.ranges), spans()) || warp >= heads) return;
    finish(join_of(call.ranges, call.ranges + spans()));
  }
  /// This block's ranges have been put: joins those of their span where it is the last to come.
  __device__ void join_parts(int32_t span) const {
    const int32_t first = visible.first_range(), end = visible.end_range();
    const int32_t from = max(first, span * kSpanRanges), to = min(end, (span + 1) * kSpanRanges);
    if (!is_last(span - first_span(), (to - 1) / call.each - from / call.each + 1)) return;
    end_span(span, warp < heads ? join_of(from - first, to - first) : Sum());
  }

  /// Ranges one after another, the first of which are asked for, see `ask`; what `take(range)` does sees a range's
  /// sums.
  template <class Take>
  __device__ void walk(int32_t range, int32_t end, Take take) {
    if constexpr (Shape::kStages > 0) {
      walk_ring(range, end, take);
    } else {
      walk_plain(range, end, take);
    }
  }
  template <class Take>
  __device__ void walk_plain(int32_t range, int32_t end, Take take) {
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
      take(range);  // before the next range's scores are there, and after them shared memory is used again
    }
  }
  template <class Take>
  __device__ void walk_ring(int32_t range, int32_t end, Take take) {
    constexpr int kStages = Shape::kStages, kOpen = 2 * kStages - 1;
    int64_t next = range + kStages < end ? find_place(range + kStages) : -1;
    int stage = 0;
    for (; range < end; ++range) {
      const bool seen = sees(range), more = range + kStages < end;
      float scores[4][2];
      wait_copies<kOpen>();
      __syncwarp();
      if (seen) dot_keys_in(slot(stage, KvPart::kKeys), scores);
      __syncwarp();  // what stood there has been read
      if (more) copy_leaf<KvPart::kKeys>(range + kStages, stage, next, 0, INT32_MAX, true);
      close_copies();
      tell_scores(range, seen, scores);
      wait_copies<kOpen>();
      __syncthreads();
      if (seen) {
        const Powers powers = powers_of(scores);
#pragma unroll
        for (int chunk = 0; chunk < Shape::kValueChunks; ++chunk) {
          values_in(slot(stage, KvPart::kValues), chunk, values);
          mix(chunk, powers.two, powers.rest, values);
        }
      } else {
        tell_nothing();
      }
      __syncwarp();
      if (more) copy_leaf<KvPart::kValues>(range + kStages, stage, next, 0, INT32_MAX, true);
      close_copies();
      next = range + kStages + 1 < end ? find_place(range + kStages + 1) : -1;
      stage = stage + 1 == kStages ? 0 : stage + 1;
      __syncthreads();
      take(range);  // before the next range's scores are told, and after them shared memory is used again
    }
    wait_copies<0>();
  }

  /// Asks for the first ranges: keys of earlier steps are there; those of this one were written by the kernel before.
  __device__ void ask(int32_t begin, int32_t end) {
    place = find_place(begin);
    if constexpr (Shape::kStages > 0) {
      int64_t places[Shape::kStages];
#pragma unroll
      for (int i = 0; i < Shape::kStages; ++i) {
        places[i] = i == 0 ? place : begin + i < end ? find_place(begin + i) : -1;
        if (begin + i < end) copy_leaf<KvPart::kKeys>(begin + i, i, places[i], 0, first_new, true);
        close_copies();
        if (begin + i < end) copy_leaf<KvPart::kValues>(begin + i, i, places[i], 0, first_new, true);
        close_copies();
      }
      await_previous();
      if (end * kRangeKeys <= first_new) return;
#pragma unroll
      for (int i = 0; i < Shape::kStages; ++i) {
        if (begin + i >= end) continue;
        copy_leaf<KvPart::kKeys>(begin + i, i, places[i], first_new, INT32_MAX, false);
        copy_leaf<KvPart::kValues>(begin + i, i, places[i], first_new, INT32_MAX, false);
      }
      close_copies();
      wait_copies<0>();
    } else {
      if (Shape::kValueChunks > 1) prefetch(place, false);
      load(begin, 0, first_new, true);
      await_previous();
      if (end * kRangeKeys > first_new) load(begin, first_new, INT32_MAX, false);
    }
  }

  /// All of a row's.
  __device__ void walk_row() {
    Sum span, all;
    const int32_t end = visible.end_range();
    walk(visible.first_range(), end, [&](int32_t range) {
      if (warp >= heads) return;
      span.join(range_sum());
      if (range + 1 < end && (range + 1) % kSpanRanges != 0) return;
      all.join(span);
      span = Sum();
    });
    if (warp < heads) finish(all);
  }

  /// Those of one block among several: a part of a span, or the whole of it.
  __device__ void walk_part(int32_t begin, int32_t end) {
    const int32_t first = visible.first_range();
    const bool whole = call.each == kSpanRanges;
    Sum span;
    walk(begin, end, [&](int32_t range) {
      if (warp >= heads) return;
      const Sum sum = range_sum();
      whole ? span.join(sum) : put(range - first, sum);
    });
    if (whole) return end_span(begin / kSpanRanges, span);
    join_parts(begin / kSpanRanges);
  }
};

/// Two blocks a processor where what a thread has on its way fits half of its registers.
template <KvNumbers S, int kDim>
constexpr int tile_blocks() {
  return TileShape<S, kDim>::kStages > 0 ? 2 : kDim * kv_number_bytes(S) <= 128 ? 2 : 1;
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
  of.ask(begin, end);
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
      size_t{kTileWarps} * kDim * sizeof(float) * static_cast<size_t>(group < kTileHeads ? group : kTileHeads) +
      TileShape<S, kDim>::kRingBytes;
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
