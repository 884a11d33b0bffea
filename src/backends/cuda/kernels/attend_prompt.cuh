#pragma once

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/kv_numbers.cuh"
#include "backends/cuda/kernels/prompt_ops.cuh"

/// Attention of many rows of a sequence. A tile has 128 rows: the query heads of one KV head of one token after the
/// other. Two warp groups multiply, 64 rows each, by turns, so that one's softmax runs beside the other's products; a
/// third brings keys and values to shared memory. Keys of one byte are multiplied as they are, by queries that are the
/// sum of two bytes; of such values the third group makes float16. Keys are met in tiles at multiples of kKeys
/// positions, in their order; a tile that a row does not see changes nothing of it: so a row's sum depends on its
/// sequence alone.
namespace vernier::cuda {

inline constexpr int kPromptGroups = 2;  ///< that multiply
inline constexpr int kPromptRows = 64 * kPromptGroups;
inline constexpr int kPromptThreads = 128 * (kPromptGroups + 1);

template <KvNumbers S, int kDim>
struct PromptShape {
  static constexpr bool kBF16 = S == KvNumbers::kBF16;
  static constexpr bool kMade = kv_number_bytes(S) == 1;  ///< of a byte: float16 is made of values
  static constexpr int kKeys = kDim <= 128 ? 128 : 64;
  static constexpr int kColumns = (kDim + 63) / 64;  ///< of 64 numbers, 128 bytes, beside each other
  static constexpr int kColumnBytes = kKeys * 128;
  static constexpr int kTileBytes = kColumns * kColumnBytes;
  static constexpr int kQueryColumnBytes = kPromptRows * 128;
  static constexpr int kByteColumns = (kDim + 127) / 128;  ///< of 128 numbers of one byte
  static constexpr int kKeyBytes = kMade ? kByteColumns * kColumnBytes : kTileBytes;
  static constexpr int kQueryBytes = (kMade ? 2 * kByteColumns : kColumns) * kQueryColumnBytes;
  static constexpr int kKeyStages = kMade ? 3 : 2;
  static constexpr int kStages = 2;
  static constexpr int kSlotBytes = kKeys * kDim;
  static constexpr int kSlots = !kMade ? 0 : kDim == 256 ? 2 : 4;
  static constexpr int kKeysAt = kQueryBytes;
  static constexpr int kValuesAt = kKeysAt + kKeyStages * kKeyBytes;
  static constexpr int kSlotsAt = kValuesAt + kStages * kTileBytes;
  static constexpr int kFactorsAt = kSlotsAt + kSlots * kSlotBytes;
  static constexpr int kBarriersAt = kFactorsAt + kPromptRows * 4;
  static constexpr int kSharedBytes =
      kBarriersAt + (2 * kKeyStages + 2 * kStages + kSlots) * 8 + 1024;  // the first stage's alignment
};

#ifdef VERNIER_WARPGROUPS

/// Barriers by name.
inline constexpr int kMakers = 1, kGroupReady = 2, kTurn = 4, kAllGroups = 6;

/// A tile of rows.
struct PromptPlace {
  int32_t sequence, kv_head, group;
  int32_t first, rows;     // of the tile: tokens x heads of the group
  int32_t first_token;     // of the step's rows
  int32_t first_position;  // of the sequence's rows in this step
  int32_t end;             // position behind the sequence's last
  int32_t first_tile, end_tile;
  int32_t first_block, end_block;  // of the table's
  int32_t block_position;          // of the first

