#pragma once

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <numeric>

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/kv_numbers.cuh"
#include "backends/cuda/kernels/prompt_ops.cuh"

/// Attention of many rows of a sequence. A block has 128 rows: the query heads of one KV head of one token after the
/// other. Two warp groups multiply, 64 rows each; a third brings keys and values to shared memory, and makes float16
/// of those that have one byte. Keys are met in tiles at multiples of kKeys positions, in their order; a tile that a
/// row does not see changes nothing of it: so a row's sum depends on its sequence alone.
namespace vernier::cuda {

inline constexpr int kPromptGroups = 2;  ///< that multiply
inline constexpr int kPromptRows = 64 * kPromptGroups;
inline constexpr int kPromptThreads = 128 * (kPromptGroups + 1);

template <KvNumbers S, int kDim>
struct PromptShape {
  static constexpr bool kBF16 = S == KvNumbers::kBF16;
  static constexpr bool kMade = kv_number_bytes(S) == 1;  ///< float16 of a byte
  static constexpr int kKeys = kDim <= 128 ? 128 : 64;
  static constexpr int kColumns = (kDim + 63) / 64;  ///< of 64 numbers, 128 bytes, beside each other
  static constexpr int kColumnBytes = kKeys * 128;
  static constexpr int kTileBytes = kColumns * kColumnBytes;
  static constexpr int kQueryColumnBytes = kPromptRows * 128;
  static constexpr int kStages = 2;
  static constexpr int kSlotBytes = kKeys * kDim;
  static constexpr int kSlots = !kMade ? 0 : kDim == 256 ? 2 : 4;
  static constexpr int kKeysAt = kColumns * kQueryColumnBytes;
  static constexpr int kValuesAt = kKeysAt + kStages * kTileBytes;
  static constexpr int kSlotsAt = kValuesAt + kStages * kTileBytes;
  static constexpr int kFactorsAt = kSlotsAt + kSlots * kSlotBytes;
  static constexpr int kBarriersAt = kFactorsAt + kPromptRows * 4;
  static constexpr int kSharedBytes = kBarriersAt + (4 * kStages + kSlots) * 8 + 1024;  // the first stage's alignment
};

#ifdef VERNIER_WARPGROUPS

/// Barriers by name.
inline constexpr int kMakers = 1, kGroupReady = 2, kTurn = 4, kAllGroups = 6;

/// What a block has to do.
struct PromptPlace {
  int32_t sequence, kv_head, group;
  int32_t first, rows;     // of the tile: tokens x heads of the group
  int32_t first_token;     // of the step's rows
  int32_t first_position;  // of the sequence's rows in this step
  int32_t end;             // position behind the sequence's last
  int32_t first_tile, end_tile;

  template <int kKeys>
  __device__ __forceinline__ static PromptPlace of(const AttendPromptCall& call) {
    PromptPlace place;
    const RowsView& rows = call.of.rows;
    place.sequence = static_cast<int32_t>(blockIdx.z);
    place.kv_head = static_cast<int32_t>(blockIdx.x);
    place.group = call.of.heads / call.of.kv_heads;
    const int32_t tokens = rows.row_count[place.sequence], all = tokens * place.group;
    const int32_t tiles = tokens < call.least_rows ? 0 : (all + kPromptRows - 1) / kPromptRows;
    // The longest first: what is left at the end is short.
    const int32_t tile = tiles - 1 - static_cast<int32_t>(blockIdx.y);
    place.first = tile * kPromptRows;
    place.rows = tile < 0 ? 0 : min(kPromptRows, all - place.first);
    place.first_token = rows.first_row[place.sequence];
    place.first_position = rows.first_position[place.sequence];
    place.end = place.first_position + tokens;
    const int32_t first = place.position(0), last = place.position(place.rows - 1);
    place.first_tile = max(0, call.of.window > 0 ? first - call.of.window + 1 : 0) / kKeys;
    place.end_tile = last / kKeys + 1;
    return place;
  }
  __device__ __forceinline__ int32_t token(int32_t row) const { return (first + row) / group; }
  __device__ __forceinline__ int32_t position(int32_t row) const { return first_position + token(row); }
};

template <KvNumbers S, int kDim>
struct PromptMemory {
  using Shape = PromptShape<S, kDim>;
  uint32_t base;
  unsigned char* bytes;

