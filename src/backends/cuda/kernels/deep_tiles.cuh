#pragma once

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/decode.h"
#include "backends/cuda/kernels/deep_ops.cuh"
#include "backends/cuda/kernels/fast_rows.cuh"

/// Many rows: rows and weights lie in shared memory as tensor cores read both. One thread asks for boxes of 128 bytes
/// of columns, a ring of stages ahead; two warp groups multiply. Blocks stay and take tile after tile.
namespace vernier::cuda {

inline constexpr int kDeepThreads = 3 * 128;  ///< the first warp group asks for boxes
inline constexpr int kDeepShared = 227 * 1024;
inline constexpr int kBoxBytes = 128;                  ///< of a row's columns
inline constexpr int kSumRows = 16, kSumColumns = 32;  ///< of a warp's sums that leave together, whole lines
inline constexpr int kSumStride = 40;  ///< numbers from one row to the next, so that no bank is met twice

/// What of a pair of blocks is the same, and is read from memory once.
enum class DeepTwins : uint8_t { kNone, kRows, kWeights };

struct DeepE4M3Row : E4M3Numbers {
  static constexpr bool kPromoted = true;      ///< a box's sum is scaled before it is added
  static constexpr bool kUnitScales = false;   ///< by the weight's scale, too
  static constexpr bool kOutputScales = true;  ///< an output's sum is scaled
  static constexpr int kBoxColumns = 128;
};
struct DeepE4M3Block : E4M3Numbers {
  static constexpr bool kPromoted = true, kUnitScales = true, kOutputScales = false;
  static constexpr int kBoxColumns = 128;
};
struct DeepBF16 : BF16Numbers {
  static constexpr bool kPromoted = false, kUnitScales = false, kOutputScales = false;
  static constexpr int kBoxColumns = 64;
};

/// kWaves: of 64 rows, for each of the two warp groups.
template <class N, int kWavesOf, int kOutputsOf, DeepTwins kTwinsOf>
struct DeepShape {
  using Numbers = N;
  static constexpr int kWaves = kWavesOf, kOutputs = kOutputsOf, kRows = 128 * kWaves;
  static constexpr DeepTwins kTwins = kTwinsOf;
  static constexpr int kBlocks = kTwins == DeepTwins::kNone ? 1 : 2;  ///< of a cluster
  static constexpr int kRowsBytes = kRows * kBoxBytes, kWeightsBytes = kOutputs * kBoxBytes;
  static constexpr int kScalesBytes = N::kPromoted ? kRows * 4 : 0;
  static constexpr int kStageBytes = kRowsBytes + kWeightsBytes + kScalesBytes;
  static constexpr int kSumsBytes = 8 * kSumRows * kSumStride * 4;  ///< on their way out
  static constexpr int kStages = (kDeepShared - kSumsBytes - 1024 - 256) / kStageBytes;
  static constexpr int kWeightsAt = kStages * kRowsBytes, kScalesAt = kWeightsAt + kStages * kWeightsBytes;
  static constexpr int kSumsAt = kScalesAt + kStages * kScalesBytes;
  static constexpr int kBarriersAt = kSumsAt + kSumsBytes;
  static constexpr int kSharedBytes = kBarriersAt + kStages * 16 + 1024;  ///< the first stage's alignment
  static constexpr int kRowsBox = kTwins == DeepTwins::kRows ? kRows / 2 : kRows;
  static constexpr int kWeightsBox = kTwins == DeepTwins::kWeights ? kOutputs / 2 : kOutputs;
  static constexpr int kSegments = kOutputs / 64;  ///< that a block of scales covers whole or not at all
  static_assert(kSharedBytes <= kDeepShared && kStages <= 16);
};

/// Tiles in the order in which they are taken: bands of rows, so that what neighbours read is in the cache.
struct DeepGrid {
  int row_tiles = 0, output_tiles = 0;  ///< pairs of them where twins have different ones
  int band = 1;
};

struct DeepMaps {
  CUtensorMap x, scales;
  CUtensorMap weights[kMostParts];
};

#ifdef VERNIER_WARPGROUPS

/// A value that is there when what was launched before is done.
template <int kSums>
__device__ __forceinline__ void settled(float (&sums)[kSums]) {
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

template <class S>
struct DeepTile {
  PartPlace place;
  int64_t first_row;

  __device__ __forceinline__ DeepTile(const ProductCall& call, const DeepGrid& grid, int at, int rank) {
    const int each = grid.band * grid.output_tiles, band = at / each, within = at - band * each;
    const int height = min(grid.band, grid.row_tiles - band * grid.band);
    int row = band * grid.band + within % height, output = within / height;
    if (S::kTwins == DeepTwins::kRows) output = 2 * output + rank;
    if (S::kTwins == DeepTwins::kWeights) row = 2 * row + rank;
    place = part_place<S::kOutputs>(call, output);
    first_row = int64_t{row} * S::kRows;
  }
};

template <class S>
struct DeepBlock {
  using N = typename S::Numbers;
  uint32_t base;
  int rank;

  __device__ __forceinline__ uint32_t full(uint32_t stage) const { return base + S::kBarriersAt + stage * 16; }
  __device__ __forceinline__ uint32_t empty(uint32_t stage) const { return full(stage) + 8; }

  __device__ __forceinline__ void begin() const {
    if (threadIdx.x == 0) {
      for (uint32_t stage = 0; stage < S::kStages; ++stage) {
        make_barrier(full(stage), 1);
        make_barrier(empty(stage), 8 * S::kBlocks);
      }
      asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    }
    if (S::kBlocks > 1) {
      meet_cluster();
    } else {
      __syncthreads();
    }
  }

  /// One thread's work: `step` counts boxes from one tile to the next.
  __device__ __forceinline__ void ask(const DeepTile<S>& tile, const DeepMaps& maps, int units, uint32_t& step) const {
    const CUtensorMap* weights = maps.weights + tile.place.part;
    const auto row = static_cast<int>(tile.first_row), output = static_cast<int>(tile.place.first);
    for (int unit = 0; unit < units; ++unit, ++step) {
      const uint32_t stage = step % S::kStages, use = step / S::kStages;
      if (use > 0) wait_phase(empty(stage), (use - 1) & 1u);
      arrive_expecting(full(stage), S::kStageBytes);
      const uint32_t rows_at = base + stage * S::kRowsBytes,
                     weights_at = base + S::kWeightsAt + stage * S::kWeightsBytes;
      const int column = unit * N::kBoxColumns;
      if constexpr (S::kTwins == DeepTwins::kRows) {
        copy_box_to_pair(rows_at + rank * S::kRowsBox * kBoxBytes, &maps.x, column, row + rank * S::kRowsBox,
                         full(stage));
      } else {
        copy_box(rows_at, &maps.x, column, row, full(stage));
      }
      if constexpr (S::kTwins == DeepTwins::kWeights) {
        copy_box_to_pair(weights_at + rank * S::kWeightsBox * kBoxBytes, weights, column,
                         output + rank * S::kWeightsBox, full(stage));
      } else {
        copy_box(weights_at, weights, column, output, full(stage));
      }
      if constexpr (N::kPromoted) {
        copy_box(base + S::kScalesAt + stage * S::kScalesBytes, &maps.scales, row, unit, full(stage));
      }
    }
  }

  __device__ __forceinline__ void release(uint32_t stage) const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    if (lane == 0) arrive(empty(stage));
    if (S::kBlocks > 1 && lane == 1) arrive_at(empty(stage), static_cast<uint32_t>(1 - rank));
  }

  __device__ __forceinline__ float number_at(uint32_t at) const {
    float number;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(number) : "r"(at));
    return number;
  }

