#include "backends/cpu/linear.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/linear_tile.h"
#include "backends/cpu/prepared_linear.h"
#include "base/check.h"
#include "base/clock.h"
#include "tensor/checked.h"

namespace vernier {
namespace {

/// Products of a step whose weights are fetched ahead.
constexpr size_t kMostProducts = 4096;
/// Columns past a row, so that rows of a power of two do not share cache sets.
constexpr int64_t kRowGap = 64;

using SegmentWork = LinearScratch::SegmentWork;

/// Prepares one input row: prologue, padding, and int8 codes in the groups that the segments ask for.
struct RowStage {
  const LinearProduct& product;
  int64_t padded_cols;
  bool floats;
  bool bf16;
  bool group32;
  bool group16;

  void run(int64_t t, FloatBuffer& row_memory) const {
    const LinearInput& input = product.input;
    LinearScratch& scratch = product.scratch;
    const float* row = input.x + t * input.stride;
    const bool in_place = input.prologue.run == nullptr && padded_cols == input.cols;
    if (!in_place) {
      float* copy = floats ? scratch.floats.data() + t * product.x_stride : row_memory.reserve(padded_cols);
      if (input.prologue.run != nullptr) {
        input.prologue.run(input.prologue.context, row, copy, input.cols);
      } else {
        std::copy_n(row, input.cols, copy);
      }
      std::fill(copy + input.cols, copy + padded_cols, 0.0f);
      row = copy;
    }
    if (bf16) product.kernels.round_bf16(row, padded_cols, scratch.bf16.data() + t * product.bf16_stride);
    if (group32) quantise(scratch.group32, 32, t, row);
    if (group16) quantise(scratch.group16, 16, t, row);
  }