  /// Those of one block, the longest first, by turns from the left and from the right, so that all blocks have as much
  /// to do; false behind the last.
  template <int kKeys>
  __device__ __forceinline__ bool next(const AttendPromptCall& call, int32_t& round) {
    while (true) {
      const auto blocks = static_cast<int32_t>(gridDim.x), own = static_cast<int32_t>(blockIdx.x);
      const int32_t at = round * blocks + (round % 2 == 0 ? own : blocks - 1 - own);
      if (round * blocks >= call.tiles || at >= call.tiles) return false;
      ++round;
      take<kKeys>(call, at);
      if (rows > 0) return true;
    }
  }
  template <int kKeys>
  __device__ __forceinline__ void take(const AttendPromptCall& call, int32_t at) {
    const RowsView& of = call.of.rows;
    group = call.of.heads / call.of.kv_heads;
    const int32_t down = at / call.of.kv_heads, most = call.tiles / call.of.kv_heads / call.sequences;
    kv_head = at - down * call.of.kv_heads;
    const int32_t before = down / most;
    sequence = call.first_sequence + before;
    const int32_t tokens = of.row_count[sequence], all = tokens * group;
    const int32_t tiles = tokens < call.least_rows ? 0 : (all + kPromptRows - 1) / kPromptRows;
    const int32_t tile = tiles - 1 - (down - before * most);
    first = tile * kPromptRows;
    rows = tile < 0 ? 0 : min(kPromptRows, all - first);
    first_token = of.first_row[sequence];
    first_position = of.first_position[sequence];
    end = first_position + tokens;
    first_tile = max(0, call.of.window > 0 ? position(0) - call.of.window + 1 : 0) / kKeys;
    end_tile = position(rows - 1) / kKeys + 1;
    first_block = call.of.table.begin[sequence];
    end_block = call.of.table.begin[sequence + 1];
    block_position = call.of.table.first_position[sequence];
  }
  __device__ __forceinline__ int32_t token(int32_t row) const { return (first + row) / group; }
  __device__ __forceinline__ int32_t position(int32_t row) const { return first_position + token(row); }
};

/// A block's tiles of keys, one after the other.
template <int kKeys>
struct PromptWalk {
  const AttendPromptCall& call;
  PromptPlace place;
  int32_t round = 0, tile;
  uint32_t at = 0;
  bool more;

  __device__ __forceinline__ explicit PromptWalk(const AttendPromptCall& of) : call(of) { take(); }
  __device__ __forceinline__ void take() {
    more = place.next<kKeys>(call, round);
    tile = place.first_tile;
  }
  __device__ __forceinline__ void go_on() {
    ++at;
    if (++tile == place.end_tile) take();
  }
};

template <KvNumbers S, int kDim>
struct PromptMemory {
  using Shape = PromptShape<S, kDim>;
  uint32_t base;
  unsigned char* bytes;

  __device__ __forceinline__ uint32_t queries() const { return base; }
  __device__ __forceinline__ uint32_t keys(uint32_t stage) const {
    return base + Shape::kKeysAt + stage * Shape::kKeyBytes;
  }
  __device__ __forceinline__ uint32_t values(uint32_t stage) const {
    return base + Shape::kValuesAt + stage * Shape::kTileBytes;
  }
  __device__ __forceinline__ uint32_t slot(uint32_t at) const {
    return base + Shape::kSlotsAt + at * Shape::kSlotBytes;
  }
  __device__ __forceinline__ float& factor(int row) const {
    return reinterpret_cast<float*>(bytes + Shape::kFactorsAt)[row];
  }
  __device__ __forceinline__ uint32_t barrier(uint32_t at) const { return base + Shape::kBarriersAt + at * 8; }
  /// `part` 0: keys, 1: values.
  __device__ __forceinline__ uint32_t full(int part, uint32_t stage) const {
    return barrier(part * 2 * Shape::kKeyStages + stage * 2);
  }
  __device__ __forceinline__ uint32_t empty(int part, uint32_t stage) const { return full(part, stage) + 8; }
  __device__ __forceinline__ uint32_t slot_full(uint32_t at) const {
    return barrier(2 * Shape::kKeyStages + 2 * Shape::kStages + at);
  }
};

/// The group that brings keys and values.
template <KvNumbers S, int kDim>
struct PromptProducer {
  using Shape = PromptShape<S, kDim>;
  const AttendPromptCall& call;
  const CUtensorMap& keys;
  const CUtensorMap& values;
  const PromptMemory<S, kDim>& memory;
  uint32_t thread, lane;
  using Walk = PromptWalk<Shape::kKeys>;

  __device__ __forceinline__ PromptProducer(const AttendPromptCall& of, const CUtensorMap& of_keys,
                                            const CUtensorMap& of_values, const PromptMemory<S, kDim>& shared)
      : call(of),
        keys(of_keys),
        values(of_values),
        memory(shared),
        thread(threadIdx.x % 128),
        lane(threadIdx.x % kLanes) {}

