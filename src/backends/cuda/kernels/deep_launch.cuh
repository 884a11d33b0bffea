#pragma once

#include <cudaTypedefs.h>

#include "backends/cuda/kernels/deep_tiles.cuh"

namespace vernier::cuda {

/// The driver's function, which nothing is linked with; null where there is none.
inline PFN_cuTensorMapEncodeTiled_v12000 map_maker() {
  static const auto kMaker = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result) !=
            cudaSuccess ||
        result != cudaDriverEntryPointSuccess) {
      (void)cudaGetLastError();
      found = nullptr;
    }
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
  }();
  return kMaker;
}

/// Boxes of a matrix of rows that begin `row_bytes` apart.
inline bool make_map(CUtensorMap* map, CUtensorMapDataType type, const void* at, int64_t cols, int64_t rows,
                     int64_t row_bytes, int box_cols, int box_rows, bool swizzled) {
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(row_bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(box_cols), static_cast<cuuint32_t>(box_rows)}, steps[2] = {1, 1};
  const auto make = map_maker();
  return make != nullptr &&
         make(map, type, 2, const_cast<void*>(at), extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
              swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/// Where rows and their scales lie among what is arranged.
struct DeepScratch {
  unsigned char* rows = nullptr;
  float* scales = nullptr;
};

template <class N>
LaunchCode launch_deep_prepare(const ProductCall& call, const DeepScratch& scratch, Stream stream) {
  const int64_t cols = call.parts[0].weight.cols, units = fast_units(cols);
  const int64_t warps = call.rows * ((units + kDeepUnitsAtOnce - 1) / kDeepUnitsAtOnce);
  const bool vectors = call.x.stride % 4 == 0 && reinterpret_cast<uintptr_t>(call.x.data) % 16 == 0;
  return launch_early(deep_prepare_kernel<N::kPromoted>,
                      dim3(static_cast<unsigned>((warps + kDeepPrepareWarps - 1) / kDeepPrepareWarps)),
                      kDeepPrepareWarps * kLanes, 0, stream, call.x, call.rows, cols, static_cast<void*>(scratch.rows),
                      units * kUnitColumns, scratch.scales, deep_scale_stride(call.rows), vectors);
}

template <class S>
LaunchCode launch_deep_tiles(const ProductCall& call, const DeepScratch& scratch, int multiprocessors, int band,
                             Stream stream) {
  using N = typename S::Numbers;
  static const LaunchCode kAllowed = allow_shared(deep_kernel<S>, S::kSharedBytes);
  if (kAllowed != kLaunched) return kAllowed;
  const int64_t cols = call.parts[0].weight.cols, units = fast_units(cols);
  constexpr auto kType = N::kPromoted ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  constexpr int kNumberBytes = N::kPromoted ? 1 : 2;
  DeepMaps maps = {};
  const int64_t row_numbers = units * kUnitColumns;
  bool made = make_map(&maps.x, kType, scratch.rows, row_numbers, call.rows, row_numbers * kNumberBytes, N::kBoxColumns,
                       S::kRowsBox, true);
  if (N::kPromoted) {
    const int64_t stride = deep_scale_stride(call.rows);
    made = made && make_map(&maps.scales, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, scratch.scales, call.rows, units, stride * 4,
                            S::kRows, 1, false);
  }
  bool whole = call.out.stride % 4 == 0 && reinterpret_cast<uintptr_t>(call.out.data) % 16 == 0;
  for (int i = 0; i < call.part_count; ++i) {
    const QView& view = call.parts[i].weight;
    made = made && make_map(&maps.weights[i], kType, view.codes + view.first_row * view.row_bytes, cols, view.rows,
                            view.row_bytes, N::kBoxColumns, S::kWeightsBox, true);
    whole = whole && call.parts[i].first_output % 4 == 0;
  }
  if (!made) return static_cast<LaunchCode>(cudaErrorInvalidValue);
  DeepGrid grid;
  grid.row_tiles = static_cast<int>((call.rows + S::kRows - 1) / S::kRows);
  grid.output_tiles = static_cast<int>(part_blocks<S::kOutputs>(call));
  if (S::kTwins == DeepTwins::kRows) grid.output_tiles = (grid.output_tiles + 1) / 2;
  if (S::kTwins == DeepTwins::kWeights) grid.row_tiles = (grid.row_tiles + 1) / 2;
  grid.band = band;
  const int64_t tiles = int64_t{grid.row_tiles} * grid.output_tiles;
  const int64_t most = multiprocessors / S::kBlocks;
  const dim3 blocks(static_cast<unsigned>((tiles < most ? tiles : most) * S::kBlocks));
  return launch_early(deep_kernel<S>, blocks, kDeepThreads, S::kSharedBytes, stream, call, maps, grid, whole);
}

}  // namespace vernier::cuda
