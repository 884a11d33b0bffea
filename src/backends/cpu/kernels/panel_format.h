#pragma once

#include <cstdint>

namespace vernier {

/// How a panel, `R` rows of a matrix side by side, stores its numbers. R is 8 or 16, by instruction set.
///
/// Integer formats: columns come in blocks of 32, blocks in strips (StripLayout); code number 4j + i of row r of a
/// block is byte 4r + i of vector j (R * 4 bytes), so that one broadcast of four activation bytes meets the codes of
/// all rows. Narrow codes are cut into planes of whole vectors. A number is scale * (code - zero), or scale * code +
/// minimum. Dense formats: bf16 lies as [cols / 2, R, 2], f16 and f32 as [cols, R].
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
      return {P::kE2M1, S::kHalf, false, 16, 12, 24, true, false};
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
  int scales;        ///< kHalf: f16 [groups, R]; kE8M0: bytes [groups, R]; kSuper: f16 [R]
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

/// Extents of one panel. Columns are padded to whole strips (dense: to a multiple of 4), rows to R; what is padded is
/// zero.
struct PanelLayout {
  PanelFormat format = PanelFormat::kF32;
  int32_t rows = 0;    ///< R
  int64_t cols = 0;    ///< physical
  int64_t blocks = 0;  ///< of 32 columns; integer formats only
  int64_t panel_bytes = 0;
};

static constexpr PanelLayout panel_layout(PanelFormat format, int rows, int64_t logical_cols) {
  PanelLayout at;
  at.format = format;
  at.rows = rows;
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