  __device__ __forceinline__ uint32_t queries() const { return base; }
  __device__ __forceinline__ uint32_t keys(uint32_t stage) const {
    return base + Shape::kKeysAt + stage * Shape::kTileBytes;
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
  __device__ __forceinline__ uint32_t full(int part, uint32_t stage) const { return barrier(part * 4 + stage * 2); }
  __device__ __forceinline__ uint32_t empty(int part, uint32_t stage) const { return full(part, stage) + 8; }
  __device__ __forceinline__ uint32_t slot_full(uint32_t at) const { return barrier(8 + at); }
};

/// The group that brings keys and values.
template <KvNumbers S, int kDim>
struct PromptProducer {
  using Shape = PromptShape<S, kDim>;
  const AttendPromptCall& call;
  const CUtensorMap& keys;
  const CUtensorMap& values;
  const PromptPlace& place;
  const PromptMemory<S, kDim>& memory;
  uint32_t thread, lane;
  const int32_t* blocks;
  int32_t block_count, first_position;

  __device__ __forceinline__ PromptProducer(const AttendPromptCall& of, const CUtensorMap& of_keys,
                                            const CUtensorMap& of_values, const PromptPlace& at,
                                            const PromptMemory<S, kDim>& shared)
      : call(of),
        keys(of_keys),
        values(of_values),
        place(at),
        memory(shared),
        thread(threadIdx.x % 128),
        lane(threadIdx.x % kLanes) {
    const TableView& table = of.of.table;
    const int32_t begin = table.begin[at.sequence];
    blocks = table.blocks + begin;
    block_count = table.begin[at.sequence + 1] - begin;
    first_position = table.first_position[at.sequence];
  }

  /// Where the lane's run of a tile's tokens lies: one behind the matrix where it has no block.
  __device__ __forceinline__ int32_t find_run(int32_t tile) const {
    const int32_t each = call.of.table.block_tokens;
    const int32_t before = tile * Shape::kKeys + static_cast<int32_t>(lane) * call.run_tokens - first_position;
    const int32_t block = before / each;
    if (before < 0 || block >= block_count) return kMostPromptPlaces;
    return (blocks[block] * call.of.kv_heads + place.kv_head) * each + before - block * each;
  }
  /// One tile, by a warp whose lanes know where its runs lie; what has no block becomes 0.
  __device__ __forceinline__ void fetch(const CUtensorMap& map, int32_t row, uint32_t to, uint32_t barrier) const {
    if (lane == 0) arrive_expecting(barrier, Shape::kMade ? Shape::kSlotBytes : Shape::kTileBytes);
    __syncwarp();
    const auto run = static_cast<uint32_t>(call.run_tokens);
    if (lane * run >= Shape::kKeys) return;
    if constexpr (Shape::kMade) {
      copy_box(to + lane * run * kDim, map, 0, row, barrier);
    } else {
#pragma unroll
      for (int column = 0; column < Shape::kColumns; ++column) {
        copy_box(to + column * Shape::kColumnBytes + lane * run * 128, map, 64 * column, row, barrier);
      }
    }
  }

  __device__ __forceinline__ void run_copies() const {
    if (thread >= kLanes) return;
    uint32_t at = 0;
    int32_t row = find_run(place.first_tile);
    for (int32_t tile = place.first_tile; tile < place.end_tile; ++tile, ++at) {
      const uint32_t stage = at % Shape::kStages, use = at / Shape::kStages;
      const int32_t next = find_run(tile + 1);
      if (use > 0) wait_phase(memory.empty(0, stage), (use - 1) & 1u);
      fetch(keys, row, memory.keys(stage), memory.full(0, stage));
      if (use > 0) wait_phase(memory.empty(1, stage), (use - 1) & 1u);
      fetch(values, row, memory.values(stage), memory.full(1, stage));
      row = next;
    }
  }