  /// Where the lane's run of a tile's tokens lies: one behind the matrix where it has no block.
  __device__ __forceinline__ int32_t find_run(const Walk& walk) const {
    if (!walk.more) return kMostPromptPlaces;
    const int32_t each = call.of.table.block_tokens;
    const int32_t before =
        walk.tile * Shape::kKeys + static_cast<int32_t>(lane) * call.run_tokens - walk.place.block_position;
    const int32_t block = before / each, at = walk.place.first_block + block;
    if (before < 0 || at >= walk.place.end_block) return kMostPromptPlaces;
    return (call.of.table.blocks[at] * call.of.kv_heads + walk.place.kv_head) * each + before - block * each;
  }
  /// One tile, by a warp whose lanes know where its runs lie; what has no block becomes 0. Columns of 128 bytes.
  template <int kColumns, int kNumbers>
  __device__ __forceinline__ void fetch(const CUtensorMap& map, int32_t row, uint32_t to, uint32_t barrier) const {
    if (lane == 0) arrive_expecting(barrier, kColumns * Shape::kColumnBytes);
    __syncwarp();
    const auto run = static_cast<uint32_t>(call.run_tokens);
    if (lane * run >= Shape::kKeys) return;
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      copy_box(to + column * Shape::kColumnBytes + lane * run * 128, &map, kNumbers * column, row, barrier);
    }
  }
  /// Values of one byte as they are.
  __device__ __forceinline__ void fetch_slot(int32_t row, uint32_t at) const {
    const uint32_t slot = at % Shape::kSlots;
    if (lane == 0) arrive_expecting(memory.slot_full(slot), Shape::kSlotBytes);
    __syncwarp();
    const auto run = static_cast<uint32_t>(call.run_tokens);
    if (lane * run >= Shape::kKeys) return;
    copy_box(memory.slot(slot) + lane * run * kDim, &values, 0, row, memory.slot_full(slot));
  }

  __device__ __forceinline__ void run_copies() const {
    if (thread >= kLanes) return;
    Walk walk(call);
    int32_t row = find_run(walk);
    while (walk.more) {
      const uint32_t stage = walk.at % Shape::kStages, use = walk.at / Shape::kStages;
      walk.go_on();
      const int32_t next = find_run(walk);
      if (use > 0) wait_phase(memory.empty(0, stage), (use - 1) & 1u);
      fetch<Shape::kColumns, 64>(keys, row, memory.keys(stage), memory.full(0, stage));
      if (use > 0) wait_phase(memory.empty(1, stage), (use - 1) & 1u);
      fetch<Shape::kColumns, 64>(values, row, memory.values(stage), memory.full(1, stage));
      row = next;
    }
  }

