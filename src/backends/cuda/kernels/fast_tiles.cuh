#pragma once

#include "backends/cuda/kernels/fast_rows.cuh"

/// Many rows: a block has 128 outputs and a tile of rows. Two warp groups multiply, each 64 outputs whose codes its
/// threads decode; the rows, which a launch before has rounded and laid out, are copied in bulk by one thread.
namespace vernier::cuda {

inline constexpr int kTileWarps = 8;
inline constexpr int kTileThreads = kTileWarps * kLanes;

/// kTotals: has room for the totals of quarters.
template <class F, int kRows, bool kTotals>
struct TileShape {
  static constexpr bool kRoomy = kRows == 128 || !kTotals;
  static constexpr int kWeightStages = F::kPieces == 4 ? (kRoomy ? 2 : 1) : F::kPieces == 1 ? 4 : kRoomy ? 3 : 2;
  static constexpr int kRowStages = kRows == 128 ? 5 : kTotals ? 4 : 6;
  static constexpr int kSums = kRows / 2;  ///< of a thread
  static constexpr int kStageBytes = kRows * kHalfColumns * 2;
  using Weights = WarpWeights<F, 1, kWeightStages>;
  static constexpr int kWeightsAt = kRowStages * kStageBytes;
  static constexpr int kTotalsAt = kWeightsAt + kTileWarps * Weights::kBytes;
  static constexpr int kBarriersAt = kTotalsAt + (kTotals ? kTileThreads * kSums * 4 : 0);
  static constexpr int kSharedBytes = kBarriersAt + 2 * kRowStages * 8 + 1024;  // the first stage's alignment
  static constexpr int kBlocksEach = kRows == 128 ? 1 : 2;                      // of a multiprocessor
};

/// Arranged rows of a tile.
struct TileRows {
  const Pair* data = nullptr;  // of the tile's first row
  int64_t half_pairs = 0;      // from one half to the next

  __device__ TileRows(const Pair* arranged, int64_t arranged_rows, int64_t first_row)
      : data(arranged + first_row * (kHalfColumns / 2)), half_pairs(arranged_rows * (kHalfColumns / 2)) {}
};

#ifdef VERNIER_WARPGROUPS

template <class F, int kRows, bool kTotals>
struct Tile {
  using Shape = TileShape<F, kRows, kTotals>;
  using Weights = typename Shape::Weights;
  static constexpr uint32_t kStages = Shape::kRowStages;
  static constexpr int kSums = Shape::kSums;

  uint32_t base;         // of shared memory
  unsigned char* bytes;  // the same
  uint32_t step = 0;     // halves so far: the ring goes on from one tile to the next

  __device__ __forceinline__ uint32_t full(uint32_t stage) const { return base + Shape::kBarriersAt + stage * 16; }
  __device__ __forceinline__ uint32_t empty(uint32_t stage) const { return full(stage) + 8; }

  __device__ __forceinline__ void begin() const {
    if (threadIdx.x == 0) {
      for (uint32_t stage = 0; stage < kStages; ++stage) {
        make_barrier(full(stage), 1);
        make_barrier(empty(stage), kTileWarps);
      }
      asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    }
    __syncthreads();
  }

  /// One half's rows to where step `at` looks for them, by one thread.
  __device__ __forceinline__ void copy_rows(const TileRows& rows, int half, uint32_t at) const {
    const uint32_t stage = at % kStages, use = at / kStages;
    if (use > 0) wait_phase(empty(stage), (use - 1) & 1u);
    arrive_expecting(full(stage), Shape::kStageBytes);
    copy_bulk(base + stage * Shape::kStageBytes, rows.data + half * rows.half_pairs, Shape::kStageBytes, full(stage));
  }

