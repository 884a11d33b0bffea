#include "backends/cpu/linear_tile.h"

#include <algorithm>

namespace vernier {
namespace {

/// Groups of scales in the most columns that are unpacked at a time.
constexpr int64_t kMostTileGroups = kMostFloatTileCols / kLeastFp8Group;

using SegmentWork = LinearScratch::SegmentWork;

void int_tile_chunk(const LinearProduct& product, const SegmentWork& work, int64_t first_panel, int panels,
                    int64_t first_row, int64_t tokens, LinearScratch::ThreadPart& part) {
  const MatrixSegment& segment = *work.segment;
  const LinearKernels& kernels = work.plan.narrower ? *product.kernels.narrower : product.kernels;
  const PanelLayout& layout = segment.layout;
  const IntFormat format = int_format(layout.format);
  const int64_t lanes = layout.rows;
  const int64_t blocks_each = std::min(layout.blocks, work.plan.cols_at_once / 32);
  const int64_t groups_of_block = 32 / format.group;
  IntTileJob job;
  job.format = layout.format;
  job.panel_count = panels;
  job.codes_stride = blocks_each * 32 * lanes;
  job.scale_stride = blocks_each * groups_of_block * lanes;
  uint8_t* codes = part.codes.reserve(panels * job.codes_stride);
  float* scale = part.scale.reserve(panels * job.scale_stride);
  float* minimum = part.minimum.reserve(panels * job.scale_stride);
  job.codes = codes;
  job.scale = scale;
  job.minimum = minimum;
  job.tokens = tokens;
  job.out_stride = panels * lanes;
  job.out = part.out.reserve(work.plan.rows_at_once * job.out_stride);
  for (int64_t begin = 0; begin < layout.blocks; begin += blocks_each) {
    const int64_t end = std::min(layout.blocks, begin + blocks_each);
    for (int p = 0; p < panels; ++p) {
      kernels.unpack({segment.data + (first_panel + p) * layout.panel_bytes, &layout, begin, end,
                      codes + p * job.codes_stride, scale + p * job.scale_stride, minimum + p * job.scale_stride});
    }
    job.blocks = end - begin;
    job.x = int_rows(product, segment, first_row);
    job.x.codes += begin * 32;
    job.x.scale += begin * groups_of_block;
    job.x.sum += begin * groups_of_block;
    job.accumulate = begin > 0;
    kernels.int_tile(job);
  }
  finish_tile(product, segment, first_panel * lanes, panels * lanes, first_row, tokens, job.out, job.out_stride);
}

/// Whole groups.
int64_t tile_cols(const LinearPlan& plan, const PanelLayout& layout) {
  return layout.group > 0 ? plan.cols_at_once / layout.group * layout.group : plan.cols_at_once;
}

void float_tile_chunk(const LinearProduct& product, const SegmentWork& work, int64_t first_panel, int panels,
                      int64_t first_row, int64_t tokens, LinearScratch::ThreadPart& part) {
  const MatrixSegment& segment = *work.segment;
  const PanelLayout& layout = segment.layout;
  const int64_t lanes = layout.rows;
  FloatTileJob job;
  job.panel_count = panels;
  job.weights_stride = work.plan.cols_at_once * lanes;
  float* weights = part.weights.reserve(panels * job.weights_stride);
  job.weights = weights;
  job.group = layout.group;
  job.scale_stride = kMostTileGroups * lanes;
  float* scale = part.scale.reserve(panels * job.scale_stride);
  job.scale = layout.group > 0 ? scale : nullptr;
  const int64_t cols_each = tile_cols(work.plan, layout);
  job.x_stride = product.x_stride;
  job.tokens = tokens;
  job.out_stride = panels * lanes;
  job.out = part.out.reserve(work.plan.rows_at_once * job.out_stride);
  for (int64_t begin = 0; begin < layout.cols; begin += cols_each) {
    const int64_t end = std::min(layout.cols, begin + cols_each);
    for (int p = 0; p < panels; ++p) {
      const uint8_t* panel = segment.data + (first_panel + p) * layout.panel_bytes;
      float* numbers = weights + p * job.weights_stride;
      if (layout.group > 0) {
        product.kernels.fp8_unpack({panel, &layout, begin, end, numbers, nullptr, scale + p * job.scale_stride});
      } else {
        product.kernels.decode(panel, layout, begin, end, numbers);
      }
    }
    job.cols = end - begin;
    job.x = product.x + first_row * product.x_stride + begin;
    job.accumulate = begin > 0;
    product.kernels.float_tile(job);
  }
  finish_tile(product, segment, first_panel * lanes, panels * lanes, first_row, tokens, job.out, job.out_stride);
}

/// Unpacks the panels of `job`, some columns at a time, and multiplies by them.
void fp8_bf16_tiles(const LinearProduct& product, const SegmentWork& work, int64_t first_panel, Bf16TileJob job,
                    LinearScratch::ThreadPart& part) {
  const MatrixSegment& segment = *work.segment;
  const PanelLayout& layout = segment.layout;
  const int64_t numbers = work.plan.cols_at_once * layout.rows;
  uint16_t* pairs = part.pairs.reserve(job.panel_count * numbers);
  job.panels = reinterpret_cast<const uint8_t*>(pairs);
  job.panel_bytes = numbers * 2;
  job.group = layout.group;
  job.scale_stride = kMostTileGroups * layout.rows;
  float* scale = part.scale.reserve(job.panel_count * job.scale_stride);
  job.scale = layout.group > 0 ? scale : nullptr;
  const uint16_t* x = job.x;
  const int64_t cols_each = tile_cols(work.plan, layout);
  for (int64_t begin = 0; begin < layout.cols; begin += cols_each) {
    const int64_t end = std::min(layout.cols, begin + cols_each);
    for (int p = 0; p < job.panel_count; ++p) {
      product.kernels.fp8_unpack_bf16({segment.data + (first_panel + p) * layout.panel_bytes, &layout, begin, end,
                                       nullptr, pairs + p * numbers, scale + p * job.scale_stride});
    }
    job.cols = end - begin;
    job.x = x + begin;
    job.accumulate = begin > 0;
    product.kernels.bf16_tile(job);
  }
}

void bf16_tile_chunk(const LinearProduct& product, const SegmentWork& work, int64_t first_panel, int panels,
                     int64_t first_row, int64_t tokens, LinearScratch::ThreadPart& part) {
  const MatrixSegment& segment = *work.segment;
  const PanelLayout& layout = segment.layout;
  const int64_t width = panels * layout.rows;
  float* tile = part.out.reserve(work.plan.rows_at_once * width);
  Bf16TileJob job{};
  job.panels = segment.data + first_panel * layout.panel_bytes;
  job.panel_bytes = layout.panel_bytes;
  job.panel_count = panels;
  job.cols = layout.cols;
  job.x = product.scratch.bf16.data() + first_row * product.bf16_stride;
  job.x_stride = product.bf16_stride;
  job.tokens = tokens;
  job.out = tile;
  job.out_stride = width;
  if (is_fp8(layout.format)) {
    fp8_bf16_tiles(product, work, first_panel, job, part);
  } else {
    product.kernels.bf16_tile(job);
  }
  finish_tile(product, segment, first_panel * layout.rows, width, first_row, tokens, tile, width);
}

}  // namespace

void finish_tile(const LinearProduct& product, const MatrixSegment& segment, int64_t begin, int64_t count,
                 int64_t first_row, int64_t tokens, const float* tile, int64_t tile_stride) {
  const LinearOutput& output = product.output;
  FinishJob job;
  job.tile = tile;
  job.tile_stride = tile_stride;
  job.out = output.out + first_row * output.stride + segment.first_row + begin;
  job.out_stride = output.stride;
  job.row_scale = segment.row_scale.empty() ? nullptr : segment.row_scale.data() + begin;
  job.bias = output.bias == nullptr ? nullptr : output.bias + segment.first_row + begin;
  job.add_into_out = output.add_into_out;
  job.rows = std::min(count, segment.rows - begin);
  job.tokens = tokens;
  product.kernels.finish(job);
}

IntRows int_rows(const LinearProduct& product, const MatrixSegment& segment, int64_t first_row) {
  const bool narrow = int_format(segment.layout.format).group == 16;
  return (narrow ? product.scratch.group16 : product.scratch.group32).rows(first_row);
}

void tile_chunk(const LinearProduct& product, const LinearScratch::SegmentWork& work, int64_t chunk,
                LinearScratch::ThreadPart& part) {
  const MatrixSegment& segment = *work.segment;
  const int64_t first_row = chunk % work.row_chunks * work.plan.rows_at_once;
  const int64_t tokens = std::min(work.plan.rows_at_once, product.input.rows - first_row);
  const int64_t begin = chunk / work.row_chunks * work.plan.chunk_panels;
  const int64_t end = std::min(segment.panels, begin + work.plan.chunk_panels);
  for (int64_t panel = begin; panel < end;) {
    const int panels = end - panel >= product.kernels.tile_panels ? product.kernels.tile_panels : 1;
    if (work.plan.kernel == LinearKernel::kIntTile) {
      int_tile_chunk(product, work, panel, panels, first_row, tokens, part);
    } else if (takes_bf16_rows(work.plan.kernel)) {
      bf16_tile_chunk(product, work, panel, panels, first_row, tokens, part);
    } else {
      float_tile_chunk(product, work, panel, panels, first_row, tokens, part);
    }
    panel += panels;
  }
}

void reserve_tiles(const LinearKernels& kernels, LinearScratch::ThreadPart& part) {
  const int64_t width = kernels.tile_panels * kernels.rows;
  constexpr int64_t kMostIntGroups = kMostIntTileCols / 16;
  part.codes.reserve(width * kMostIntTileCols);
  part.scale.reserve(width * std::max(kMostIntGroups, kMostTileGroups));
  part.minimum.reserve(width * kMostIntGroups);
  part.weights.reserve(width * kMostFloatTileCols);
  if (kernels.fp8_unpack_bf16 != nullptr) part.pairs.reserve(width * kMostFloatTileCols);
}

}  // namespace vernier
