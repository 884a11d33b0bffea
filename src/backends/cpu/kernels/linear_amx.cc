#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels/linear_kernels.h"

// The products of many rows by AMX tiles; the rest is that of avx512, whose panels of 16 rows are tiles already: a
// vector of a panel is a row of the right-hand tile, a row of activations one of the left-hand tile.

namespace vernier::amx {
namespace {

#define VERNIER_INLINE [[gnu::always_inline]] inline

constexpr int kRows = 16;    // of a panel: columns of a tile of sums
constexpr int kTokens = 16;  // most rows of one
constexpr int kVectorBytes = 64;
constexpr int kGroup = 32;         // int8 columns of a scale, and of a tile
constexpr int64_t kPairCols = 32;  // of bf16 in a tile
constexpr int kPrefetchBytes = 2048;

/// The compiler does not see what the instructions of tiles read: what was stored for them must be in memory.
VERNIER_INLINE void store_all() {
  asm volatile("" ::: "memory");
}

/// Tiles 0 to 3 hold sums, 4 and 5 activations, 6 and 7 weights. What LDTILECFG reads.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

/// `group_bytes`: of a row of activations in one tile.
void set_shapes(int tokens, int group_bytes) {
  TileShapes shapes;
  for (int tile = 0; tile < 8; ++tile) {
    const bool activations = tile == 4 || tile == 5;
    shapes.row_bytes[tile] = static_cast<uint16_t>(activations ? group_bytes : kVectorBytes);
    shapes.rows[tile] = static_cast<uint8_t>(tile < 6 ? tokens : group_bytes / 4);
  }
  store_all();
  _tile_loadconfig(&shapes);
}

/// One panel and up to 16 rows.
struct IntTask {
  const uint8_t* codes;
  const float* scale;
  const float* minimum;
  IntRows x;
  int64_t groups;
  int tokens;
  float* out;
  int64_t out_stride;
};

using Products = int32_t[kTokens * kRows];

/// The integer products of one group. Tiles are named by literals; two sets of them let one group's products overlap
/// the sums of the one before.
template <int Set>
VERNIER_INLINE void multiply_group(const IntTask& task, int64_t group, Products& products) {
  const int8_t* x = task.x.codes + group * kGroup;
  const uint8_t* weights = task.codes + group * (kGroup / 4 * kVectorBytes);
  if constexpr (Set == 0) {
    _tile_zero(0);
    _tile_loadd(4, x, task.x.codes_stride);
    _tile_loadd(6, weights, kVectorBytes);
    _tile_dpbsud(0, 4, 6);
    _tile_stored(0, products, kVectorBytes);
  } else {
    _tile_zero(1);
    _tile_loadd(5, x, task.x.codes_stride);
    _tile_loadd(7, weights, kVectorBytes);
    _tile_dpbsud(1, 5, 7);
    _tile_stored(1, products, kVectorBytes);
  }
}

/// In the operations and the order of the other kernels, so that a row's bits are those it has alone.
template <bool Whole>
VERNIER_INLINE void add_group(const IntTask& task, int64_t group, const Products& products, __m512 (&sum)[kTokens]) {
  const __m512 scale = _mm512_loadu_ps(task.scale + group * kRows);
  const __m512 minimum = _mm512_loadu_ps(task.minimum + group * kRows);
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) {
    const int64_t row = Whole || t < task.tokens ? t : 0;
    const __m512 x_scale = _mm512_set1_ps(task.x.scale[row * task.x.stride + group]);
    const __m512 x_sum = _mm512_set1_ps(task.x.sum[row * task.x.stride + group]);
    const __m512 product = _mm512_cvtepi32_ps(_mm512_load_si512(products + t * kRows));
    sum[t] = _mm512_fmadd_ps(product, _mm512_mul_ps(scale, x_scale), _mm512_fmadd_ps(minimum, x_sum, sum[t]));
  }
}

template <bool Whole>
void int_tile_of(const IntTask& task, bool accumulate) {
  __m512 sum[kTokens];
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) {
    const bool held = accumulate && (Whole || t < task.tokens);
    sum[t] = held ? _mm512_loadu_ps(task.out + t * task.out_stride) : _mm512_setzero_ps();
  }
  alignas(64) Products even = {};
  alignas(64) Products odd = {};
  multiply_group<0>(task, 0, even);
  int64_t group = 0;
  for (; group + 2 <= task.groups; group += 2) {
    multiply_group<1>(task, group + 1, odd);
    add_group<Whole>(task, group, even, sum);
    if (group + 2 < task.groups) multiply_group<0>(task, group + 2, even);
    add_group<Whole>(task, group + 1, odd, sum);
  }
  if (group < task.groups) add_group<Whole>(task, group, even, sum);
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) {
    if (Whole || t < task.tokens) _mm512_storeu_ps(task.out + t * task.out_stride, sum[t]);
  }
}