  /// `row` of the walk's tile, and then of the next: it is on its way while others work.
  __device__ __forceinline__ void fetch_keys(Walk& walk, int32_t& row) const {
    if (!walk.more) return;
    const uint32_t stage = walk.at % Shape::kKeyStages, use = walk.at / Shape::kKeyStages;
    if (use > 0) wait_phase(memory.empty(0, stage), (use - 1) & 1u);
    fetch<Shape::kByteColumns, 128>(keys, row, memory.keys(stage), memory.full(0, stage));
    walk.go_on();
    row = find_run(walk);
  }
  __device__ __forceinline__ void fetch_values(Walk& walk, int32_t& row) const {
    if (!walk.more) return;
    fetch_slot(row, walk.at);
    walk.go_on();
    row = find_run(walk);
  }
  /// Keys come as they are; float16 is made of values.
  __device__ __forceinline__ void run_making() const {
    Walk walk(call), of_keys = walk, of_values = walk;
    int32_t key_row = find_run(walk), value_row = key_row;
    if (thread < kLanes) {
      for (int i = 0; i < Shape::kKeyStages - 1; ++i) fetch_keys(of_keys, key_row);
      for (int i = 0; i < Shape::kSlots; ++i) fetch_values(of_values, value_row);
    }
    while (walk.more) {
      const uint32_t at = walk.at, slot = at % Shape::kSlots, stage = at % Shape::kStages, use = at / Shape::kStages;
      if (thread < kLanes) fetch_keys(of_keys, key_row);
      wait_phase(memory.slot_full(slot), at / Shape::kSlots & 1u);
      make(memory.slot(slot), memory.values(stage), walk.place.end - walk.tile * Shape::kKeys, [&] {
        if (use > 0) wait_phase(memory.empty(1, stage), (use - 1) & 1u);
      });
      fence_for_products();
      sync_threads(kMakers, 128);
      if (thread == 0) arrive(memory.full(1, stage));
      if (thread < kLanes) fetch_values(of_values, value_row);
      walk.go_on();
    }
  }
  /// Sixteen numbers at a time; keys from `end` on become 0. `wait` for room.
  template <class Wait>
  __device__ __forceinline__ void make(uint32_t from, uint32_t to, int32_t end, Wait wait) const {
    constexpr uint32_t kPieces = kDim / 16, kEach = Shape::kKeys * kPieces / 128;
    uint32_t words[kEach][4];
#pragma unroll
    for (uint32_t n = 0; n < kEach; ++n) load_shared(from + (thread + 128 * n) * 16, words[n]);
    wait();
#pragma unroll
    for (uint32_t n = 0; n < kEach; ++n) {
      const uint32_t i = thread + 128 * n, key = i / kPieces, piece = i % kPieces, column = piece / 4;
      const bool there = static_cast<int32_t>(key) < end;
      uint32_t made[8];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const uint32_t word = there ? words[n][w] : 0u;
        made[2 * w] = widened<S>(word, false);
        made[2 * w + 1] = widened<S>(word, true);
      }
      // Neighbouring columns of pieces begin with the other half: their banks differ.
      const bool other = column % 2 != 0;
      const uint32_t row = to + column * Shape::kColumnBytes + key * 128, first = piece % 4 * 2;
      store_shared(row + ((first + (other ? 1 : 0)) ^ key % 8) * 16, other ? made[4] : made[0],
                   other ? made[5] : made[1], other ? made[6] : made[2], other ? made[7] : made[3]);
      store_shared(row + ((first + (other ? 0 : 1)) ^ key % 8) * 16, other ? made[0] : made[4],
                   other ? made[1] : made[5], other ? made[2] : made[6], other ? made[3] : made[7]);
    }
  }
};

/// A group that multiplies: thread t of a warp's four beside each other has numbers 8 i + 2 t and the next of rows
/// lane / 4 and 8 behind.
template <KvNumbers S, int kDim>
struct PromptConsumer {
  using Shape = PromptShape<S, kDim>;
  static constexpr int kKeys = Shape::kKeys, kScores = kKeys / 2, kOwn = kDim / 2;
  static constexpr bool kBF16 = Shape::kBF16;
  static constexpr int kChunks = (kDim / 4 + kLanes - 1) / kLanes;  // of a query, four numbers a lane
  static constexpr int kAtOnce = 16 / kChunks;                      // queries in registers
  using Queries = float4[kAtOnce][kChunks];
  const AttendPromptCall& call;
  const PromptMemory<S, kDim>& memory;
  PromptPlace place;
  int32_t group, warp, lane;
  int32_t begin[2], end[2];  // what the rows see
  float scale[2];            // of a score, with the logarithm's base
  float most[2], powers[2];
  float out[kOwn];

  __device__ __forceinline__ PromptConsumer(const AttendPromptCall& of, const PromptMemory<S, kDim>& shared)
      : call(of),
        memory(shared),
        group(static_cast<int32_t>(threadIdx.x) / 128 - 1),
        warp(static_cast<int32_t>(threadIdx.x) / kLanes % 4),
        lane(static_cast<int32_t>(threadIdx.x) % kLanes) {}

