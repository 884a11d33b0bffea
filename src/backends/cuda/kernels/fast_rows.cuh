#pragma once

#include "backends/cuda/kernels/block.cuh"
#include "backends/cuda/kernels/fragments.cuh"

/// Few rows: a block has 16 or 32 outputs, and each of its four warps a quarter of the columns.
namespace vernier::cuda {

inline constexpr int kRowsThreads = kQuarters * kLanes;

/// A unit's weights under way for a warp at once, in bytes, is what hides the memory's distance.
template <class F>
constexpr int row_stages() {
  return F::kPieces == 1 ? 7 : F::kPieces == 4 ? 2 : 4;
}

inline constexpr int kRowsBuffer = 8 * kUnitColumns * 2;  ///< a unit of eight rows, in bytes

/// Up to eight rows as they are. A warp reads a unit of each as it lies, four columns a lane, rounds it and passes it
/// on through memory of its own, in the order of ArrangedRows: read by those who multiply it, each lane would touch
/// lines of its own.
struct PlainRows {
  float4 raw[8];  // the next unit: far away, too

  const float* data;  // this lane's first columns
  int64_t stride;
  int32_t row[8];
  int count, cols;
  uint32_t buffer;  // of the warp

  template <class F>
  __device__ __forceinline__ void load(int unit) {
    const int column = unit * kUnitColumns + static_cast<int>(threadIdx.x) % kLanes * 4;
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      if (r >= count) break;
      raw[r] = make_float4(0, 0, 0, 0);
      if (column < cols) raw[r] = *reinterpret_cast<const float4*>(data + row[r] * stride + unit * kUnitColumns);
    }
  }
  /// Rows that are not there are zeros from the beginning.
  __device__ __forceinline__ void clear() const {
    for (int at = static_cast<int>(threadIdx.x) % kLanes * 16; at < kRowsBuffer; at += kLanes * 16) {
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(buffer + at), "r"(0) : "memory");
    }
  }
  template <class F>
  __device__ __forceinline__ void settle() {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    int half, thread, four;
    F::owner(lane, half, thread, four);
    const uint32_t to = buffer + ((half * 2 + four / 2) * kLanes + thread) * 16 + four % 2 * 8;
    __syncwarp();  // what was there has been read
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      if (r >= count) break;
      float first[2], second[2];
      F::join(raw[r], first, second);
      asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to + r * 64), "r"(row_pair<F>(first[0], first[1])),
                   "r"(row_pair<F>(second[0], second[1]))
                   : "memory");
    }
    __syncwarp();
  }
  __device__ __forceinline__ void half(int half, int, Pair (&pairs)[8]) const {
    const uint32_t at = buffer + half * 2 * kLanes * 16 + threadIdx.x % kLanes * 16;
#pragma unroll
    for (int two = 0; two < 2; ++two) {
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(pairs[4 * two]), "=r"(pairs[4 * two + 1]), "=r"(pairs[4 * two + 2]), "=r"(pairs[4 * two + 3])
                   : "r"(at + two * kLanes * 16));
    }
  }
};

/// Rows as arrange_few lays them out: [tile of 8 rows][unit][half][two][lane][four pairs].
template <int kRowTiles>
struct ArrangedRows {
  uint4 raw[kRowTiles][4], now[kRowTiles][4];  // the next unit, and this one

  const Pair* data;
  int units;

  template <class F>
  __device__ __forceinline__ void load(int unit) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      const Pair* at = data + ((r * units + unit) * 4 * kLanes + threadIdx.x % kLanes) * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) raw[r][i] = *reinterpret_cast<const uint4*>(at + i * kLanes * 4);
    }
  }
  __device__ __forceinline__ void clear() const {}
  template <class F>
  __device__ __forceinline__ void settle() {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) now[r][i] = raw[r][i];
    }
  }
  __device__ __forceinline__ void half(int half, int r, Pair (&pairs)[8]) const {
    *reinterpret_cast<uint4*>(pairs) = now[r][2 * half];
    *reinterpret_cast<uint4*>(pairs + 4) = now[r][2 * half + 1];
  }
};