  /// A warp group's sums of a tile, as group products leave them.
  __device__ __forceinline__ void multiply(const DeepTile<S>& tile, const QView& view, int units, uint32_t& step,
                                           float (&sums)[S::kWaves][S::kOutputs / 2]) const {
    constexpr int kSums = S::kOutputs / 2;
    const int group = static_cast<int>(threadIdx.x) / 128 - 1;
    const int first = group * 64 * S::kWaves;  // row of the tile
    const int own =
        first + static_cast<int>(threadIdx.x) / kLanes % 4 * 16 + static_cast<int>(threadIdx.x) % kLanes / 4;
    if constexpr (N::kPromoted) {
      const float* scales[S::kSegments];
      float next[S::kSegments];
      if constexpr (N::kUnitScales) {
#pragma unroll
        for (int i = 0; i < S::kSegments; ++i) {
          const int64_t output = view.first_row + min(tile.place.first + 64 * i, view.rows - 1);
          scales[i] = reinterpret_cast<const float*>(view.inner_scales) + output / view.group_rows * view.groups_across;
          next[i] = *scales[i];
        }
      }
#pragma unroll
      for (auto& wave : sums) {
#pragma unroll
        for (float& sum : wave) sum = 0.0f;
      }
      float parts[kSums];
#pragma unroll
      for (float& part : parts) part = 0.0f;
      for (int unit = 0; unit < units; ++unit, ++step) {
        const uint32_t stage = step % S::kStages;
        float now[S::kSegments];
        if constexpr (N::kUnitScales) {
#pragma unroll
          for (int i = 0; i < S::kSegments; ++i) {
            now[i] = next[i];
            next[i] = scales[i][unit + 1 < units ? unit + 1 : unit];
          }
        }
        wait_phase(full(stage), step / S::kStages & 1u);
        const uint64_t a = swizzled_operand(base + stage * S::kRowsBytes + first * kBoxBytes);
        const uint64_t b = swizzled_operand(base + S::kWeightsAt + stage * S::kWeightsBytes);
        float factors[S::kWaves][2];
#pragma unroll
        for (int wave = 0; wave < S::kWaves; ++wave) {
          const uint32_t at = base + S::kScalesAt + stage * S::kScalesBytes + (own + 64 * wave) * 4;
          factors[wave][0] = number_at(at);
          factors[wave][1] = number_at(at + 32);
        }
#pragma unroll
        for (int wave = 0; wave < S::kWaves; ++wave) {
          settled(parts);
          open_products();
          multiply_boxes<false>(N{}, parts, a + wave * 512, b);
          multiply_boxes<true>(N{}, parts, a + wave * 512 + 2, b + 2);
          multiply_boxes<true>(N{}, parts, a + wave * 512 + 4, b + 4);
          multiply_boxes<true>(N{}, parts, a + wave * 512 + 6, b + 6);
          close_products();
          wait_products<0>();
          settled(parts);
          if (wave + 1 == S::kWaves) release(stage);
#pragma unroll
          for (int segment = 0; segment < S::kSegments; ++segment) {
            float both[2] = {factors[wave][0], factors[wave][1]};
            if constexpr (N::kUnitScales) both[0] *= now[segment], both[1] *= now[segment];
#pragma unroll
            for (int i = 32 * segment; i < 32 * (segment + 1); ++i) {
              sums[wave][i] = fmaf(both[i % 4 / 2], parts[i], sums[wave][i]);
            }
          }
        }
      }
    } else {
#pragma unroll
      for (auto& wave : sums) {
#pragma unroll
        for (float& sum : wave) sum = 0.0f;
        settled(wave);
      }
      for (int unit = 0; unit < units; ++unit, ++step) {
        const uint32_t stage = step % S::kStages;
        wait_phase(full(stage), step / S::kStages & 1u);
        const uint64_t a = swizzled_operand(base + stage * S::kRowsBytes + first * kBoxBytes);
        const uint64_t b = swizzled_operand(base + S::kWeightsAt + stage * S::kWeightsBytes);
        open_products();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int wave = 0; wave < S::kWaves; ++wave) {
            multiply_boxes<true>(N{}, sums[wave], a + wave * 512 + 2 * i, b + 2 * i);
          }
        }
        close_products();
        wait_products<1>();  // those of the box before
        if (unit > 0) release((step - 1) % S::kStages);
      }
      wait_products<0>();
#pragma unroll
      for (auto& wave : sums) settled(wave);
      release((step - 1) % S::kStages);
    }
  }

  /// To their places, by way of shared memory: a warp stores whole lines. `whole`: four neighbours at once.
  __device__ __forceinline__ void store(const ProductCall& call, const DeepTile<S>& tile, bool whole,
                                        const float (&sums)[S::kWaves][S::kOutputs / 2]) const {
    const ProductPart& part = call.parts[tile.place.part];
    const int warp = static_cast<int>(threadIdx.x) / kLanes - 4, lane = static_cast<int>(threadIdx.x) % kLanes;
    const int64_t first_row = tile.first_row + warp / 4 * 64 * S::kWaves + warp % 4 * 16;
    const uint32_t buffer = base + S::kSumsAt + warp * kSumRows * kSumStride * 4;
    const uint32_t to = buffer + (lane / 4 * kSumStride + lane % 4 * 2) * 4;
    const uint32_t from = buffer + (lane / 8 * kSumStride + lane % 8 * 4) * 4;
#pragma unroll
    for (int segment = 0; segment < S::kOutputs / kSumColumns; ++segment) {
      const int64_t output = tile.place.first + segment * kSumColumns + lane % 8 * 4;
      const int64_t column = part.first_output + output;
      const auto count = static_cast<int>(min(part.weight.rows - output, int64_t{4}));  // of this lane
      float factors[4], biases[4] = {0, 0, 0, 0};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        factors[i] = part.weight.outer_scale;
        if (i >= count) continue;
        if (N::kOutputScales) factors[i] *= row_scale(part.weight, part.weight.first_row + output + i);
        if (call.bias != nullptr) biases[i] = call.bias[column + i];
      }
#pragma unroll
      for (int wave = 0; wave < S::kWaves; ++wave) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 8; ++i) {  // four times eight columns, of two rows
          const float* two = sums[wave] + segment * 16 + i / 2 * 4 + i % 2 * 2;
          asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + (i % 2 * 8 * kSumStride + i / 2 * 8) * 4),
                       "f"(two[0]), "f"(two[1])
                       : "memory");
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < kSumRows / 4; ++i) {
          const int64_t row = first_row + wave * 64 + 4 * i + lane / 8;
          float made[4];
          asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                       : "=f"(made[0]), "=f"(made[1]), "=f"(made[2]), "=f"(made[3])
                       : "r"(from + 4 * i * kSumStride * 4));
          if (row >= call.rows || count <= 0) continue;
          float* out = call.out.data + row * call.out.stride + column;
          if (whole && count == 4) {
            auto* four = reinterpret_cast<float4*>(out);
            float4 there = make_float4(0, 0, 0, 0);
            if (call.add) there = *four;
            *four = make_float4(finished(call, made[0], factors[0], biases[0], there.x),
                                finished(call, made[1], factors[1], biases[1], there.y),
                                finished(call, made[2], factors[2], biases[2], there.z),
                                finished(call, made[3], factors[3], biases[3], there.w));
          } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              if (j < count) out[j] = finished(call, made[j], factors[j], biases[j], call.add ? out[j] : 0.0f);
            }
          }
        }
      }
    }
  }

  __device__ __forceinline__ static float finished(const ProductCall& call, float sum, float factor, float bias,
                                                   float there) {
    sum *= factor;
    if (call.bias != nullptr) sum += bias;
    return call.add ? there + sum : sum;
  }
  __device__ __forceinline__ static float row_scale(const QView& view, int64_t row) {
    if (view.inner == ScaleKind::kNone) return 1.0f;
    return scale_at(view, (view.group_rows == 1 ? row : row / view.group_rows) * view.groups_across);
  }
};