  /// The row of the tile; `of` 0 or 1.
  __device__ __forceinline__ int32_t row(int of) const { return 64 * group + 16 * warp + lane / 4 + 8 * of; }
  /// Of the warp's sixteen rows; null behind the last.
  __device__ __forceinline__ const float* query(const PromptPlace& of, int32_t row) const {
    const int32_t at = 64 * group + 16 * warp + row, flat = of.first + at, token = flat / of.group;
    if (at >= of.rows) return nullptr;
    return call.of.q.data + (of.first_token + token) * call.of.q.stride +
           int64_t{of.kv_head * of.group + flat - token * of.group} * kDim;
  }
  /// As far as the second level of cache.
  __device__ __forceinline__ void ask_for_queries(const PromptPlace& of) const {
    const float* row = query(of, lane / 2);
    if (row == nullptr) return;
#pragma unroll
    for (int i = 0; i < kDim; i += 64) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(row + i + lane % 2 * 32));
    }
  }
  /// kAtOnce of them from `from` on.
  __device__ __forceinline__ void load_queries(int from, Queries& own) const {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const float* of = query(place, from + i);
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        own[i][c] = make_float4(0, 0, 0, 0);
        if (of != nullptr && lane + kLanes * c < kDim / 4) {
          own[i][c] = reinterpret_cast<const float4*>(of)[lane + kLanes * c];
        }
      }
    }
  }
  /// To shared memory as products take them: float16 ones with the largest in [2^13, 2^14), bytes as the sum of two.
  __device__ __forceinline__ void place_queries(int from, const Queries& all) const {
    constexpr int kLargest = Shape::kMade ? 7 : 13;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t at = 64 * group + 16 * warp + from + i;
      const float4(&own)[kChunks] = all[i];
      float largest = 0;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        largest =
            fmaxf(largest, fmaxf(fmaxf(fabsf(own[c].x), fabsf(own[c].y)), fmaxf(fabsf(own[c].z), fabsf(own[c].w))));
      }
      float up = 1, down = 1;
      if constexpr (!kBF16) {
        for (int step = kLanes / 2; step > 0; step /= 2) {
          largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, step));
        }
        if (largest > 0x1p-100f && largest < 0x1p100f) {
          const int32_t shift = kLargest - (static_cast<int32_t>(bits_of(largest) >> 23) - 127);
          up = power_of_two(shift);
          down = power_of_two(-shift);
        }
      }
      if (lane == 0) memory.factor(at) = down;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const int four = lane + kLanes * c;
        if (four >= kDim / 4) continue;
        float x[4] = {own[c].x * up, own[c].y * up, own[c].z * up, own[c].w * up};
        if constexpr (Shape::kMade) {
          const uint32_t to = memory.queries() + four / 32 * Shape::kQueryColumnBytes + at * 128 +
                              ((four % 32 / 4) ^ at % 8) * 16 + four % 4 * 4;
          store_shared(to, take_bytes(x));
          store_shared(to + Shape::kByteColumns * Shape::kQueryColumnBytes, take_bytes(x));
        } else {
          const uint32_t to = memory.queries() + four / 16 * Shape::kQueryColumnBytes + at * 128 +
                              ((four % 16 / 2) ^ at % 8) * 16 + four % 2 * 8;
          store_shared(to, pack<kBF16>(x[0], x[1]), pack<kBF16>(x[2], x[3]));
        }
      }
    }
  }

  __device__ __forceinline__ void begin_rows() {
    const float factor = call.of.scale * call.of.keys.scales[place.kv_head];
#pragma unroll
    for (int of = 0; of < 2; ++of) {
      const int32_t position = place.position(min(row(of), place.rows - 1));
      most[of] = -INFINITY;
      powers[of] = 0;
      end[of] = position + 1;
      begin[of] = call.of.window > 0 && position >= call.of.window ? position - call.of.window + 1 : 0;
      scale[of] = factor * memory.factor(row(of));
      if (call.of.soft_cap == 0) scale[of] *= 1.44269504f;
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) out[i] = 0;
  }

  __device__ __forceinline__ void multiply_keys(float (&scores)[kScores], uint32_t stage) const {
    const uint64_t q = swizzled_operand(memory.queries() + group * (64 * 128));
    const uint64_t k = swizzled_operand(memory.keys(stage));
    if constexpr (Shape::kMade) {
#pragma unroll
      for (int step = 0; step < 2 * (kDim / 32); ++step) {
        const int part = step / (kDim / 32), own = step % (kDim / 32);
        const uint64_t of_q =
            q + ((part * Shape::kByteColumns + own / 4) * Shape::kQueryColumnBytes + own % 4 * 32) / 16;
        multiply_bytes<S, kKeys>(scores, of_q, k + (own / 4 * Shape::kColumnBytes + own % 4 * 32) / 16, step > 0);
      }
    } else {
#pragma unroll
      for (int step = 0; step < kDim / 16; ++step) {
        const uint64_t of_q = q + (step / 4 * Shape::kQueryColumnBytes + step % 4 * 32) / 16;
        const uint64_t of_k = k + (step / 4 * Shape::kColumnBytes + step % 4 * 32) / 16;
        multiply_shared<kBF16, kKeys>(scores, of_q, of_k, step > 0);
      }
    }
  }
  __device__ __forceinline__ void multiply_values(const uint32_t (&p)[kScores / 2], uint32_t stage) {
    const uint32_t v = memory.values(stage);
    add_values<0, kDim>(p, v);
  }
  template <int kFrom, int kLeft>
  __device__ __forceinline__ void add_values(const uint32_t (&p)[kScores / 2], uint32_t v) {
    constexpr int kNow = kLeft >= 128 ? 128 : kLeft >= 64 ? 64 : 32;
    const uint64_t operand = turned_operand(v + kFrom / 64 * Shape::kColumnBytes, Shape::kColumnBytes);
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      multiply_turned<kBF16, kNow>(out + kFrom / 2, p + 4 * step, operand + step * (2048 / 16));
    }
    if constexpr (kLeft > kNow) add_values<kFrom + kNow, kLeft - kNow>(p, v);
  }

  /// Scores to powers; `factors` make up for what the largest score has grown.
  __device__ __forceinline__ void take(float (&scores)[kScores], int32_t tile, float (&factors)[2]) {
    const int32_t first = tile * kKeys;
    float by[2] = {scale[0], scale[1]};
    if (call.of.soft_cap > 0) {
      const float cap = call.of.soft_cap, inverse = 2 * 1.44269504f / cap;
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        const float both = power_of(scores[i] * scale[i % 4 / 2] * inverse);  // e^2x
        scores[i] = cap * 1.44269504f * (1.0f - 2.0f * inverse_of(1.0f + both));
      }
      by[0] = by[1] = 1;
    }
    const bool all = first + kKeys <= min(end[0], end[1]) && first >= max(begin[0], begin[1]);
    if (!__all_sync(0xFFFFFFFFu, all)) {
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        const int32_t position = first + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (position < begin[i % 4 / 2] || position >= end[i % 4 / 2]) scores[i] = -INFINITY;
      }
    }
