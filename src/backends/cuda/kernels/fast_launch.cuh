#pragma once

#include "backends/cuda/kernels/fast_tiles.cuh"

/// What one kind of codes can be launched as.
namespace vernier::cuda {

inline constexpr int kArrangeThreads = 128;

/// Which row of x a place holds, and where it stands among arranged rows.
struct ArrangeCall {
  ConstRows x;
  int64_t rows = 0;  ///< arranged; those without a row of x are zeros, but where places are grouped, which leave gaps
  int64_t x_rows = 0;
  int64_t cols = 0;
  const int32_t* first = nullptr;        ///< [matrices + 1]; null: not grouped
  const int32_t* source_rows = nullptr;  ///< [places]; null: the places themselves
  int32_t matrices = 0;
};

struct ArrangedPlace {
  int64_t from = -1;  // row of x; -1: none
  int64_t to = 0;
};
__device__ __forceinline__ ArrangedPlace arranged_place_of(const ArrangeCall& call, int64_t row) {
  if (call.first == nullptr) return {row < call.x_rows ? row : -1, row};
  int32_t low = 0, high = call.matrices;  // the last matrix that begins at or before the place
  while (high - low > 1) {
    const int32_t middle = (low + high) / 2;
    if (call.first[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const int64_t to = arranged_place(call.first[low], low) + row - call.first[low];
  return {call.source_rows == nullptr ? row : call.source_rows[row], to};
}

/// A thread's four columns of a half, rounded.
template <class F>
__device__ __forceinline__ float arranged_number(const float* row, int64_t unit, int half, int thread, int member,
                                                 int64_t cols) {
  const int64_t column = unit * kUnitColumns + F::column(half, thread, member / 4) + member % 4;
  return row != nullptr && column < cols ? row[column] : 0.0f;
}

/// For blocks of few rows; see ArrangedRows. Four pairs a thread.
template <class F>
__global__ void arrange_few_kernel(const __grid_constant__ ArrangeCall call, Pair* out) {
  await_previous();
  const int64_t units = fast_units(call.cols);
  const int64_t at = int64_t{blockIdx.x} * kArrangeThreads + threadIdx.x;
  const int lane = static_cast<int>(at % kLanes), two = static_cast<int>(at / kLanes % 2);
  const int half = static_cast<int>(at / (2 * kLanes) % 2);
  const int64_t unit = at / (4 * kLanes) % units, row = at / (4 * kLanes) / units * 8 + lane / 4;
  if (row >= call.rows) return;
  const float* from = row < call.x_rows ? call.x.data + row * call.x.stride : nullptr;
  Pair pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int pair = 4 * two + i;
    pairs[i] = row_pair<F>(arranged_number<F>(from, unit, half, lane % 4, F::member(pair, 0), call.cols),
                           arranged_number<F>(from, unit, half, lane % 4, F::member(pair, 1), call.cols));
  }
  *reinterpret_cast<uint4*>(out + at * 4) = *reinterpret_cast<const uint4*>(pairs);
}

/// For tiles: [half][row][64 columns], as swizzled_operand says. A piece of 16 bytes a thread: one pair of each of the
/// four threads that multiply.
template <class F>
__global__ void arrange_many_kernel(const __grid_constant__ ArrangeCall call, Pair* out, int64_t arranged_rows) {
  await_previous();
  const int64_t at = int64_t{blockIdx.x} * kArrangeThreads + threadIdx.x;
  const int64_t halves = 2 * fast_units(call.cols), row = at / 8 / halves, half = at / 8 % halves;
  const int piece = static_cast<int>(at % 8);
  if (row >= call.rows || (call.first != nullptr && row >= call.first[call.matrices])) return;
  const ArrangedPlace place = arranged_place_of(call, row);
  const float* from = place.from < 0 ? nullptr : call.x.data + place.from * call.x.stride;
  Pair pairs[4];
#pragma unroll
  for (int thread = 0; thread < 4; ++thread) {
    const auto number = [&](int odd) {
      return arranged_number<F>(from, half / 2, static_cast<int>(half % 2), thread, F::member(piece, odd), call.cols);
    };
    pairs[thread] = row_pair<F>(number(0), number(1));
  }
  Pair* to =
      out + (half * arranged_rows + place.to) * (kHalfColumns / 2) + (piece ^ static_cast<int>(place.to % 8)) * 4;
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(pairs);
}

inline unsigned arrange_blocks(int64_t threads) {
  return static_cast<unsigned>((threads + kArrangeThreads - 1) / kArrangeThreads);
}

template <class F>
LaunchCode launch_arrange(const ArrangeCall& call, bool few, int64_t arranged_rows, Pair* out, Stream stream) {
  if (few) {
    const int64_t threads = call.rows / 8 * fast_units(call.cols) * 4 * kLanes;
    arrange_few_kernel<F><<<arrange_blocks(threads), kArrangeThreads, 0, stream_of(stream)>>>(call, out);
  } else {
    const int64_t threads = call.rows * 2 * fast_units(call.cols) * 8;
    arrange_many_kernel<F>
        <<<arrange_blocks(threads), kArrangeThreads, 0, stream_of(stream)>>>(call, out, arranged_rows);
  }
  return after_launch();
}

template <FastCodes C>
LaunchCode launch_fast(const ProductCall& call, const FastPlan& plan, const FastScratch& scratch, Stream stream) {
  using F = Fragment<C>;
  const int64_t arranged_rows = (call.rows + plan.tile_rows - 1) / plan.tile_rows * plan.tile_rows;
  if (plan.arranged) {
    ArrangeCall arrange;
    arrange.x = call.x;
    arrange.rows = arranged_rows;
    arrange.x_rows = call.rows;
    arrange.cols = call.parts[0].weight.cols;
    const LaunchCode code =
        launch_arrange<F>(arrange, plan.tile_rows <= kMostStripRows, arranged_rows, scratch.arranged, stream);
    if (code != kLaunched) return code;
  }
  if (plan.tile_rows == 8) {
    return plan.tiles == 1 ? launch_fast_rows<F, 1, 1, false>(call, nullptr, stream)
                           : launch_fast_rows<F, 2, 1, false>(call, nullptr, stream);
  }
  if (plan.tile_rows == 16) return launch_fast_rows<F, 2, 2, true>(call, scratch.arranged, stream);
  if (plan.tile_rows == 32) return launch_fast_rows<F, 2, 4, true>(call, scratch.arranged, stream);
  if (plan.tile_rows == 128) return launch_fast_tiles<F, 128, 1>(call, scratch, arranged_rows, stream);
  return launch_fast_tiles<F, 64, 4>(call, scratch, arranged_rows, stream);
}

template <FastCodes C>
LaunchCode launch_fast_grouped(const FastGroupedCall& call, const FastPlan& plan, const FastScratch& scratch,
                               Stream stream) {
  using F = Fragment<C>;
  const GroupedProductCall& product = call.product;
  if (plan.tile_rows == 8) {
    return launch_fast_grouped_rows<F, 2>(product, stream);
  }
  const int64_t arranged_rows = arranged_place(call.places, product.matrices) + plan.tile_rows;
  ArrangeCall arrange;
  arrange.x = product.x;
  arrange.rows = call.places;
  arrange.cols = call.cols;
  arrange.first = product.first;
  arrange.source_rows = product.source_rows;
  arrange.matrices = product.matrices;
  const LaunchCode code = launch_arrange<F>(arrange, false, arranged_rows, scratch.arranged, stream);
  if (code != kLaunched) return code;
  const auto row_blocks = static_cast<int32_t>((call.places + plan.tile_rows - 1) / plan.tile_rows);
  return launch_fast_grouped_tiles<F, 64>(product, scratch, arranged_rows, row_blocks < 4 ? row_blocks : 4, stream);
}

}  // namespace vernier::cuda