void int_tile(const IntTileJob& job) {
  // Half as many products for each tile that is stored: the vectors are as fast.
  if (int_format(job.format).group != kGroup) return avx512::linear_kernels().int_tile(job);
  for (int64_t t = 0; t < job.tokens; t += kTokens) {
    const bool whole = job.tokens - t >= kTokens;
    const int tokens = whole ? kTokens : static_cast<int>(job.tokens - t);
    if (t == 0 || !whole) set_shapes(tokens, kGroup);
    for (int p = 0; p < job.panel_count; ++p) {
      const IntTask task{job.codes + p * job.codes_stride,
                         job.scale + p * job.scale_stride,
                         job.minimum + p * job.scale_stride,
                         {job.x.codes + t * job.x.codes_stride, job.x.scale + t * job.x.stride,
                          job.x.sum + t * job.x.stride, job.x.codes_stride, job.x.stride},
                         job.blocks,
                         tokens,
                         job.out + t * job.out_stride + p * kRows,
                         job.out_stride};
      whole ? int_tile_of<true>(task, job.accumulate) : int_tile_of<false>(task, job.accumulate);
    }
  }
  _tile_release();
}

/// Sums of P panels and H times 16 rows: tile 2 h + p.
template <int P, int H>
struct Bf16Sums {
  VERNIER_INLINE static void zero() {
    _tile_zero(0);
    if constexpr (P > 1) _tile_zero(1);
    if constexpr (H > 1) _tile_zero(2);
    if constexpr (P > 1 && H > 1) _tile_zero(3);
  }
  VERNIER_INLINE static void load(const float* from, int64_t stride) {
    _tile_loadd(0, from, stride * 4);
    if constexpr (P > 1) _tile_loadd(1, from + kRows, stride * 4);
    if constexpr (H > 1) _tile_loadd(2, from + kTokens * stride, stride * 4);
    if constexpr (P > 1 && H > 1) _tile_loadd(3, from + kTokens * stride + kRows, stride * 4);
  }
  VERNIER_INLINE static void store(float* to, int64_t stride) {
    _tile_stored(0, to, stride * 4);
    if constexpr (P > 1) _tile_stored(1, to + kRows, stride * 4);
    if constexpr (H > 1) _tile_stored(2, to + kTokens * stride, stride * 4);
    if constexpr (P > 1 && H > 1) _tile_stored(3, to + kTokens * stride + kRows, stride * 4);
  }
  /// Adds the products of 32 columns. Strides in bytes: of the rows, and from one panel to the next.
  VERNIER_INLINE static void add(const uint8_t* x, int64_t x_stride, const uint8_t* weights, int64_t panel_stride) {
    _tile_loadd(4, x, x_stride);
    _tile_loadd(6, weights, kVectorBytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (P > 1) {
      _tile_loadd(7, weights + panel_stride, kVectorBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (H > 1) {
      _tile_loadd(5, x + kTokens * x_stride, x_stride);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (P > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
};

/// The last columns of a group, fewer than 32, with zeros behind them.
template <int P, int H>
struct PaddedTiles {
  alignas(64) uint8_t x[H * kTokens][kVectorBytes] = {};
  alignas(64) uint8_t weights[P][kRows * kVectorBytes] = {};

  PaddedTiles(const uint8_t* from_x, int64_t x_stride, int64_t tokens, const uint8_t* from, int64_t panel_stride,
              int64_t cols) {
    for (int64_t t = 0; t < tokens; ++t) std::memcpy(x[t], from_x + t * x_stride, static_cast<size_t>(cols * 2));
    for (int p = 0; p < P; ++p) {
      std::memcpy(weights[p], from + p * panel_stride, static_cast<size_t>(cols / 2 * kVectorBytes));
    }
  }
};

/// Adds the products of columns [begin, end). `tokens` are 16 for H > 1.
template <int P, int H>
VERNIER_INLINE void add_columns(const Bf16TileJob& job, int64_t first_row, int64_t tokens, int64_t begin, int64_t end) {
  using Sums = Bf16Sums<P, H>;
  const auto* x = reinterpret_cast<const uint8_t*>(job.x + first_row * job.x_stride);
  const int64_t x_stride = job.x_stride * 2;
  int64_t col = begin;
  for (; col + kPairCols <= end; col += kPairCols) {
    const uint8_t* weights = job.panels + col / 2 * kVectorBytes;
    if constexpr (H == 1) {  // few rows: the weights come from memory
      for (int p = 0; p < P; ++p) {
        for (int line = 0; line < kRows; ++line) {
          _mm_prefetch(reinterpret_cast<const char*>(weights + p * job.panel_bytes + kPrefetchBytes + line * 64),
                       _MM_HINT_T0);
        }
      }
    }
    Sums::add(x + col * 2, x_stride, weights, job.panel_bytes);
  }
  if (col == end) return;
  const PaddedTiles<P, H> last(x + col * 2, x_stride, H * tokens, job.panels + col / 2 * kVectorBytes, job.panel_bytes,
                               end - col);
  store_all();
  Sums::add(last.x[0], kVectorBytes, last.weights[0], kRows * kVectorBytes);
}

template <int P, int H>
void bf16_tile_of(const Bf16TileJob& job, int64_t first_row, int64_t tokens) {
  using Sums = Bf16Sums<P, H>;
  float* out = job.out + first_row * job.out_stride;
  if (job.scale == nullptr) {
    job.accumulate ? Sums::load(out, job.out_stride) : Sums::zero();
    add_columns<P, H>(job, first_row, tokens, 0, job.cols);
    Sums::store(out, job.out_stride);
    return;
  }
  constexpr int kWidth = P * kRows;
  alignas(64) float part[H * kTokens * kWidth];
  for (int64_t begin = 0, group = 0; begin < job.cols; begin += job.group, ++group) {
    Sums::zero();
    add_columns<P, H>(job, first_row, tokens, begin, begin + job.group < job.cols ? begin + job.group : job.cols);
    Sums::store(part, kWidth);
    const bool first = group == 0 && !job.accumulate;
    for (int p = 0; p < P; ++p) {
      const __m512 scale = _mm512_loadu_ps(job.scale + p * job.scale_stride + group * kRows);
      for (int64_t t = 0; t < H * tokens; ++t) {
        float* to = out + t * job.out_stride + p * kRows;
        const __m512 sum = _mm512_load_ps(part + t * kWidth + p * kRows);
        _mm512_storeu_ps(to, _mm512_fmadd_ps(sum, scale, first ? _mm512_setzero_ps() : _mm512_loadu_ps(to)));
      }
    }
  }
}

template <int P>
void bf16_tiles(const Bf16TileJob& job) {
  int64_t t = 0;
  set_shapes(kTokens, kVectorBytes);
  for (; job.tokens - t >= 2 * kTokens; t += 2 * kTokens) bf16_tile_of<P, 2>(job, t, kTokens);
  for (; job.tokens - t >= kTokens; t += kTokens) bf16_tile_of<P, 1>(job, t, kTokens);
  if (t < job.tokens) {
    set_shapes(static_cast<int>(job.tokens - t), kVectorBytes);
    bf16_tile_of<P, 1>(job, t, job.tokens - t);
  }
  _tile_release();
}

void bf16_tile(const Bf16TileJob& job) {
  job.panel_count > 1 ? bf16_tiles<2>(job) : bf16_tiles<1>(job);
}

}  // namespace

const LinearKernels& linear_kernels() {
  static_assert(kPairCols * 2 == kVectorBytes);
  static const LinearKernels kernels = [] {
    LinearKernels all = avx512::linear_kernels();
    all.tile_name = "amx";
    all.narrower = &avx512::linear_kernels();
    all.int_tile = int_tile;
    all.bf16_tile = bf16_tile;
    return all;
  }();
  return kernels;
}

}  // namespace vernier::amx