  /// Items are tiles of keys and of values by turns.
  __device__ __forceinline__ void fetch_item(uint32_t item) const {
    const uint32_t slot = item % Shape::kSlots;
    const int32_t row = find_run(place.first_tile + static_cast<int32_t>(item / 2));
    fetch(item % 2 == 0 ? keys : values, row, memory.slot(slot), memory.slot_full(slot));
  }
  __device__ __forceinline__ void run_making() const {
    const auto items = static_cast<uint32_t>(2 * (place.end_tile - place.first_tile));
    if (thread < kLanes) {
      for (uint32_t item = 0; item < Shape::kSlots && item < items; ++item) fetch_item(item);
    }
    for (uint32_t item = 0; item < items; ++item) {
      const uint32_t slot = item % Shape::kSlots, at = item / 2, stage = at % Shape::kStages, use = at / Shape::kStages;
      const int part = static_cast<int>(item % 2);
      const int32_t position = (place.first_tile + static_cast<int32_t>(at)) * Shape::kKeys;
      wait_phase(memory.slot_full(slot), item / Shape::kSlots & 1u);
      make(memory.slot(slot), part == 0 ? memory.keys(stage) : memory.values(stage), place.end - position, [&] {
        if (use > 0) wait_phase(memory.empty(part, stage), (use - 1) & 1u);
      });
      fence_for_products();
      sync_threads(kMakers, 128);
      if (thread == 0) arrive(memory.full(part, stage));
      if (thread < kLanes && item + Shape::kSlots < items) fetch_item(item + Shape::kSlots);
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
template <KvNumbers S, int kDim, bool kTurns>
struct PromptConsumer {
  using Shape = PromptShape<S, kDim>;
  static constexpr int kKeys = Shape::kKeys, kScores = kKeys / 2, kOwn = kDim / 2;
  static constexpr bool kBF16 = Shape::kBF16;
  const AttendPromptCall& call;
  const PromptPlace& place;
  const PromptMemory<S, kDim>& memory;
  int32_t group, warp, lane;
  int32_t begin[2], end[2];  // what the rows see
  float scale[2];            // of a score, with the logarithm's base
  float most[2] = {-INFINITY, -INFINITY}, powers[2] = {0, 0};
  float out[kOwn];

  __device__ __forceinline__ PromptConsumer(const AttendPromptCall& of, const PromptPlace& at,
                                            const PromptMemory<S, kDim>& shared)
      : call(of),
        place(at),
        memory(shared),
        group(static_cast<int32_t>(threadIdx.x) / 128 - 1),
        warp(static_cast<int32_t>(threadIdx.x) / kLanes % 4),
        lane(static_cast<int32_t>(threadIdx.x) % kLanes) {}

  /// The row of the tile; `of` 0 or 1.
  __device__ __forceinline__ int32_t row(int of) const { return 64 * group + 16 * warp + lane / 4 + 8 * of; }
  __device__ __forceinline__ const float* query(int32_t row) const {
    const int32_t flat = place.first + row, token = flat / place.group;
    return call.of.q.data + (place.first_token + token) * call.of.q.stride +
           int64_t{place.kv_head * place.group + flat - token * place.group} * kDim;
  }

  /// Each warp sixteen rows, as products take them. float16 ones with the largest in [2^13, 2^14).
  __device__ __forceinline__ void place_queries() const {
    constexpr int kChunks = (kDim / 4 + kLanes - 1) / kLanes;
#pragma unroll (16 / kChunks)
    for (int i = 0; i < 16; ++i) {
      const int32_t at = 64 * group + 16 * warp + i;
      float4 own[kChunks];
      float largest = 0;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        own[c] = make_float4(0, 0, 0, 0);
        if (at < place.rows && lane + kLanes * c < kDim / 4) {
          own[c] = reinterpret_cast<const float4*>(query(at))[lane + kLanes * c];
        }
        largest =
            fmaxf(largest, fmaxf(fmaxf(fabsf(own[c].x), fabsf(own[c].y)), fmaxf(fabsf(own[c].z), fabsf(own[c].w))));
      }
      float up = 1, down = 1;
      if constexpr (!kBF16) {
        for (int step = kLanes / 2; step > 0; step /= 2) {
          largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, step));
        }
        if (largest > 0x1p-100f && largest < 0x1p100f) {
          const int32_t shift = 13 - (static_cast<int32_t>(bits_of(largest) >> 23) - 127);
          up = power_of_two(shift);
          down = power_of_two(-shift);
        }
      }
      if (lane == 0) memory.factor(at) = down;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const int four = lane + kLanes * c;
        if (four >= kDim / 4) continue;
        const uint32_t to = memory.queries() + four / 16 * Shape::kQueryColumnBytes + at * 128 +
                            ((four % 16 / 2) ^ at % 8) * 16 + four % 2 * 8;
        store_shared(to, pack<kBF16>(own[c].x * up, own[c].y * up), pack<kBF16>(own[c].z * up, own[c].w * up));
      }
    }
    fence_for_products();
    sync_threads(kGroupReady + group, 128);
  }