#pragma unroll
    for (int of = 0; of < 2; ++of) {
      float largest = fmaxf(scores[2 * of], scores[2 * of + 1]);
#pragma unroll
      for (int i = 4; i < kScores; i += 4) largest = fmaxf(largest, fmaxf(scores[i + 2 * of], scores[i + 2 * of + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
      largest = fmaxf(largest, most[of]);
      const float against = largest == -INFINITY ? 0.0f : largest * by[of];
      factors[of] = power_of(most[of] * by[of] - against);  // 1 where the largest stays
      most[of] = largest;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kScores; i += 4) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& score = scores[i + 2 * of + j];
          score = power_of(fmaf(score, by[of], -against));
          sum += score;
        }
      }
      powers[of] = powers[of] * factors[of] + sum;
    }
  }
  __device__ __forceinline__ static void round_powers(const float (&scores)[kScores], uint32_t (&p)[kScores / 2]) {
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) p[i] = pack<kBF16>(scores[2 * i], scores[2 * i + 1]);
  }

  /// Values of positions that no row has written become 0: they are times 0, and may be anything.
  __device__ __forceinline__ void clear_values(uint32_t stage) const {
    if constexpr (Shape::kMade) return;
    const int32_t there = place.end - (place.end_tile - 1) * kKeys;
    if (there >= kKeys) return;
    const int32_t pieces = (kKeys - there) * 8;
    for (int32_t i = static_cast<int32_t>(threadIdx.x) - 128; i < pieces * Shape::kColumns; i += 128 * kPromptGroups) {
      const int32_t column = i / pieces, piece = i - column * pieces;
      store_shared(memory.values(stage) + column * Shape::kColumnBytes + there * 128 + piece * 16, 0, 0, 0, 0);
    }
    fence_for_products();
    sync_threads(kAllGroups, 128 * kPromptGroups);
  }

  __device__ __forceinline__ void release(int part, uint32_t stage) const {
    if (lane == 0) arrive(memory.empty(part, stage));
  }

  __device__ __forceinline__ void run() {
    constexpr uint32_t kStages = Shape::kStages, kKeyStages = Shape::kKeyStages;
    float scores[kScores], factors[2];
    uint32_t p[kScores / 2];
    PromptPlace next;
    int32_t round = 0;
    uint32_t at = 0;  // tiles of keys so far
    bool more = next.next<kKeys>(call, round);
    while (more) {
      place = next;
      sync_threads(kGroupReady + group, 128);  // the last queries have been read
#pragma unroll
      for (int from = 0; from < 16; from += kAtOnce) {
        Queries queries;
        load_queries(from, queries);
        place_queries(from, queries);
      }
      fence_for_products();
      sync_threads(kGroupReady + group, 128);
      begin_rows();
      if (group == 1) arrive_threads(kTurn, 256);
      wait_phase(memory.full(0, at % kKeyStages), at / kKeyStages & 1u);
      sync_threads(kTurn + group, 256);
      open_products();
      multiply_keys(scores, at % kKeyStages);
      close_products();
      arrive_threads(kTurn + 1 - group, 256);
      wait_products<0>();
      settle(scores);
      release(0, at % kKeyStages);
      take(scores, place.first_tile, factors);
      round_powers(scores, p);
      for (int32_t tile = place.first_tile + 1; tile < place.end_tile; ++tile) {
        const uint32_t before = at % kStages, use = at / kStages;
        ++at;
        wait_phase(memory.full(0, at % kKeyStages), at / kKeyStages & 1u);
        sync_threads(kTurn + group, 256);
        open_products();
        multiply_keys(scores, at % kKeyStages);
        close_products();
        wait_phase(memory.full(1, before), use & 1u);
        open_products();
        multiply_values(p, before);
        close_products();
        arrive_threads(kTurn + 1 - group, 256);
        wait_products<1>();
        settle(scores);
        release(0, at % kKeyStages);
        take(scores, tile, factors);
        wait_products<0>();
        settle(out);
        release(1, before);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) out[i] *= factors[i % 4 / 2];
        round_powers(scores, p);
      }
      if (group == 0) sync_threads(kTurn, 256);
      const uint32_t last = at % kStages;
      wait_phase(memory.full(1, last), at / kStages & 1u);
      clear_values(last);
      open_products();
      multiply_values(p, last);
      close_products();
      more = next.next<kKeys>(call, round);
      if (more) ask_for_queries(next);
      wait_products<0>();
      settle(out);
      release(1, last);
      finish();
      ++at;
    }
  }

  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int of = 0; of < 2; ++of) {
      const int32_t flat = place.first + row(of), token = flat / place.group;
      const int32_t head = place.kv_head * place.group + flat - token * place.group;
      const bool there = row(of) < place.rows;
      float sum = powers[of];
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
      float factor = call.of.values.scales[place.kv_head];
      if (call.of.sinks != nullptr && there) {
        const float largest = most[of] * (call.of.soft_cap > 0 ? 1.0f : scale[of]);
        const float sink = call.of.sinks[head] * 1.44269504f, both = fmaxf(largest, sink);
        const float own = power_of(largest - both);
        sum = sum * own + power_of(sink - both);
        factor *= own;
      }
      factor /= sum;
      if (!there) continue;
      float* to =
          call.of.out.data + (place.first_token + token) * call.of.out.stride + int64_t{head} * kDim + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < kOwn / 4; ++i) {
        *reinterpret_cast<float2*>(to + 8 * i) =
            make_float2(out[4 * i + 2 * of] * factor, out[4 * i + 2 * of + 1] * factor);
      }
    }
  }
};