/// A half's four products of 16 columns for every tile.
template <class F, int kTiles, int kRowTiles>
__device__ __forceinline__ void multiply_half(const Pair (&high)[2 * kTiles][8], const Pair (&low)[2 * kTiles][8],
                                              const Pair (&x)[kRowTiles][8], float (&sums)[kTiles][kRowTiles][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const Pair a[4] = {high[2 * tile][2 * i], high[2 * tile + 1][2 * i], high[2 * tile][2 * i + 1],
                         high[2 * tile + 1][2 * i + 1]};
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) multiply_add(sums[tile][r], a, x[r][2 * i], x[r][2 * i + 1]);
      if constexpr (F::kPlanes == 2) {
        const Pair b[4] = {low[2 * tile][2 * i], low[2 * tile + 1][2 * i], low[2 * tile][2 * i + 1],
                           low[2 * tile + 1][2 * i + 1]};
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) multiply_add(sums[tile][r], b, x[r][2 * i], x[r][2 * i + 1]);
      }
    }
  }
}

/// A warp's quarter: sums[tile][row tile] as multiply_add leaves them.
template <class F, int kTiles, int kRowTiles, class Weights, class X>
__device__ __forceinline__ void add_quarter(Weights& weights, int begin, int end, X& x,
                                            float (&sums)[kTiles][kRowTiles][4]) {
  constexpr int kStages = row_stages<F>();
  if (begin < end) x.template load<F>(begin);
  UnitScales<Weights> unit_scales(weights, begin);
  int stage = 0;
  for (int unit = begin; unit < end; ++unit) {
    x.template settle<F>();
    if (unit + 1 < end) x.template load<F>(unit + 1);
    if constexpr (F::kPieces > 0) wait_copies<kStages - 1>();
    float scales[2 * kTiles];
    float parts[kTiles][kRowTiles][4] = {};
    if constexpr (F::kScale == ScalePlace::kUnit) {
      unit_scales.next(scales);
    }
    uint32_t words[2 * kTiles];
#pragma unroll
    for (int slot = 0; slot < 2 * kTiles; ++slot) words[slot] = weights.scale_word(stage, slot);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Pair in[kRowTiles][8], high[2 * kTiles][8], low[2 * kTiles][8];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) x.half(half, r, in[r]);
#pragma unroll
      for (int slot = 0; slot < 2 * kTiles; ++slot) {
        weights.half(unit, stage, slot, half, words[slot], high[slot], low[slot]);
      }
      if (half == 1) weights.fetch(unit + kStages, stage);  // what stood there is in registers
      if constexpr (F::kScale == ScalePlace::kUnit) {
        multiply_half<F, kTiles, kRowTiles>(high, low, in, parts);
      } else {
        multiply_half<F, kTiles, kRowTiles>(high, low, in, sums);
      }
    }
    if constexpr (F::kScale == ScalePlace::kUnit) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            sums[tile][r][i] = fmaf(scales[2 * tile + i / 2], parts[tile][r][i], sums[tile][r][i]);
          }
        }
      }
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
}

/// Sums of a block's 16 kTiles outputs and 8 kRowTiles rows, quarters added in their order, to `store(output, row,
/// sum)`. `shared` has room for the warps' rings and, after them, for the quarters' sums. `make_x` is asked once
/// earlier launches are done: weights are on their way by then.
template <class F, int kTiles, int kRowTiles>
struct RowsBlock {
  static constexpr int kOutputs = 16 * kTiles, kRows = 8 * kRowTiles;
  using Weights = WarpWeights<F, kTiles, row_stages<F>()>;
  static constexpr int kSumBytes = kQuarters * kOutputs * kRows * 4;
  static constexpr int kRings = kQuarters * Weights::kBytes;
  static constexpr int kRingBytes = kRings > kSumBytes ? kRings : kSumBytes;
  static constexpr int kSharedBytes = kRingBytes + kQuarters * kRowsBuffer;

