#pragma once

#include <cstdint>

namespace vernier {

/// How a panel, `R` rows of a matrix side by side, stores its numbers. R is 8 or 16, by instruction set.
///
/// Integer formats: columns come in blocks of 32, blocks in strips (StripLayout); code number 4j + i of row r of a
/// block is byte 4r + i of vector j (R * 4 bytes), so that one broadcast of four activation bytes meets the codes of
/// all rows. Narrow codes are cut into planes of whole vectors. A number is scale * (code - zero), or scale * code +
/// minimum.
///
/// FP8 formats: the scales of all groups of columns, [groups, R], then the codes as [cols / 2, R, 2]. A number is
/// scale * code; of E4M3 both are kept in units of 2^8 (Fp8Format::unit_exponent).
///
/// Dense formats: bf16 lies as [cols / 2, R, 2], f16 and f32 as [cols, R].
enum class PanelFormat : uint8_t {
  kQ2K,
  kQ3K,
  kQ4_0,
  kQ4_1,
  kQ4K,
  kQ5_0,
  kQ5_1,
  kQ5K,
  kQ6K,
  kQ8_0,
  kMxfp4,
  kNvfp4,
  kE4M3,
  kE4M3E8M0,
  kE4M3F32,
  kE5M2,
  kE5M2E8M0,
  kE5M2F32,
  kBF16,
  kF16,
  kF32,
};

enum class CodePlanes : uint8_t {
  kTwo,        ///< bits 2j..2j+1 of vector p are the code of vector 4p + j
  kTwoOne,     ///< the same, then a vector whose bit j is bit 2 of the code of vector j
  kNibble,     ///< the low nibble of vector v is the code of vector v, the high nibble that of v + 4
  kNibbleOne,  ///< the same, then a vector whose bit j is bit 4 of the code of vector j
  kNibbleTwo,  ///< the same, then two vectors whose bits 2j..2j+1 are bits 4..5 of the code of vector 4p + j
  kByte,
  kE2M1,  ///< nibbles that stand for twice an E2M1 number, plus 12
};

enum class ScalePlanes : uint8_t {
  kHalf,   ///< one f16 a group
  kSuper,  ///< one f16 for 256 columns times one byte a group
  kE8M0,   ///< one power of two a group
  kE4M3,   ///< one E4M3 number, 0 or more, a group
};

struct IntFormat {
  CodePlanes codes;
  ScalePlanes scales;
  bool minimum;     ///< stored as the scales are
  int group;        ///< columns of a scale: 16 or 32
  int zero;         ///< subtracted from each code; 0 where there is a minimum
  int max_code;     ///< largest unpacked code: decides how many products fit in 16 bits
  bool halves;      ///< codes count half units
  bool signed_sub;  ///< the byte of kSuper is signed
};

static constexpr bool is_dense(PanelFormat format) {
  return format >= PanelFormat::kBF16;
}
static constexpr bool is_fp8(PanelFormat format) {
  return format >= PanelFormat::kE4M3 && format <= PanelFormat::kE5M2F32;
}
/// Integer codes, which int8 activations may meet.
static constexpr bool is_integer(PanelFormat format) {
  return format < PanelFormat::kE4M3;
}

enum class GroupScales : uint8_t {
  kNone,  ///< rows have scales of their own, or the matrix one, outside the panel
  kE8M0,  ///< one power of two a row and group
  kF32,   ///< one float32 a row and group
};

struct Fp8Format {
  bool e5m2;  ///< else E4M3
  GroupScales scales;
  /// The bits of E4M3 are those of an f16 2^-8 times as large: numbers are kept so, and scales 2^8 times as large.
  int unit_exponent() const { return e5m2 ? 0 : 8; }
};

/// Columns of a group whose scale an FP8 panel keeps: a multiple of the least, up to the most.
constexpr int kLeastFp8Group = 4, kMostFp8Group = 256;

static constexpr Fp8Format fp8_format(PanelFormat format) {
  using S = GroupScales;
  switch (format) {
    case PanelFormat::kE4M3E8M0:
      return {false, S::kE8M0};
    case PanelFormat::kE4M3F32:
      return {false, S::kF32};
    case PanelFormat::kE5M2:
      return {true, S::kNone};
    case PanelFormat::kE5M2E8M0:
      return {true, S::kE8M0};
    case PanelFormat::kE5M2F32:
      return {true, S::kF32};
    default:
      return {false, S::kNone};
  }
}

static constexpr IntFormat int_format(PanelFormat format) {
  using P = CodePlanes;
  using S = ScalePlanes;
  switch (format) {
    case PanelFormat::kQ2K:
      return {P::kTwo, S::kSuper, true, 16, 0, 3, false, false};
    case PanelFormat::kQ3K:
      return {P::kTwoOne, S::kSuper, false, 16, 4, 7, false, true};
    case PanelFormat::kQ4_0:
      return {P::kNibble, S::kHalf, false, 32, 8, 15, false, false};
    case PanelFormat::kQ4_1:
      return {P::kNibble, S::kHalf, true, 32, 0, 15, false, false};
    case PanelFormat::kQ4K:
      return {P::kNibble, S::kSuper, true, 32, 0, 15, false, false};
    case PanelFormat::kQ5_0:
      return {P::kNibbleOne, S::kHalf, false, 32, 16, 31, false, false};
    case PanelFormat::kQ5_1:
      return {P::kNibbleOne, S::kHalf, true, 32, 0, 31, false, false};
    case PanelFormat::kQ5K:
      return {P::kNibbleOne, S::kSuper, true, 32, 0, 31, false, false};
    case PanelFormat::kQ6K:
      return {P::kNibbleTwo, S::kSuper, false, 16, 32, 63, false, true};
    case PanelFormat::kMxfp4:
      return {P::kE2M1, S::kE8M0, false, 32, 12, 24, true, false};
    case PanelFormat::kNvfp4:
      return {P::kE2M1, S::kE4M3, false, 16, 12, 24, true, false};
    case PanelFormat::kQ8_0:
    default:
      return {P::kByte, S::kHalf, false, 32, 128, 255, false, false};
  }
}

/// Whole vectors that hold 32 columns of a panel's codes.
static constexpr int plane_vectors(CodePlanes codes) {
  switch (codes) {
    case CodePlanes::kTwo:
      return 2;
    case CodePlanes::kTwoOne:
      return 3;
    case CodePlanes::kNibble:
    case CodePlanes::kE2M1:
      return 4;
    case CodePlanes::kNibbleOne:
      return 5;
    case CodePlanes::kNibbleTwo:
      return 6;
    case CodePlanes::kByte:
      break;
  }
  return 8;
}

/// A panel of an integer format is a row of strips, each the codes of one block (kSuper: of eight) and then all scales
/// that act on them, so that a product reads memory as one stream. Offsets are bytes from the strip's start.
struct StripLayout {
  int blocks;        ///< of 32 columns
  int code_bytes;    ///< of one block
  int scales;        ///< kHalf: f16 [groups, R]; kE8M0, kE4M3: bytes [groups, R]; kSuper: f16 [R]
  int sub_scales;    ///< kSuper: bytes [groups, R]
  int minimums;      ///< as scales
  int sub_minimums;  ///< as sub_scales
  int bytes;
};

static constexpr StripLayout strip_layout(PanelFormat format, int rows) {
  const IntFormat f = int_format(format);
  const bool super = f.scales == ScalePlanes::kSuper;
  StripLayout at{super ? 8 : 1, plane_vectors(f.codes) * rows * 4, 0, 0, 0, 0, 0};
  const int groups = at.blocks * 32 / f.group;
  const int scale_bytes = super ? rows * 2 : f.scales == ScalePlanes::kHalf ? groups * rows * 2 : groups * rows;
  const int sub_bytes = super ? groups * rows : 0;
  at.scales = at.blocks * at.code_bytes;
  at.sub_scales = at.scales + scale_bytes;
  at.minimums = at.sub_scales + sub_bytes;
  at.sub_minimums = at.minimums + (f.minimum ? scale_bytes : 0);
  at.bytes = at.sub_minimums + (f.minimum ? sub_bytes : 0);
  return at;
}

/// Extents of one panel. Columns are padded to whole strips (FP8 and dense: to a multiple of 4), rows to R; what is
/// padded is zero.
struct PanelLayout {
  PanelFormat format = PanelFormat::kF32;
  int32_t rows = 0;         ///< R
  int32_t group = 0;        ///< columns of a scale, a multiple of 4; FP8 formats with scales only
  int64_t cols = 0;         ///< physical
  int64_t blocks = 0;       ///< of 32 columns; integer formats only
  int64_t code_offset = 0;  ///< bytes of scales before the codes; FP8 formats only
  int64_t panel_bytes = 0;
};

/// `group` is for FP8 formats with scales.
static constexpr PanelLayout panel_layout(PanelFormat format, int rows, int64_t logical_cols, int group = 0) {
  PanelLayout at;
  at.format = format;
  at.rows = rows;
  if (is_fp8(format)) {
    at.cols = (logical_cols + 3) / 4 * 4;
    const GroupScales scales = fp8_format(format).scales;
    if (scales != GroupScales::kNone) {
      at.group = group;
      const int64_t bytes = (at.cols + group - 1) / group * rows * (scales == GroupScales::kF32 ? 4 : 1);
      at.code_offset = (bytes + 63) / 64 * 64;
    }
    at.panel_bytes = (at.code_offset + at.cols * rows + 63) / 64 * 64;
    return at;
  }
  if (is_dense(format)) {
    at.cols = (logical_cols + 3) / 4 * 4;
    at.panel_bytes = at.cols * rows * (format == PanelFormat::kF32 ? 4 : 2);
    return at;
  }
  const StripLayout strip = strip_layout(format, rows);
  const int64_t strips = (logical_cols + strip.blocks * 32 - 1) / (strip.blocks * 32);
  at.blocks = strips * strip.blocks;
  at.cols = at.blocks * 32;
  at.panel_bytes = (strips * strip.bytes + 63) / 64 * 64;
  return at;
}

}  // namespace vernier