#endif  // VERNIER_WARPGROUPS

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define VERNIER_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#else
#define VERNIER_CLUSTER(blocks)
#endif

template <class S>
__global__ void VERNIER_CLUSTER(S::kBlocks) __launch_bounds__(kDeepThreads, 1)
    deep_kernel(const __grid_constant__ ProductCall call, const __grid_constant__ DeepMaps maps, DeepGrid grid,
                bool whole) {
#ifdef VERNIER_WARPGROUPS
  extern __shared__ __align__(128) unsigned char shared[];
  DeepBlock<S> block;
  block.base = (shared_address(shared) + 1023u) / 1024u * 1024u;
  block.rank = S::kBlocks > 1 ? static_cast<int>(rank_in_cluster()) : 0;
  block.begin();
  const int64_t cols = call.parts[0].weight.cols;
  const auto units = static_cast<int>((cols + S::Numbers::kBoxColumns - 1) / S::Numbers::kBoxColumns);
  const int tiles = grid.row_tiles * grid.output_tiles, step_of = static_cast<int>(gridDim.x) / S::kBlocks;
  uint32_t step = 0;
  await_previous();
  if (threadIdx.x < 128) {
    give_registers<40>();
    if (threadIdx.x == 0) {
      for (int at = static_cast<int>(blockIdx.x) / S::kBlocks; at < tiles; at += step_of) {
        block.ask(DeepTile<S>(call, grid, at, block.rank), maps, units, step);
      }
    }
    __syncwarp();
  } else {
    take_registers<232>();
    for (int at = static_cast<int>(blockIdx.x) / S::kBlocks; at < tiles; at += step_of) {
      const DeepTile<S> tile(call, grid, at, block.rank);
      float sums[S::kWaves][S::kOutputs / 2];
      block.multiply(tile, call.parts[tile.place.part].weight, units, step, sums);
      block.store(call, tile, whole, sums);
    }
  }
  if (S::kBlocks > 1) meet_cluster();  // the other block's arrivals have come
#endif
}

