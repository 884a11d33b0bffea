#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace vernier {

/// What one stored code means before any scale acts on it.
enum class Element : uint8_t {
  kF32,
  kF16,
  kBF16,
  kE4M3,  ///< OCP E4M3FN: largest 448, no infinities, 0x7F and 0xFF are NaN
  kE5M2,  ///< IEEE-like: largest 57344, infinities and NaN
  kE2M1,  ///< FP4: 0 .5 1 1.5 2 3 4 6 and their negatives
  kInt,   ///< an integer code of a GGUF block; the block holds its own scales
};

/// How one scale of a level is stored.
enum class ScaleType : uint8_t { kNone, kF32, kE8M0, kE4M3 };

/// How codes lie in memory.
enum class Packing : uint8_t {
  kPlain,       ///< one code after another, row-major, whole bytes
  kNibblesLow,  ///< two 4-bit codes a byte, the even element in the low nibble
  kGgufBlock,   ///< GGUF blocks: scales and codes of `group_cols` elements together
};

enum class CodecId : uint8_t {
  kF32,
  kF16,
  kBF16,
  kE4M3Tensor,   ///< one f32 scale
  kE4M3Channel,  ///< one f32 scale a row
  kE4M3Block,    ///< BM x BN blocks, f32 or E8M0 scales
  kE5M2Tensor,
  kE5M2Channel,
  kE5M2Block,
  kMxfp8,  ///< E4M3, groups of 32 columns, E8M0
  kMxfp4,  ///< E2M1, groups of 32 columns, E8M0, even element in the low nibble
  kNvfp4,  ///< E2M1, groups of 16 columns, E4M3, and a global f32 scale
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kGgufMxfp4,  ///< E2M1 in GGUF blocks: E8M0 byte, then 16 bytes with elements 0-15 in the low nibbles, 16-31 in the
               ///< high
};

/// One row for each storage format: all that is needed to find a code and every scale that acts on it.
///
/// A value is element(code) x inner scale x outer scale; both multiply (dialects that store reciprocals are inverted
/// when they are read). The inner level has one scale for each group of `group_rows` x `group_cols` codes; 0 stands for
/// the whole extent. The outer level, where there is one, has one f32 for each row segment (a fused weight keeps one
/// for each part).
struct Codec {
  CodecId id;
  std::string_view name;       ///< as `explain`, `inspect` and reports print it: "mxfp4", "q4_1", "e4m3[128x128]"
  std::string_view disk_name;  ///< GGUF type name or safetensors dtype: "Q4_1", "F8_E4M3"
  Element element;
  int bits;          ///< of one code
  int group_rows;    ///< rows of a scale group; 0: all rows
  int group_cols;    ///< columns of a scale group; 0: all columns. For kGgufBlock: elements of one block
  ScaleType inner;   ///< kNone where codes need no scale or the block holds it
  bool outer_scale;  ///< NVFP4's global scale
  Packing packing;
  int block_bytes;  ///< kGgufBlock: bytes of one block; else 0

  bool is_dense() const { return packing == Packing::kPlain && inner == ScaleType::kNone; }
  /// Bytes of the codes of one row of `cols` columns (for kGgufBlock the scales are among them); the largest int64
  /// where they do not fit, which no byte count of a file equals. `cols` is a positive multiple of column_multiple().
  int64_t row_bytes(int64_t cols) const;
  /// Bytes of the codes of [rows, cols]. Refuses extents below 1, counts beyond 64 bits, and a `cols` that is no
  /// multiple of column_multiple().
  Result<int64_t> code_bytes(int64_t rows, int64_t cols) const;
  /// What the columns must be a multiple of: the group, where rows hold whole groups only; else 1.
  int64_t column_multiple() const;
  int64_t groups_down(int64_t rows) const;    ///< scale groups along the rows, a ragged last one included
  int64_t groups_across(int64_t cols) const;  ///< scale groups along the columns
  bool operator==(const Codec& other) const {
    return id == other.id && group_rows == other.group_rows && group_cols == other.group_cols && inner == other.inner;
  }
};

/// The row of a format with its fixed group size. CHECKs that the id is no block format (those need `block_codec`).
const Codec& codec(CodecId id);
/// kE4M3Block or kE5M2Block with BM x BN groups (positive) and f32 or E8M0 scales.
Codec block_codec(CodecId id, int group_rows, int group_cols, ScaleType inner);
/// Every row, in order; block formats as 128x128 with f32 scales.
std::span<const Codec> all_codecs();

}  // namespace vernier