#endif  // VERNIER_WARPGROUPS

template <KvNumbers S, int kDim>
__global__ void __launch_bounds__(kPromptThreads, 1)
    attend_prompt_kernel(const __grid_constant__ AttendPromptCall call, const __grid_constant__ CUtensorMap keys,
                         const __grid_constant__ CUtensorMap values) {
#ifdef VERNIER_WARPGROUPS
  using Shape = PromptShape<S, kDim>;
  extern __shared__ __align__(128) unsigned char shared[];
  start_next();
  const uint32_t at = shared_address(shared), aligned = (at + 1023u) / 1024u * 1024u;
  const PromptMemory<S, kDim> memory{aligned, shared + (aligned - at)};
  if (threadIdx.x == 0) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
#pragma unroll
      for (int stage = 0; stage < (part == 0 ? Shape::kKeyStages : Shape::kStages); ++stage) {
        make_barrier(memory.full(part, stage), 1);
        make_barrier(memory.empty(part, stage), 4 * kPromptGroups);
      }
    }
#pragma unroll
    for (int slot = 0; slot < Shape::kSlots; ++slot) make_barrier(memory.slot_full(slot), 1);
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  }
  __syncthreads();
  await_previous();
  if (threadIdx.x < 128) {
    give_registers<Shape::kMade ? 88 : 40>();
    const PromptProducer<S, kDim> producer(call, keys, values, memory);
    if constexpr (Shape::kMade) {
      producer.run_making();
    } else {
      producer.run_copies();
    }
  } else {
    take_registers<Shape::kMade ? 208 : 232>();
    PromptConsumer<S, kDim> consumer(call, memory);
    consumer.run();
  }