  template <class MakeX, class Store>
  __device__ __forceinline__ static void run(const QView& view, int64_t first_output, unsigned char* shared,
                                             MakeX make_x, Store store) {
    const int warp = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
    const auto units = static_cast<int>(fast_units(view.cols));
    const int begin = units * warp / kQuarters, end = units * (warp + 1) / kQuarters;
    Weights weights(view, first_output, shared_address(shared) + warp * Weights::kBytes, begin, end);
#pragma unroll
    for (int i = 0; i < row_stages<F>(); ++i) weights.fetch(begin + i, i);
    auto x = make_x(shared_address(shared) + kRingBytes + warp * kRowsBuffer);
    x.clear();
    float sums[kTiles][kRowTiles][4] = {};
    add_quarter<F, kTiles, kRowTiles>(weights, begin, end, x, sums);
    if constexpr (F::kPieces > 0) wait_copies<0>();
    __syncthreads();
    auto* quarters = reinterpret_cast<float*>(shared);  // [quarter][row][output]
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = 8 * r + lane % 4 * 2 + i % 2, output = 16 * tile + lane / 4 + i / 2 * 8;
          quarters[(warp * kRows + row) * kOutputs + output] = sums[tile][r][i];
        }
      }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kOutputs * kRows; i += kRowsThreads) {
      float sum = quarters[i];
#pragma unroll
      for (int quarter = 1; quarter < kQuarters; ++quarter) sum += quarters[quarter * kRows * kOutputs + i];
      store(i % kOutputs, i / kOutputs, sum);
    }
  }
};

__device__ __forceinline__ PlainRows plain_rows(const ConstRows& x, int64_t cols, int64_t rows, uint32_t buffer) {
  PlainRows made;
  made.data = kept(x.data + threadIdx.x % kLanes * 4);
  made.stride = x.stride;
  made.count = kept(static_cast<int>(rows < 8 ? rows : 8));
  made.cols = kept(static_cast<int>(cols));
  made.buffer = buffer;
  return made;
}

/// Which part of a call a block of kOutputs works on, and its first output there.
struct PartPlace {
  int part = 0;
  int64_t first = 0;
};
template <int kOutputs>
__device__ __forceinline__ PartPlace part_place(const ProductCall& call, int64_t block) {
  PartPlace place;
  while (place.part + 1 < call.part_count) {
    const int64_t blocks = (call.parts[place.part].weight.rows + kOutputs - 1) / kOutputs;
    if (block < blocks) break;
    block -= blocks;
    ++place.part;
  }
  place.first = block * kOutputs;
  return place;
}
template <int kOutputs>
unsigned part_blocks(const ProductCall& call) {
  int64_t blocks = 0;
  for (int i = 0; i < call.part_count; ++i) blocks += (call.parts[i].weight.rows + kOutputs - 1) / kOutputs;
  return static_cast<unsigned>(blocks);
}

/// A sum to its place, with what acts on it.
template <class F>
__device__ __forceinline__ void put_product(const ProductCall& call, const ProductPart& part, int64_t output,
                                            int64_t row, float sum) {
  const int64_t column = part.first_output + output;
  float* to = call.out.data + row * call.out.stride + column;
  sum *= sum_factor<F>(part.weight, output);
  if (call.bias != nullptr) sum += call.bias[column];
  *to = call.add ? *to + sum : sum;
}

template <class F, int kTiles, int kRowTiles, bool kArranged>
__global__ void __launch_bounds__(kRowsThreads)
    fast_rows_kernel(const __grid_constant__ ProductCall call, const Pair* arranged) {
  using Block = RowsBlock<F, kTiles, kRowTiles>;
  extern __shared__ __align__(128) unsigned char shared[];
  start_next();
  const PartPlace place = part_place<Block::kOutputs>(call, blockIdx.x);
  const ProductPart& part = call.parts[place.part];
  const int64_t first_row = int64_t{blockIdx.y} * Block::kRows;
  const auto make_x = [&](uint32_t buffer) {
    await_previous();
    if constexpr (kArranged) {
      const int64_t units = fast_units(part.weight.cols);
      ArrangedRows<kRowTiles> x;
      x.data = arranged + first_row * units * kHalfColumns;
      x.units = static_cast<int>(units);
      return x;
    } else {
      PlainRows x = plain_rows(call.x, part.weight.cols, call.rows - first_row, buffer);
#pragma unroll
      for (int r = 0; r < 8; ++r) x.row[r] = static_cast<int32_t>(first_row) + r;
      return x;
    }
  };
  Block::run(part.weight, place.first, shared, make_x, [&](int output, int row, float sum) {
    if (place.first + output >= part.weight.rows || first_row + row >= call.rows) return;
    put_product<F>(call, part, place.first + output, first_row + row, sum);
  });
}