  /// The products of quarters [first_quarter, end_quarter); `finish(quarter, sums)` takes each one's.
  template <class Finish>
  __device__ __forceinline__ void multiply(const QView& view, int64_t first_output, const TileRows& rows,
                                           int first_quarter, int end_quarter, Finish finish) {
    const int warp = static_cast<int>(threadIdx.x) / kLanes;
    const auto units = static_cast<int>(fast_units(view.cols));
    const int end = units * end_quarter / kQuarters;
    int unit = units * first_quarter / kQuarters;
    Weights weights(view, first_output + 16 * warp, base + Shape::kWeightsAt + warp * Weights::kBytes, unit, end);
    UnitScales<Weights> unit_scales(weights, unit);
#pragma unroll
    for (int i = 0; i < Shape::kWeightStages; ++i) weights.fetch(unit + i, i);
    // Copies are asked for two steps after their place was read, when every warp has long done so.
    const uint32_t first_step = step;
    const int first_half = 2 * unit, halves = 2 * end - first_half;
    if (threadIdx.x == 0) {
      await_previous();
      for (int i = 0; i < static_cast<int>(kStages) && i < halves; ++i) copy_rows(rows, first_half + i, first_step + i);
    }
    __syncwarp();
    int stage = 0;
    uint32_t open = 0;
    bool has_open = false;
    // The products that are under way are done; their rows may be written over.
    const auto settle = [&] {
      wait_products<0>();
      if (!has_open) return;
      has_open = false;
      if (threadIdx.x % kLanes == 0) arrive(empty(open));
      const int done = static_cast<int>(step - first_step);
      if (threadIdx.x == 0 && done >= 2 && done - 2 + static_cast<int>(kStages) < halves) {
        copy_rows(rows, first_half + done - 2 + static_cast<int>(kStages), step - 2 + kStages);
      }
      __syncwarp();
    };
    for (int quarter = first_quarter; quarter < end_quarter; ++quarter) {
      const int quarter_end = units * (quarter + 1) / kQuarters;
      float sums[kSums], parts[F::kScale == ScalePlace::kUnit ? kSums : 1];
#pragma unroll
      for (float& sum : sums) sum = 0.0f;
#pragma unroll
      for (float& part : parts) part = 0.0f;
      float scales[2] = {0, 0};
      const auto add_part = [&] {
        if constexpr (F::kScale == ScalePlace::kUnit) {
#pragma unroll
          for (int i = 0; i < kSums; ++i) sums[i] = fmaf(scales[i % 4 / 2], parts[i], sums[i]);
        }
      };
      for (; unit < quarter_end; ++unit) {
        if constexpr (F::kPieces > 0) wait_copies<Shape::kWeightStages - 1>();
        float next_scales[2] = {0, 0};
        if constexpr (F::kScale == ScalePlace::kUnit) {
          unit_scales.next(next_scales);
        }
        const uint32_t words[2] = {weights.scale_word(stage, 0), weights.scale_word(stage, 1)};
        Pair high[2][2][8], low[2][2][8];  // [half][slot]
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int slot = 0; slot < 2; ++slot) {
            weights.half(unit, stage, slot, half, words[slot], high[half][slot], low[half][slot]);
          }
          if (half == 1) weights.fetch(unit + Shape::kWeightStages, stage);  // what stood there is in registers
          settle();
          if constexpr (F::kScale == ScalePlace::kUnit) {
            if (half == 0) {
              add_part();
              scales[0] = next_scales[0];
              scales[1] = next_scales[1];
#pragma unroll
              for (float& part : parts) part = 0.0f;
            }
          }
          open = step % kStages;
          wait_phase(full(open), step / kStages & 1u);
          has_open = true;
          ++step;
          open_products();
          const uint64_t operand = swizzled_operand(base + open * Shape::kStageBytes);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const Pair a[4] = {high[half][0][2 * i], high[half][1][2 * i], high[half][0][2 * i + 1],
                               high[half][1][2 * i + 1]};
            if constexpr (F::kScale == ScalePlace::kUnit) {
              group_multiply_add(parts, a, operand + 2 * i);
            } else {
              group_multiply_add(sums, a, operand + 2 * i);
            }
            if constexpr (F::kPlanes == 2) {
              const Pair b[4] = {low[half][0][2 * i], low[half][1][2 * i], low[half][0][2 * i + 1],
                                 low[half][1][2 * i + 1]};
              group_multiply_add(sums, b, operand + 2 * i);
            }
          }
          close_products();
        }
        stage = stage + 1 == Shape::kWeightStages ? 0 : stage + 1;
      }
      settle();
      add_part();
      finish(quarter, sums);
    }
    if constexpr (F::kPieces > 0) wait_copies<0>();
  }

  /// This thread's places for the totals of quarters.
  __device__ __forceinline__ float& total(int i) const {
    return reinterpret_cast<float*>(bytes + Shape::kTotalsAt)[i * kTileThreads + static_cast<int>(threadIdx.x)];
  }

  /// All quarters of a tile to `store(output, row, sum)`, with outputs and rows of the tile.
  template <class Store>
  __device__ __forceinline__ void whole(const QView& view, int64_t first_output, const TileRows& rows, Store store) {
    multiply(view, first_output, rows, 0, kQuarters, [&](int quarter, float(&sums)[kSums]) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        if (quarter == 0) {
          total(i) = sums[i];
        } else if (quarter + 1 < kQuarters) {
          total(i) += sums[i];
        } else {
          store_sum(i, total(i) + sums[i], store);
        }
      }
    });
  }

  template <class Store>
  __device__ __forceinline__ void store_sum(int i, float sum, Store store) const {
    const int warp = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
    store(16 * warp + lane / 4 + i % 4 / 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2, sum);
  }
};

