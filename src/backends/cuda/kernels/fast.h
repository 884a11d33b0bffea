#pragma once

#include "backends/cuda/kernels/launch.h"

/// Products by tensor cores: the border of the fast numerics. Weights are decoded in registers to bf16, activations are
/// rounded to bf16, sums are float32. Columns are taken in units, units in four quarters, and a number is the sum of
/// its quarters in their order, each the sum of its units: one order for any number of rows, any kernel and any grid.
namespace vernier::cuda {

/// How codes become bf16. Where bf16 holds code and scale exactly the scale is a factor of the code; a scale for each
/// row acts on the sum, one for each block on the sum of a unit. Other formats are decoded to float32 and are the sum
/// of two bf16 numbers.
enum class FastCodes : uint8_t {
  kNone,
  kBF16,
  kE4M3Row,
  kE4M3Block,
  kMxfp8,
  kE5M2Row,
  kMxfp4,
  kNvfp4,
  kF16,
  kQ4_0,
  kQ4_1,
  kQ8_0,
  kQ4_K,
  kQ6_K,
  kGgufMxfp4,
};
inline constexpr int kFastKinds = 15;

inline constexpr int kUnitColumns = 128;
inline constexpr int kHalfColumns = 64;  ///< what four products of 16 columns take
inline constexpr int kQuarters = 4;
inline constexpr int kTileOutputs = 128;  ///< of a block of the kernel for many rows
inline constexpr int kMostTileRows = 128;
inline constexpr int kMostStripRows = 32;  ///< of a block whose warps have a quarter each
/// 32 binary places of a power of two beside codes are left to the sum; what is larger than these codes is no bf16
/// number.
inline constexpr int kScalePlaces = 32;
inline constexpr int kMostMxfp4Scale = 128 + kScalePlaces, kMostMxfp8Scale = 134 + kScalePlaces;
inline constexpr int kScaleRowMultiple = 8;  ///< byte scales of a row are padded to it, so that a unit's are one word

constexpr int64_t fast_units(int64_t cols) {
  return (cols + kUnitColumns - 1) / kUnitColumns;
}

/// Which kernel, and how much scratch it takes. Made by plan_fast_product.
struct FastPlan {
  int32_t tile_rows = 8;  ///< up to kMostStripRows: quarters side by side in a block; more: tiles of warp groups
  int32_t tiles = 1;      ///< of 16 outputs for a warp, of the first kind
  bool arranged = false;  ///< rows are rounded and laid out by a launch before
  int32_t splits = 1;     ///< blocks that share a tile's quarters: 1 or 4
  int64_t arranged_pairs = 0;
  int64_t partial_numbers = 0;
  int32_t arrivals = 0;
  int32_t deep_outputs = 0;  ///< of a deep tile, which has tile_rows; 0: another kernel
  int32_t blocks = 0;        ///< that deep tiles are shared out among
  VERNIER_COMPARED(FastPlan)
};

/// Deep tiles: rows and weights both lie in shared memory, and tensor cores read them there. Rows are bf16, or, where
/// weights are E4M3, E4M3 under a float32 scale for each row and unit: the largest / 448, as `dynamic` activations are
/// defined. Rows come first among what is arranged, then scales [unit][deep_scale_stride].
inline constexpr float kLeastLargest = 1e-10f;  ///< of a row's numbers in a unit, so that no scale is 0
inline constexpr float kLargestE4M3 = 448.0f;
constexpr bool deep_rows_are_bytes(FastCodes codes) {
  return codes != FastCodes::kBF16;
}
constexpr int64_t deep_row_bytes(FastCodes codes, int64_t cols) {
  return fast_units(cols) * kUnitColumns * (deep_rows_are_bytes(codes) ? 1 : 2);
}
constexpr int64_t deep_scale_stride(int64_t rows) {
  return (rows + 3) / 4 * 4;
}

struct FastScratch {
  uint32_t* arranged = nullptr;  ///< [arranged_pairs], at a multiple of 16 bytes
  float* partials = nullptr;
  int32_t* arrivals = nullptr;  ///< zeros, and left so
  VERNIER_COMPARED(FastScratch)
};

/// `codes` is that of every part.
LaunchCode fast_product(const ProductCall& call, FastCodes codes, const FastPlan& plan, const FastScratch& scratch,
                        Stream stream);

/// Rows of matrix e are places [first[e], first[e + 1]); `places` are all of them, and those of no matrix.
struct FastGroupedCall {
  GroupedProductCall product;
  FastCodes codes = FastCodes::kNone;
  int64_t cols = 0;
  int64_t places = 0;
  VERNIER_COMPARED(FastGroupedCall)
};
LaunchCode fast_grouped_product(const FastGroupedCall& call, const FastPlan& plan, const FastScratch& scratch,
                                Stream stream);

/// One product of a layer's experts for few rows. Of gate and up, which may be parts of one matrix, `outputs` each.
struct FastExpertsCall {
  const QView* weights[2] = {};        ///< [experts]; the second is up's
  int64_t first_row[2] = {};           ///< of the views
  const float* const* biases[2] = {};  ///< [experts] of the views' rows; null: none, and each may be
  FastCodes codes = FastCodes::kNone;
  int64_t outputs = 0, cols = 0;         ///< a multiple of kStripOutputs outputs
  const ActiveExpert* active = nullptr;  ///< [most_active]
  int32_t most_active = 0;
  int64_t rows = 0;                      ///< of an expert, at most
  const int32_t* source_rows = nullptr;  ///< [places] rows of x, of gate and up; down's are the places
  ConstRows x;
  GateRule gate;
  Rows out;        ///< [places]
  int filled = 0;  ///< blocks that fill the chip
  VERNIER_COMPARED(FastExpertsCall)
};
/// Gate and up with the gate, and down with the sum of each row's answers: the bits of separate launches. `arrived` has
/// a zero for each of kStripOutputs outputs, and is left so.
LaunchCode fast_gated_experts(const FastExpertsCall& call, Stream stream);
LaunchCode fast_answering_experts(const FastExpertsCall& call, const CombineCall& combine, uint32_t* arrived,
                                  Stream stream);
/// A product of up to kMostFusedRows rows with its neighbours; see FusedProductCall. Parts begin at multiples of 16
/// outputs where it is gated.
LaunchCode fast_fused_product(const FusedProductCall& call, FastCodes codes, Stream stream);

inline constexpr int kStripOutputs = 32;
/// Rows that a block of those keeps in shared memory, in bytes, and the most that they may take.
constexpr int64_t staged_row_bytes(int64_t rows, int64_t cols) {
  return fast_units(cols) * 256 * (rows < kMostFusedRows ? rows : kMostFusedRows);
}
inline constexpr int64_t kMostStagedRowBytes = 120 * 1024;
inline constexpr int kMostStagedBytes = 200 * 1024;  ///< with the weights on their way

/// Where a matrix's rows begin among arranged ones: at a multiple of eight, and behind those of the one before.
constexpr int64_t arranged_place(int64_t first, int64_t matrix) {
  return (first + 7 * matrix + 7) / 8 * 8;
}

}  // namespace vernier::cuda