  __device__ __forceinline__ void begin_rows() {
    const float factor = call.of.scale * call.of.keys.scales[place.kv_head];
#pragma unroll
    for (int of = 0; of < 2; ++of) {
      const int32_t position = place.position(min(row(of), place.rows - 1));
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
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      const uint64_t of_q = q + (step / 4 * Shape::kQueryColumnBytes + step % 4 * 32) / 16;
      const uint64_t of_k = k + (step / 4 * Shape::kColumnBytes + step % 4 * 32) / 16;
      multiply_shared<kBF16, kKeys>(scores, of_q, of_k, step > 0);
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
  __device__ __forceinline__ static void round(const float (&scores)[kScores], uint32_t (&p)[kScores / 2]) {
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
    constexpr uint32_t kStages = Shape::kStages;
    place_queries();
    begin_rows();
    float scores[kScores], factors[2];
    uint32_t p[kScores / 2];
    if (kTurns && group == 1) arrive_threads(kTurn, 256);
    wait_phase(memory.full(0, 0), 0);
    if (kTurns) sync_threads(kTurn + group, 256);
    open_products();
    multiply_keys(scores, 0);
    close_products();
    if (kTurns) arrive_threads(kTurn + 1 - group, 256);
    wait_products<0>();
    settle(scores);
    release(0, 0);
    take(scores, place.first_tile, factors);
    round(scores, p);
    uint32_t at = 1;
    for (int32_t tile = place.first_tile + 1; tile < place.end_tile; ++tile, ++at) {
      const uint32_t stage = at % kStages, before = (at - 1) % kStages;
      wait_phase(memory.full(0, stage), at / kStages & 1u);
      if (kTurns) sync_threads(kTurn + group, 256);
      open_products();
      multiply_keys(scores, stage);
      close_products();
      wait_phase(memory.full(1, before), (at - 1) / kStages & 1u);
      open_products();
      multiply_values(p, before);
      close_products();
      if (kTurns) arrive_threads(kTurn + 1 - group, 256);
      wait_products<1>();
      settle(scores);
      release(0, stage);
      take(scores, tile, factors);
      wait_products<0>();
      settle(out);
      release(1, before);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) out[i] *= factors[i % 4 / 2];
      round(scores, p);
    }
    if (kTurns && group == 0) sync_threads(kTurn, 256);
    const uint32_t last = (at - 1) % kStages;
    wait_phase(memory.full(1, last), (at - 1) / kStages & 1u);
    clear_values(last);
    open_products();
    multiply_values(p, last);
    close_products();
    wait_products<0>();
    settle(out);
    finish();
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

template <KvNumbers S, int kDim, bool kTurns>
__global__ void __launch_bounds__(kPromptThreads, 1)
    attend_prompt_kernel(const __grid_constant__ AttendPromptCall call, const __grid_constant__ CUtensorMap keys,
                         const __grid_constant__ CUtensorMap values) {
#ifdef VERNIER_WARPGROUPS
  using Shape = PromptShape<S, kDim>;
  extern __shared__ __align__(128) unsigned char shared[];
  start_next();
  const PromptPlace place = PromptPlace::of<Shape::kKeys>(call);
  if (place.rows <= 0) return;
  const uint32_t at = shared_address(shared), aligned = (at + 1023u) / 1024u * 1024u;
  const PromptMemory<S, kDim> memory{aligned, shared + (aligned - at)};
  if (threadIdx.x == 0) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
#pragma unroll
      for (int stage = 0; stage < Shape::kStages; ++stage) {
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
    give_registers<Shape::kMade ? 72 : 40>();
    const PromptProducer<S, kDim> producer(call, keys, values, place, memory);
    if constexpr (Shape::kMade) {
      producer.run_making();
    } else {
      producer.run_copies();
    }
  } else {
    take_registers<Shape::kMade ? 216 : 232>();
    PromptConsumer<S, kDim, kTurns> consumer(call, place, memory);
    consumer.run();
  }
#endif
}

/// Rows of a head's numbers as boxes of `run` of them; the address of the driver's function is asked for once.
template <KvNumbers S, int kDim>
cudaError_t describe(const unsigned char* codes, int run, CUtensorMap& map) {
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
  const cuuint32_t box[2] = {kMade ? kDim : 64, static_cast<cuuint32_t>(run)}, each[2] = {1, 1};
  const CUresult made =
      kEncode(&map, kMade ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_UINT16, 2,
              const_cast<unsigned char*>(codes), extents, stride, box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
              kMade ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return made == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

template <KvNumbers S, int kDim, bool kTurns = true>
LaunchCode launch_prompt(AttendPromptCall call, Stream stream) {
  using Shape = PromptShape<S, kDim>;
  call.run_tokens = std::gcd(call.of.table.block_tokens, Shape::kKeys);
  CUtensorMap keys, values;
  cudaError_t error = describe<S, kDim>(call.of.keys.codes, call.run_tokens, keys);
  if (error == cudaSuccess) error = describe<S, kDim>(call.of.values.codes, call.run_tokens, values);
  if (error != cudaSuccess) return static_cast<LaunchCode>(error);
  static const cudaError_t kAllowed = cudaFuncSetAttribute(
      attend_prompt_kernel<S, kDim, kTurns>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedBytes);
  if (kAllowed != cudaSuccess) return static_cast<LaunchCode>(kAllowed);
  const int32_t group = call.of.heads / call.of.kv_heads;
  const dim3 grid(static_cast<unsigned>(call.of.kv_heads),
                  static_cast<unsigned>((int64_t{call.most_rows} * group + kPromptRows - 1) / kPromptRows),
                  static_cast<unsigned>(call.sequences));
  return launch_early(attend_prompt_kernel<S, kDim, kTurns>, grid, kPromptThreads, Shape::kSharedBytes, stream, call,
                      keys, values);
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