template <class F, int kRows, bool kTotals>
__device__ __forceinline__ Tile<F, kRows, kTotals> tile_of(unsigned char* dynamic) {
  const uint32_t at = shared_address(dynamic), aligned = (at + 1023u) / 1024u * 1024u;
  return {aligned, dynamic + (aligned - at)};
}

#endif  // VERNIER_WARPGROUPS

/// Quarters of a tile that other blocks have a share of go to `partials` [quarter][tile][number][thread]; who is last
/// adds them.
template <class F, int kRows, int kSplits>
__global__ void __launch_bounds__(kTileThreads, (TileShape<F, kRows, kSplits == 1>::kBlocksEach))
    fast_tiles_kernel(const __grid_constant__ ProductCall call, const Pair* arranged, int64_t arranged_rows,
                      float* partials, int32_t* arrivals) {
#ifdef VERNIER_WARPGROUPS
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ int32_t arrived;
  Tile<F, kRows, kSplits == 1> tile = tile_of<F, kRows, kSplits == 1>(shared);
  tile.begin();
  const PartPlace place = part_place<kTileOutputs>(call, blockIdx.y);
  const ProductPart& part = call.parts[place.part];
  const int64_t first_row = int64_t{blockIdx.x} * kRows;
  const TileRows rows(arranged, arranged_rows, first_row);
  const auto store = [&](int output, int row, float sum) {
    if (place.first + output >= part.weight.rows || first_row + row >= call.rows) return;
    put_product<F>(call, part, place.first + output, first_row + row, sum);
  };
  if constexpr (kSplits == 1) {
    tile.whole(part.weight, place.first, rows, store);
  } else {
    constexpr int kSums = kRows / 2;
    const int64_t tiles = int64_t{gridDim.x} * gridDim.y, own = int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
    const auto at = [&](int quarter, int four) {
      return reinterpret_cast<float4*>(partials) + ((quarter * tiles + own) * (kSums / 4) + four) * kTileThreads +
             threadIdx.x;
    };
    const int first_quarter = static_cast<int>(blockIdx.z) * (kQuarters / kSplits);
    tile.multiply(part.weight, place.first, rows, first_quarter, first_quarter + kQuarters / kSplits,
                  [&](int quarter, float(&sums)[kSums]) {
#pragma unroll
                    for (int i = 0; i < kSums; i += 4) {
                      *at(quarter, i / 4) = make_float4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
                    }
                  });
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) arrived = atomicAdd(arrivals + own, 1);
    __syncthreads();
    if (arrived + 1 < kSplits) return;
    __threadfence();
#pragma unroll 4
    for (int four = 0; four < kSums / 4; ++four) {
      float4 sum = __ldcg(at(0, four));
#pragma unroll
      for (int quarter = 1; quarter < kQuarters; ++quarter) {
        const float4 part = __ldcg(at(quarter, four));
        sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
      }
      tile.store_sum(4 * four, sum.x, store);
      tile.store_sum(4 * four + 1, sum.y, store);
      tile.store_sum(4 * four + 2, sum.z, store);
      tile.store_sum(4 * four + 3, sum.w, store);
    }
    if (threadIdx.x == 0) arrivals[own] = 0;
  }