  void quantise(LinearScratch::IntStage& stage, int group, int64_t t, const float* row) const {
    product.kernels.quantise(row, padded_cols, group, stage.codes.data() + t * stage.codes_stride,
                             stage.scale.data() + t * stage.stride, stage.sum.data() + t * stage.stride);
  }
};

void reserve(LinearScratch::IntStage& stage, int group, int64_t rows, int64_t padded_cols) {
  stage.codes_stride = padded_cols + kRowGap;
  stage.stride = padded_cols / group;
  stage.codes.reserve(rows * stage.codes_stride);
  stage.scale.reserve(rows * stage.stride);
  stage.sum.reserve(rows * stage.stride);
}

void stage_rows(LinearProduct& product) {
  const LinearInput& input = product.input;
  RowStage stage{product, 0, false, false, false, false};
  bool blocks = false;
  for (const MatrixSegment& segment : product.matrix.segments()) {
    stage.padded_cols = std::max(stage.padded_cols, segment.layout.cols);
    const LinearKernel kernel = choose_linear(product.matrix, segment, input.rows, nullptr);
    if (takes_bf16_rows(kernel)) {
      stage.bf16 = true;
    } else if (!product.matrix.is_integer(segment)) {
      stage.floats = true;
    } else {
      blocks = true;
      (int_format(segment.layout.format).group == 16 ? stage.group16 : stage.group32) = true;
    }
  }
  if (blocks) stage.padded_cols = ceil_div(stage.padded_cols, 32) * 32;
  const bool in_place = input.prologue.run == nullptr && stage.padded_cols == input.cols;
  product.x = input.x;
  product.x_stride = input.stride;
  if (stage.floats && !in_place) {
    product.x_stride = stage.padded_cols;
    product.x = product.scratch.floats.reserve(input.rows * product.x_stride);
  }
  if (stage.bf16) {
    product.bf16_stride = stage.padded_cols + kRowGap;
    product.scratch.bf16.reserve(input.rows * product.bf16_stride);
  }
  if (stage.group32) reserve(product.scratch.group32, 32, input.rows, stage.padded_cols);
  if (stage.group16) reserve(product.scratch.group16, 16, input.rows, stage.padded_cols);
  if (in_place && !stage.bf16 && !stage.group32 && !stage.group16) return;
  std::vector<LinearScratch::ThreadPart>& threads = product.scratch.threads;
  constexpr int64_t kRowsEach = 4;
  if (input.rows <= kRowsEach) {
    for (int64_t t = 0; t < input.rows; ++t) stage.run(t, threads[0].row);
    return;
  }
  product.pool.parallel_for(static_cast<int>(ceil_div(input.rows, kRowsEach)), [&](int chunk, int thread) {
    const int64_t end = std::min(input.rows, (chunk + 1) * kRowsEach);
    for (int64_t t = chunk * kRowsEach; t < end; ++t) stage.run(t, threads[static_cast<size_t>(thread)].row);
  });
}

void stream_chunk(const LinearProduct& product, const SegmentWork& work, int64_t chunk,
                  LinearScratch::ThreadPart& part) {
  const MatrixSegment& segment = *work.segment;
  const int64_t lanes = segment.layout.rows;
  const int64_t first = chunk * work.plan.chunk_panels;
  const int64_t panels = std::min(work.plan.chunk_panels, segment.panels - first);
  const int64_t width = panels * lanes;
  const uint8_t* data = segment.data + first * segment.layout.panel_bytes;
  float* tile = part.out.reserve(work.plan.chunk_panels * lanes * work.plan.rows_at_once);
  for (int64_t t = 0; t < product.input.rows;) {
    const int64_t left = product.input.rows - t;
    auto tokens = static_cast<int>(work.plan.rows_at_once);
    while (tokens > left) tokens /= 2;
    if (work.plan.kernel == LinearKernel::kIntStream) {
      product.kernels.stream({data, &segment.layout, panels, int_rows(product, segment, t), tokens, tile, width});
    } else {
      const auto run =
          work.plan.kernel == LinearKernel::kFp8Stream ? product.kernels.fp8_stream : product.kernels.dense_stream;
      run({data, &segment.layout, panels, product.x + t * product.x_stride, product.x_stride, tokens, tile, width});
    }
    finish_tile(product, segment, first * lanes, width, t, tokens, tile, width);
    t += tokens;
  }
}

SegmentWork plan_segment(int threads, const CpuMatrix& matrix, const MatrixSegment& segment, int64_t rows) {
  SegmentWork work{&segment, plan_linear(matrix, segment, rows, threads), 1, 0};
  if (!is_stream(work.plan.kernel)) work.row_chunks = ceil_div(rows, work.plan.rows_at_once);
  work.chunks = ceil_div(segment.panels, work.plan.chunk_panels) * work.row_chunks;
  return work;
}

/// Plans every segment; returns the chunks of all.
int64_t plan(int threads, const CpuMatrix& matrix, int64_t rows, std::vector<SegmentWork>& work) {
  work.clear();
  int64_t chunks = 0;
  for (const MatrixSegment& segment : matrix.segments()) {
    const auto same = [&](const SegmentWork& before) { return before.segment->prepared == segment.prepared; };
    if (segment.prepared != nullptr && std::ranges::none_of(work, same)) segment.prepared->count(rows);
    work.push_back(plan_segment(threads, matrix, segment, rows));
    chunks += work.back().chunks;
  }
  return chunks;
}

void run_chunk(const LinearProduct& product, int64_t chunk, LinearScratch::ThreadPart& part) {
  for (const SegmentWork& work : product.scratch.work) {
    if (chunk >= work.chunks) {
      chunk -= work.chunks;
      continue;
    }
    return is_stream(work.plan.kernel) ? stream_chunk(product, work, chunk, part)
                                       : tile_chunk(product, work, chunk, part);
  }
}

/// Where the weights of a chunk start, if they come as a stream.
const uint8_t* stream_start(std::span<const SegmentWork> all, int64_t chunk) {
  for (const SegmentWork& work : all) {
    if (chunk >= work.chunks) {
      chunk -= work.chunks;
      continue;
    }
    if (!is_stream(work.plan.kernel)) return nullptr;
    return work.segment->data + chunk * work.plan.chunk_panels * work.segment->layout.panel_bytes;
  }
  return nullptr;
}

/// Notes where each thread's part of this product starts, and tells it where the next product's did in the last step:
/// the same matrix, as a rule. Only speed hangs on it, and nothing is read there.
void announce(ThreadPool& pool, LinearScratch& scratch, int64_t chunks) {
  if (scratch.products == kMostProducts) return;
  std::vector<const uint8_t*>& starts = scratch.starts;
  const auto threads = static_cast<size_t>(pool.threads());
  const size_t at = scratch.products++ * threads;
  if (at == starts.size()) starts.resize(at + threads);
  const size_t next = (at + threads) % starts.size();
  for (size_t thread = 0; thread < threads; ++thread) {
    starts[at + thread] = stream_start(scratch.work, pool.first_chunk(chunks, static_cast<int>(thread)));
    pool.read_ahead(static_cast<int>(thread), starts[next + thread]);
  }
}

}  // namespace

LinearScratch::LinearScratch(int thread_count) : threads(static_cast<size_t>(thread_count)) {}

/// Every thread's memory for this product, grown by the caller: a thread that gets its first chunk late allocates
/// nothing.
void grow_threads(LinearScratch& scratch, const CpuMatrix& matrix) {
  const LinearKernels& kernels = matrix.kernels();
  const int64_t lanes = kernels.rows;
  const int64_t width = kernels.tile_panels * lanes;
  int64_t padded_cols = matrix.cols();
  for (const MatrixSegment& segment : matrix.segments()) padded_cols = std::max(padded_cols, segment.layout.cols);
  for (LinearScratch::ThreadPart& part : scratch.threads) {
    reserve_tiles(kernels, part);
    part.out.reserve(std::max(width * kMostTileRows, kMostChunkPanels * lanes * kernels.stream_tokens));
    part.row.reserve(padded_cols);
  }
}

IntRows LinearScratch::IntStage::rows(int64_t first) const {
  return {codes.data() + first * codes_stride, scale.data() + first * stride, sum.data() + first * stride, codes_stride,
          stride};
}

namespace {

/// Of a launch that is to be timed; null: it is not. Only a product of one problem can be told from its record.
TacticWatch* due_watch(const CpuMatrix& matrix, int64_t rows) {
  const PreparedLinear* prepared = matrix.segments().front().prepared;
  TacticWatch* watch = prepared == nullptr ? nullptr : prepared->watch(rows);
  if (watch == nullptr) return nullptr;
  const auto same = [&](const MatrixSegment& segment) { return segment.prepared == prepared; };
  return std::ranges::all_of(matrix.segments(), same) && watch->is_due() ? watch : nullptr;
}

void run_linear(ThreadPool& pool, LinearScratch& scratch, const CpuMatrix& matrix, const LinearInput& input,
                const LinearOutput& output) {
  CHECK(input.cols == matrix.cols(), "{} input columns for a matrix of {}", input.cols, matrix.cols());
  CHECK(scratch.threads.size() >= static_cast<size_t>(pool.threads()), "scratch for fewer threads than the pool has");
  LinearProduct product{pool, scratch, matrix, input, output, matrix.kernels()};
  grow_threads(scratch, matrix);
  stage_rows(product);
  const int64_t chunks = plan(pool.threads(), matrix, input.rows, scratch.work);
  if (input.read_ahead) announce(pool, scratch, chunks);
  if (std::ranges::all_of(scratch.work, [](const SegmentWork& work) { return work.plan.alone; })) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) run_chunk(product, chunk, scratch.threads.front());
    return;
  }
  pool.parallel_for(static_cast<int>(chunks), [&](int chunk, int thread) {
    run_chunk(product, chunk, scratch.threads[static_cast<size_t>(thread)]);
  });
}

}  // namespace

