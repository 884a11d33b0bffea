#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/cpu_matrix.h"
#include "tune/choice.h"

namespace vernier {

/// The ways to multiply by a packed segment.
enum class LinearKernel : uint8_t {
  kIntStream,    ///< packed codes met by int8 activations as they come from memory
  kIntTile,      ///< panels unpacked once for many rows of int8 activations
  kDenseStream,  ///< packed floats, read once
  kFp8Stream,    ///< packed FP8 codes that become float32 in registers, read once
  kFp8Tile,      ///< FP8 panels decoded once for many rows; each group's sum is scaled
  kBf16Tile,     ///< packed bf16 met by rows rounded to bf16
  kFp8Bf16Tile,  ///< FP8 panels that become bf16 in cache, met by rows rounded to bf16
  kFloatTile,    ///< panels decoded to float32 for any number of rows
};

/// Multiplies rows rounded to bf16, in steps of any size.
constexpr bool takes_bf16_rows(LinearKernel kernel) {
  return kernel == LinearKernel::kBf16Tile || kernel == LinearKernel::kFp8Bf16Tile;
}
/// Made for few rows: reads packed weights once, as they come from memory.
constexpr bool is_stream(LinearKernel kernel) {
  return kernel == LinearKernel::kIntStream || kernel == LinearKernel::kDenseStream ||
         kernel == LinearKernel::kFp8Stream;
}

/// Where nothing is measured, steps of more rows than this reuse unpacked panels: up to here unpacking anew for every
/// four rows costs less.
inline constexpr int64_t kStreamRows = 8;
/// Far more, and a stream is never faster.
inline constexpr int64_t kMostStreamRows = 64;

/// Whether one of them is called so, without its instruction set: "int8_tile".
bool is_linear_kernel(std::string_view name);

std::span<const LinearKernel> all_linear_kernels();  ///< fastest first
/// "int8_tile_avx2": tiles of AMX have a name of their own.
std::string linear_kernel_name(LinearKernel kernel, const LinearKernels& kernels, PanelFormat format);

/// The segments that share a problem: of one codec, kept alike. They may lie apart: q and k of a fused weight beside a
/// v of another. Given by the first of each kind.
std::vector<const MatrixSegment*> linear_kinds(const CpuMatrix& matrix);
bool is_of_kind(const MatrixSegment& segment, const MatrixSegment& kind);
/// What is computed for a kind's rows in steps of so many: all that tactics depend on. Steps of a bucket are one
/// problem.
Problem linear_problem(const CpuMatrix& matrix, const MatrixSegment& kind, int64_t batch_rows);

/// Whether a kernel can serve this, and why not: what choosing, packing and tuning ask.
Reason linear_verdict(LinearKernel kernel, const CpuMatrix& matrix, const MatrixSegment& segment, int64_t batch_rows);
/// The kernel where nothing is measured.
LinearKernel fixed_linear_kernel(const CpuMatrix& matrix, const MatrixSegment& segment, int64_t batch_rows);
/// The kernel that `linear` runs and the verdict on each other one; `choice` may be null.
LinearKernel choose_linear(const CpuMatrix& matrix, const MatrixSegment& segment, int64_t batch_rows, Choice* choice);

/// Which kernel serves steps of `batch_rows` rows, and why not another: one for each kind of the matrix's segments.
std::vector<Choice> explain_linear(const CpuMatrix& matrix, int64_t batch_rows);

}  // namespace vernier