#endif
}

/// Places of each matrix as arranged_place puts them; a block takes every gridDim.x-th tile of rows.
template <class F, int kRows>
__global__ void __launch_bounds__(kTileThreads, (TileShape<F, kRows, true>::kBlocksEach))
    fast_grouped_tiles_kernel(const __grid_constant__ GroupedProductCall call, const Pair* arranged,
                              int64_t arranged_rows) {
#ifdef VERNIER_WARPGROUPS
  extern __shared__ __align__(128) unsigned char shared[];
  await_previous();
  const auto matrix = static_cast<int32_t>(blockIdx.z);
  const int32_t begin = call.first[matrix], count = call.first[matrix + 1] - begin;
  if (count <= static_cast<int32_t>(blockIdx.x) * kRows) return;
  const QView weight = call.weights[matrix];
  const int64_t first_output = int64_t{blockIdx.y} * kTileOutputs;
  if (weight.codes == nullptr || first_output >= weight.rows) return;
  Tile<F, kRows, true> tile = tile_of<F, kRows, true>(shared);
  tile.begin();
  const int64_t first_arranged = arranged_place(begin, matrix);
  const float* biases = call.biases == nullptr ? nullptr : call.biases[matrix];
  for (auto first = static_cast<int32_t>(blockIdx.x) * kRows; first < count;
       first += static_cast<int32_t>(gridDim.x) * kRows) {
    const TileRows rows(arranged, arranged_rows, first_arranged + first);
    tile.whole(weight, first_output, rows, [&](int output, int row, float sum) {
      if (first_output + output >= weight.rows || first + row >= count) return;
      sum *= sum_factor<F>(weight, first_output + output);
      if (biases != nullptr) sum += biases[first_output + output];
      call.out.data[(begin + first + row) * call.out.stride + first_output + output] = sum;
    });
  }
#endif
}

template <class F, int kRows, int kSplits>
LaunchCode launch_fast_tiles(const ProductCall& call, const FastScratch& scratch, int64_t arranged_rows,
                             Stream stream) {
  constexpr int kShared = TileShape<F, kRows, kSplits == 1>::kSharedBytes;
  static const LaunchCode kAllowed = allow_shared(fast_tiles_kernel<F, kRows, kSplits>, kShared);
  if (kAllowed != kLaunched) return kAllowed;
  const dim3 grid(static_cast<unsigned>((call.rows + kRows - 1) / kRows), part_blocks<kTileOutputs>(call), kSplits);
  fast_tiles_kernel<F, kRows, kSplits><<<grid, kTileThreads, kShared, stream_of(stream)>>>(
      call, scratch.arranged, arranged_rows, scratch.partials, scratch.arrivals);
  return after_launch();
}

template <class F, int kRows>
LaunchCode launch_fast_grouped_tiles(const GroupedProductCall& call, const FastScratch& scratch, int64_t arranged_rows,
                                     int32_t row_blocks, Stream stream) {
  constexpr int kShared = TileShape<F, kRows, true>::kSharedBytes;
  static const LaunchCode kAllowed = allow_shared(fast_grouped_tiles_kernel<F, kRows>, kShared);
  if (kAllowed != kLaunched) return kAllowed;
  const dim3 grid(static_cast<unsigned>(row_blocks),
                  static_cast<unsigned>((call.most_outputs + kTileOutputs - 1) / kTileOutputs),
                  static_cast<unsigned>(call.matrices));
  fast_grouped_tiles_kernel<F, kRows>
      <<<grid, kTileThreads, kShared, stream_of(stream)>>>(call, scratch.arranged, arranged_rows);
  return after_launch();
}

}  // namespace vernier::cuda