// ---- rows as boxes hold them ----

inline constexpr int kDeepPrepareWarps = 8;
inline constexpr int kDeepUnitsAtOnce = 4;

/// To E4M3, 128 columns under one scale, the largest / 448, in scales [unit][scale_stride]; or to bf16. Rows of
/// `row_numbers` numbers, of which those beyond x are zeros. A warp has four units of a row.
template <bool kE4M3>
__global__ void __launch_bounds__(kDeepPrepareWarps* kLanes)
    deep_prepare_kernel(ConstRows x, int64_t rows, int64_t cols, void* to, int64_t row_numbers, float* scales,
                        int64_t scale_stride, bool vectors) {
#ifdef VERNIER_WARPGROUPS
  await_previous();
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t units = row_numbers / kUnitColumns, fours = (units + kDeepUnitsAtOnce - 1) / kDeepUnitsAtOnce;
  const int64_t at = int64_t{blockIdx.x} * kDeepPrepareWarps + threadIdx.x / kLanes;
  const int64_t row = at / fours, first = at % fours * kDeepUnitsAtOnce;
  if (row >= rows) return;
  float4 numbers[kDeepUnitsAtOnce];
#pragma unroll
  for (int i = 0; i < kDeepUnitsAtOnce; ++i) {
    const int64_t column = (first + i) * kUnitColumns + 4 * lane;
    const float* from = x.data + row * x.stride + column;
    if (vectors && column + 4 <= cols) {
      numbers[i] = *reinterpret_cast<const float4*>(from);
    } else {
      numbers[i].x = column < cols ? from[0] : 0.0f;
      numbers[i].y = column + 1 < cols ? from[1] : 0.0f;
      numbers[i].z = column + 2 < cols ? from[2] : 0.0f;
      numbers[i].w = column + 3 < cols ? from[3] : 0.0f;
    }
  }
#pragma unroll
  for (int i = 0; i < kDeepUnitsAtOnce; ++i) {
    if (first + i >= units) return;
    const float4 each = numbers[i];
    const int64_t place = row * row_numbers + (first + i) * kUnitColumns + 4 * lane;
    if constexpr (kE4M3) {
      float largest = fmaxf(fmaxf(fabsf(each.x), fabsf(each.y)), fmaxf(fabsf(each.z), fabsf(each.w)));
      for (int step = kLanes / 2; step > 0; step /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, step));
      const float scale = fmaxf(largest, kLeastLargest) / kLargestE4M3;
      uint16_t low, high;
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(each.y / scale), "f"(each.x / scale));
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(each.w / scale), "f"(each.z / scale));
      *reinterpret_cast<uint32_t*>(static_cast<unsigned char*>(to) + place) = uint32_t{low} | uint32_t{high} << 16;
      if (lane == 0) scales[(first + i) * scale_stride + row] = scale;
    } else {
      *reinterpret_cast<uint2*>(static_cast<unsigned char*>(to) + 2 * place) =
          make_uint2(pair_of(each.x, each.y), pair_of(each.z, each.w));
    }
  }
#endif
}

}  // namespace vernier::cuda
