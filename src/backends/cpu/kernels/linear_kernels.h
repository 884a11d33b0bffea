#pragma once

#include <cstdint>

#include "backends/cpu/kernels/panel_format.h"

namespace vernier {

/// Activation rows quantised to int8: row t starts at codes + t * codes_stride; its group g has scale[t * stride + g]
/// and sum[..] = scale x the sum of the group's codes. Columns are padded with zeros to whole blocks of 32.
struct IntRows {
  const int8_t* codes;
  const float* scale;
  const float* sum;
  int64_t codes_stride;
  int64_t stride;
};

/// Products of packed integer panels, read once from memory, with a few rows.
struct StreamJob {
  const uint8_t* panels;
  const PanelLayout* layout;
  int64_t panel_count;
  IntRows x;
  int tokens;  ///< a power of two, at most stream_tokens
  float* out;  ///< [tokens][panel_count * R] at out_stride
  int64_t out_stride;
};

/// Columns [begin_block, end_block) of one panel as byte codes and float scales.
struct UnpackJob {
  const uint8_t* panel;
  const PanelLayout* layout;
  int64_t begin_block;
  int64_t end_block;
  uint8_t* codes;  ///< [blocks, 8, R, 4]
  float* scale;    ///< [groups, R]
  float* minimum;  ///< [groups, R]; -zero * scale where the format stores none
};

/// Products of unpacked panels, `panel_count` of them side by side, with many rows.
struct IntTileJob {
  PanelFormat format;
  const uint8_t* codes;  ///< of the first panel; the next is codes_stride further
  const float* scale;
  const float* minimum;
  int64_t codes_stride;
  int64_t scale_stride;
  int panel_count;
  int64_t blocks;
  IntRows x;  ///< from the first of these blocks on
  int64_t tokens;
  float* out;  ///< [tokens][panel_count * R]
  int64_t out_stride;
  bool accumulate;
};

/// Columns [begin, end) of one FP8 panel as float numbers, or as pairs of bf16, and, where it has them, float scales.
/// Begin is a multiple of the group, end too or the layout's last.
struct Fp8UnpackJob {
  const uint8_t* panel;
  const PanelLayout* layout;
  int64_t begin;
  int64_t end;
  float* numbers;   ///< [end - begin, R]
  uint16_t* pairs;  ///< [(end - begin) / 2, R, 2]
  float* scale;     ///< [groups, R]
};

/// Products of float panels [cols, R] with float rows. Where there are scales, each group's sum starts from zero and is
/// added times its scale.
struct FloatTileJob {
  const float* weights;
  int64_t weights_stride;  ///< to the next panel
  const float* scale;      ///< [groups, R], or null
  int64_t scale_stride;    ///< to the next panel
  int64_t group;           ///< columns of a scale
  int panel_count;
  int64_t cols;
  const float* x;
  int64_t x_stride;
  int64_t tokens;
  float* out;
  int64_t out_stride;
  bool accumulate;
};

/// Products of panels of bf16 pairs, `panel_count` of them side by side, with rows rounded to bf16. Scales as those of
/// FloatTileJob.
struct Bf16TileJob {
  const uint8_t* panels;
  int64_t panel_bytes;
  const float* scale;
  int64_t scale_stride;
  int64_t group;
  int panel_count;
  int64_t cols;       ///< a multiple of 4
  const uint16_t* x;  ///< [tokens, cols]
  int64_t x_stride;
  int64_t tokens;
  float* out;  ///< [tokens][panel_count * R]
  int64_t out_stride;
  bool accumulate;
};

/// Products of packed dense or FP8 panels with a few float rows.
struct DenseStreamJob {
  const uint8_t* panels;
  const PanelLayout* layout;
  int64_t panel_count;
  const float* x;  ///< readable up to layout->cols
  int64_t x_stride;
  int tokens;  ///< a power of two, at most stream_tokens
  float* out;
  int64_t out_stride;
};

/// out = tile (* row_scale) (+ bias) (+ out), for `rows` matrix rows and `tokens` rows of activations.
struct FinishJob {
  const float* tile;
  int64_t tile_stride;
  float* out;
  int64_t out_stride;
  const float* row_scale;  ///< [rows], or null
  const float* bias;       ///< [rows], or null
  bool add_into_out;
  int64_t rows;
  int64_t tokens;
};

/// The matrix-product kernels of one instruction set. Pure functions of raw memory; nothing is allocated.
struct LinearKernels {
  int rows;           ///< R
  int tile_panels;    ///< most panels of one tile job
  int stream_tokens;  ///< most rows of one stream job: a power of two
  const char* name;
  const char* tile_name;  ///< of bf16_tile, and of int_tile where a scale has 32 columns
  /// Kernels of the instruction set below over the same panels, adding in the same order: of tiles, vectors. Or null.
  const LinearKernels* narrower;
  void (*stream)(const StreamJob&);
  void (*unpack)(const UnpackJob&);
  void (*int_tile)(const IntTileJob&);
  /// Columns [begin, end) of one panel of any format as float32, exactly: out is [end - begin, R]. For integer formats
  /// begin and end are multiples of 32, for FP8 formats of 4.
  void (*decode)(const uint8_t* panel, const PanelLayout&, int64_t begin, int64_t end, float* out);
  void (*float_tile)(const FloatTileJob&);
  void (*dense_stream)(const DenseStreamJob&);
  void (*fp8_stream)(const DenseStreamJob&);
  /// To `numbers`.
  void (*fp8_unpack)(const Fp8UnpackJob&);
  void (*finish)(const FinishJob&);
  /// `cols` is a multiple of 32; ties to even; a group of zeros has scale 0.
  void (*quantise)(const float* x, int64_t cols, int group, int8_t* codes, float* scale, float* sum);
  /// Null, like the next two, where the instruction set does not multiply bf16.
  void (*bf16_tile)(const Bf16TileJob&);
  /// To `pairs`.
  void (*fp8_unpack_bf16)(const Fp8UnpackJob&);
  /// To nearest, ties to even; NaN stays NaN. `cols` is a multiple of 4.
  void (*round_bf16)(const float* x, int64_t cols, uint16_t* out);
};

namespace baseline {
const LinearKernels& linear_kernels();
}
namespace avx2 {
const LinearKernels& linear_kernels();
}
namespace avx512 {
const LinearKernels& linear_kernels();
}
namespace amx {
const LinearKernels& linear_kernels();
}

}  // namespace vernier
