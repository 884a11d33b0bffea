#pragma once

#include <cstdint>

#include "backends/cpu/linear.h"

namespace vernier {

/// One call of `linear`: what all its chunks share.
struct LinearProduct {
  ThreadPool& pool;
  LinearScratch& scratch;
  const CpuMatrix& matrix;
  const LinearInput& input;
  const LinearOutput& output;
  const LinearKernels& kernels;
  const float* x = nullptr;  // float rows, where a segment needs them
  int64_t x_stride = 0;
  int64_t bf16_stride = 0;
};

/// Tile rows [first_row, first_row + tokens) x matrix rows from `begin` on, out of `tile`, to where they belong.
void finish_tile(const LinearProduct& product, const MatrixSegment& segment, int64_t begin, int64_t count,
                 int64_t first_row, int64_t tokens, const float* tile, int64_t tile_stride);

/// The input as int8 in the groups of this segment, from a row on.
IntRows int_rows(const LinearProduct& product, const MatrixSegment& segment, int64_t first_row);

/// One chunk of a product whose panels are unpacked for many rows.
void tile_chunk(const LinearProduct& product, const LinearScratch::SegmentWork& work, int64_t chunk,
                LinearScratch::ThreadPart& part);

/// Makes room for what such chunks unpack.
void reserve_tiles(const LinearKernels& kernels, LinearScratch::ThreadPart& part);

}  // namespace vernier