#endif
}

/// Rows of a head's numbers as boxes of `run` of them; the address of the driver's function is asked for once.
template <KvNumbers S, int kDim>
cudaError_t describe(const unsigned char* codes, bool swizzled, int run, CUtensorMap& map) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode kEncode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(found) : nullptr;
  }();
  if (kEncode == nullptr) return cudaErrorNotSupported;
  constexpr bool kMade = PromptShape<S, kDim>::kMade;
  const cuuint64_t extents[2] = {kDim, kMostPromptPlaces};
  const cuuint64_t stride[1] = {cuuint64_t{kDim} * kv_number_bytes(S)};
  const cuuint32_t box[2] = {!kMade     ? 64u
                             : swizzled ? 128u
                                        : cuuint32_t{kDim},
                             static_cast<cuuint32_t>(run)},
                   each[2] = {1, 1};
  const CUresult made =
      kEncode(&map, kMade ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_UINT16, 2,
              const_cast<unsigned char*>(codes), extents, stride, box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
              swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return made == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

template <KvNumbers S, int kDim>
LaunchCode launch_prompt(AttendPromptCall call, Stream stream) {
  using Shape = PromptShape<S, kDim>;
  call.run_tokens = std::gcd(call.of.table.block_tokens, Shape::kKeys);
  CUtensorMap keys, values;
  cudaError_t error = describe<S, kDim>(call.of.keys.codes, true, call.run_tokens, keys);
  if (error == cudaSuccess) error = describe<S, kDim>(call.of.values.codes, !Shape::kMade, call.run_tokens, values);
  if (error != cudaSuccess) return static_cast<LaunchCode>(error);
  static const cudaError_t kAllowed = cudaFuncSetAttribute(
      attend_prompt_kernel<S, kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedBytes);
  if (kAllowed != cudaSuccess) return static_cast<LaunchCode>(kAllowed);
  const int64_t rows = int64_t{call.most_rows} * (call.of.heads / call.of.kv_heads);
  call.tiles = static_cast<int32_t>((rows + kPromptRows - 1) / kPromptRows * call.of.kv_heads * call.sequences);
  // Blocks that go on to the next tile have its first keys on their way; but of several sequences some tiles are none.
  int device = 0, blocks = call.tiles;
  (void)cudaGetDevice(&device);
  if (call.sequences == 1) {
    (void)cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device);
    blocks = std::min(blocks, call.tiles);
  }
  const dim3 grid(static_cast<unsigned>(blocks));
  return launch_early(attend_prompt_kernel<S, kDim>, grid, kPromptThreads, Shape::kSharedBytes, stream, call, keys,
                      values);
}

/// All widths of heads for one stored type.
template <KvNumbers S>
LaunchCode launch_attend_prompt(const AttendPromptCall& call, Stream stream) {
  switch (call.of.head_dim) {
    case 64:
      return launch_prompt<S, 64>(call, stream);
    case 96:
      return launch_prompt<S, 96>(call, stream);
    case 128:
      return launch_prompt<S, 128>(call, stream);
    case 192:
      return launch_prompt<S, 192>(call, stream);
    default:
      return launch_prompt<S, 256>(call, stream);
  }
}

}  // namespace vernier::cuda