template <class F, int kTiles>
__global__ void __launch_bounds__(kRowsThreads, 4)
    fast_grouped_rows_kernel(const __grid_constant__ GroupedProductCall call) {
  using Block = RowsBlock<F, kTiles, 1>;
  extern __shared__ __align__(128) unsigned char shared[];
  await_previous();
  const auto matrix = static_cast<int32_t>(blockIdx.y);
  const QView weight = call.weights[matrix];
  const int32_t begin = call.first[matrix], end = call.first[matrix + 1];
  if (begin == end) return;
  const int64_t first_output = int64_t{blockIdx.x} * Block::kOutputs;
  if (weight.codes == nullptr || first_output >= weight.rows) return;
  const float* biases = call.biases == nullptr ? nullptr : call.biases[matrix];
  for (int32_t first = begin; first < end; first += Block::kRows) {
    if (first != begin) __syncthreads();  // the quarters' sums have been read
    const auto make_x = [&](uint32_t buffer) {
      PlainRows x = plain_rows(call.x, weight.cols, end - first, buffer);
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        const int32_t place = first + r < end ? first + r : first;
        x.row[r] = call.source_rows == nullptr ? place : call.source_rows[place];
      }
      return x;
    };
    Block::run(weight, first_output, shared, make_x, [&](int output, int row, float sum) {
      if (first_output + output >= weight.rows || first + row >= end) return;
      sum *= sum_factor<F>(weight, first_output + output);
      if (biases != nullptr) sum += biases[first_output + output];
      call.out.data[(first + row) * call.out.stride + first_output + output] = sum;
    });
  }
}

/// What a launch with more shared memory than a block gets unasked must say first.
template <class Kernel>
LaunchCode allow_shared(Kernel* kernel, int bytes) {
  return static_cast<LaunchCode>(
      cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

template <class F, int kTiles, int kRowTiles, bool kArranged>
LaunchCode launch_fast_rows(const ProductCall& call, const Pair* arranged, Stream stream) {
  using Block = RowsBlock<F, kTiles, kRowTiles>;
  static const LaunchCode kAllowed =
      allow_shared(fast_rows_kernel<F, kTiles, kRowTiles, kArranged>, Block::kSharedBytes);
  if (kAllowed != kLaunched) return kAllowed;
  const dim3 grid(part_blocks<Block::kOutputs>(call),
                  static_cast<unsigned>((call.rows + Block::kRows - 1) / Block::kRows));
  return launch_early(fast_rows_kernel<F, kTiles, kRowTiles, kArranged>, grid, kRowsThreads, Block::kSharedBytes,
                      stream, call, arranged);
}

template <class F, int kTiles>
LaunchCode launch_fast_grouped_rows(const GroupedProductCall& call, Stream stream) {
  using Block = RowsBlock<F, kTiles, 1>;
  static const LaunchCode kAllowed = allow_shared(fast_grouped_rows_kernel<F, kTiles>, Block::kSharedBytes);
  if (kAllowed != kLaunched) return kAllowed;
  const dim3 grid(static_cast<unsigned>((call.most_outputs + Block::kOutputs - 1) / Block::kOutputs),
                  static_cast<unsigned>(call.matrices));
  return launch_early(fast_grouped_rows_kernel<F, kTiles>, grid, kRowsThreads, Block::kSharedBytes, stream, call);
}

}  // namespace vernier::cuda