void linear(ThreadPool& pool, LinearScratch& scratch, const CpuMatrix& matrix, const LinearInput& input,
            const LinearOutput& output) {
  if (input.rows == 0) return;
  TacticWatch* watch = due_watch(matrix, input.rows);
  const Stopwatch time;
  run_linear(pool, scratch, matrix, input, output);
  if (watch != nullptr) watch->note(time.elapsed_ns());
}

void reserve_linear(LinearScratch& scratch, const CpuMatrix& matrix, int64_t rows) {
  grow_threads(scratch, matrix);
  int64_t padded_cols = ceil_div(matrix.cols(), 32) * 32;
  for (const MatrixSegment& segment : matrix.segments()) padded_cols = std::max(padded_cols, segment.layout.cols);
  for (const MatrixSegment& segment : matrix.segments()) {
    if (takes_bf16_rows(choose_linear(matrix, segment, rows, nullptr))) {
      scratch.bf16.reserve(rows * (padded_cols + kRowGap));
    } else if (!matrix.is_integer(segment)) {
      scratch.floats.reserve(rows * padded_cols);
    } else if (int_format(segment.layout.format).group == 16) {
      reserve(scratch.group16, 16, rows, padded_cols);
    } else {
      reserve(scratch.group32, 32, rows, padded_cols);
    }
  }
}

void embed_rows(ThreadPool& pool, const CpuMatrix& matrix, std::span<const int32_t> tokens, float scale, float* out,
                int64_t out_stride) {
  constexpr size_t kTokensEach = 4;
  const size_t chunks = (tokens.size() + kTokensEach - 1) / kTokensEach;
  pool.parallel_for(static_cast<int>(chunks), [&](int chunk) {
    const size_t first = static_cast<size_t>(chunk) * kTokensEach;
    for (size_t t = first; t < std::min(tokens.size(), first + kTokensEach); ++t) {
      float* row = out + static_cast<int64_t>(t) * out_stride;
      decode_packed_row(matrix, tokens[t], row);
      if (scale == 1.0f) continue;
      for (int64_t c = 0; c < matrix.cols(); ++c) row[c] *= scale;
    }
  });
}

}  // namespace vernier
