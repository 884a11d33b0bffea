#include "backends/cpu/cpu_matrix.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "backends/cpu/pack_fp8.h"
#include "backends/cpu/pack_panel.h"
#include "backends/cpu/prepared_linear.h"

namespace vernier {
namespace {

/// One part of a fused weight and how it is to be stored. FP8 that cannot be kept as codes is float32.
struct PartPlan {
  const QTensor* tensor;
  PanelFormat format;
  bool native = false;  // codes and scales as they are
  Fp8Plan fp8 = {};
};

PartPlan plan_part(const QTensor& tensor, ThreadPool& pool) {
  if (std::optional<PanelFormat> format = native_format(tensor.codec().id)) return {&tensor, *format, true};
  Fp8Plan fp8 = plan_fp8(tensor, pool);
  if (fp8.refused.code != ReasonCode::kChosen) return {&tensor, PanelFormat::kF32, false, std::move(fp8)};
  const PanelFormat format = fp8.format;
  return {&tensor, format, false, std::move(fp8)};
}

std::vector<float> row_scales(const PartPlan& plan) {
  const QTensor::View view = plan.tensor->view();
  std::vector<float> scales = is_fp8(plan.format) ? plan.fp8.row_scale : std::vector<float>();
  for (size_t i = 0; i < view.outer_scales.size(); ++i) {
    scales.insert(scales.end(), static_cast<size_t>(view.segment_rows[i]), view.outer_scales[i]);
  }
  return scales;
}

/// Rows of one panel. `row_floats` is [cols], for parts that are decoded on the way.
void pack_panel(const PartPlan& plan, const MatrixSegment& segment, int64_t panel, uint8_t* to,
                std::vector<float>& row_floats) {
  const QTensor::View view = plan.tensor->view();
  const int lanes = segment.layout.rows;
  for (int lane = 0; lane < lanes; ++lane) {
    const int64_t row = panel * lanes + lane;
    if (row >= segment.rows) return;
    if (plan.native) {
      pack_row(view, row, segment.layout, lane, to);
    } else if (is_fp8(plan.format)) {
      pack_fp8_row(view, row, segment.layout, lane, to);
    } else {
      row_floats.resize(static_cast<size_t>(view.cols));
      plan.tensor->decode_row(row, row_floats);
      pack_float_row(row_floats.data(), view.cols, segment.layout, lane, to);
    }
  }
}

std::string layout_text(const MatrixSegment& segment) {
  const PanelLayout& layout = segment.layout;
  static constexpr const char* kNames[] = {"u2 + u4/f16 scale and minimum",
                                           "u3 + i6/f16 scale",
                                           "u4 + f16 scale",
                                           "u4 + f16 scale and minimum",
                                           "u4 + u6/f16 scale and minimum",
                                           "u5 + f16 scale",
                                           "u5 + f16 scale and minimum",
                                           "u5 + u6/f16 scale and minimum",
                                           "u6 + i8/f16 scale",
                                           "u8 + f16 scale",
                                           "e2m1 + e8m0 scale",
                                           "e2m1 + e4m3 scale",
                                           "e4m3",
                                           "e4m3 + e8m0 scale",
                                           "e4m3 + f32 scale",
                                           "e5m2",
                                           "e5m2 + e8m0 scale",
                                           "e5m2 + f32 scale",
                                           "bf16 pairs",
                                           "f16",
                                           "f32"};
  std::string text = kNames[static_cast<size_t>(layout.format)];
  if (layout.group > 0) text += fmt::format(" for {} columns", layout.group);
  text += fmt::format(" x {} rows", layout.rows);
  if (!segment.row_scale.empty()) text += ", f32 scale a row";
  return text;
}

void append(std::string& list, const std::string& item) {
  if (!list.empty()) list += '+';
  list += item;
}

/// Bytes of rows and columns that the matrix does not have.
int64_t padding_bytes(const MatrixSegment& segment, int64_t cols) {
  const PanelLayout& layout = segment.layout;
  const int64_t physical = segment.panels * layout.panel_bytes;
  const int64_t cells = segment.panels * layout.rows * layout.cols;
  return physical - physical / cells * (segment.rows * cols) - physical % cells * (segment.rows * cols) / cells;
}

}  // namespace

const LinearKernels& linear_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAmx) return amx::linear_kernels();
  if (isa == Isa::kAvx512) return avx512::linear_kernels();
  if (isa == Isa::kAvx2) return avx2::linear_kernels();
#endif
  CHECK(isa == Isa::kBaseline, "no kernels for {} on this architecture", name(isa));
  return baseline::linear_kernels();
}

const CpuMatrix& cpu_matrix(const PackedMatrix& matrix) {
  const auto* ours = dynamic_cast<const CpuMatrix*>(&matrix);
  CHECK(ours != nullptr, "the matrix belongs to another backend");
  return *ours;
}

CpuMatrix::CpuMatrix(int64_t rows, int64_t cols, std::vector<MatrixSegment> segments, PackedBytes bytes,
                     PackedInfo info, Isa isa, Numerics numerics)
    : PackedMatrix(rows, cols),
      segments_(std::move(segments)),
      bytes_(std::move(bytes)),
      info_(std::move(info)),
      kernels_(&linear_kernels(isa)),
      isa_(isa),
      numerics_(numerics) {}

Result<std::shared_ptr<const CpuMatrix>> pack_matrix(std::span<const QTensor> parts, PackUse, Isa isa,
                                                     Numerics numerics, ThreadPool& pool, PackArena* arena,
                                                     LinearTactics* tactics) {
  CHECK(!parts.empty(), "a matrix of no parts");
  const int64_t cols = parts.front().cols();
  const int lanes = linear_kernels(isa).rows;
  std::vector<PartPlan> plans;
  std::vector<MatrixSegment> segments;
  PackedInfo info;
  int64_t rows = 0;
  for (const QTensor& part : parts) {
    CHECK(part.cols() == cols, "parts of {} and {} columns in one matrix", cols, part.cols());
    plans.push_back(plan_part(part, pool));
    MatrixSegment segment;
    segment.layout = panel_layout(plans.back().format, lanes, cols, plans.back().fp8.group);
    segment.fp8_refused = plans.back().fp8.refused;
    segment.codec = std::string(part.codec().name);
    segment.first_row = rows;
    segment.rows = part.rows();
    segment.panels = (part.rows() + lanes - 1) / lanes;
    segment.row_scale = row_scales(plans.back());
    rows += part.rows();
    info.bytes += segment.panels * segment.layout.panel_bytes;
    info.padding_bytes += padding_bytes(segment, cols);
    if (segments.empty() || layout_text(segments.back()) != layout_text(segment)) {
      append(info.layout, layout_text(segment));
    }
    append(info.codec, segment.codec);
    if (!part.codec().is_dense()) append(info.scale_origin, part.origin());
    segments.push_back(std::move(segment));
  }
  TRY_BIND(PackedBytes bytes,
           arena != nullptr ? arena->take(info.bytes) : PackedBytes::make(info.bytes, PageUse::kFilledAtOnce));
  uint8_t* to = bytes.data();
  std::vector<std::vector<float>> row_floats(static_cast<size_t>(pool.threads()));
  for (size_t i = 0; i < segments.size(); ++i) {
    MatrixSegment& segment = segments[i];
    segment.data = to;
    // About 32 KiB a chunk: far more than it costs to claim one.
    const int64_t batch = std::max<int64_t>(1, 32768 / segment.layout.panel_bytes);
    const auto chunks = static_cast<int>((segment.panels + batch - 1) / batch);
    const bool has_blocks = parts[i].codec().packing == Packing::kGgufBlock;
    std::atomic<bool> damaged = false;
    pool.parallel_for(chunks, [&](int chunk, int thread) {
      const int64_t end = std::min(segment.panels, (chunk + 1) * batch);
      if (has_blocks && !parts[i].check_finite(chunk * batch * lanes, std::min(end * lanes, segment.rows)).ok()) {
        damaged = true;
      }
      for (int64_t panel = chunk * batch; panel < end; ++panel) {
        pack_panel(plans[i], segment, panel, to + panel * segment.layout.panel_bytes,
                   row_floats[static_cast<size_t>(thread)]);
      }
    });
    if (damaged) TRY_STATUS(parts[i].check_finite(0, segment.rows));
    to += segment.panels * segment.layout.panel_bytes;
  }
  const auto matrix =
      std::make_shared<CpuMatrix>(rows, cols, std::move(segments), std::move(bytes), std::move(info), isa, numerics);
  if (tactics != nullptr) TRY_STATUS(tactics->prepare(*matrix));
  return std::shared_ptr<const CpuMatrix>(matrix);
}

void decode_packed_row(const CpuMatrix& matrix, int64_t row, float* out) {
  CHECK(row >= 0 && row < matrix.rows(), "row {} of {}", row, matrix.rows());
  const auto segments = matrix.segments();
  const auto after = std::ranges::upper_bound(segments, row, {}, &MatrixSegment::first_row);
  const MatrixSegment& segment = *(after - 1);
  const int64_t at = row - segment.first_row;
  const int lanes = segment.layout.rows;
  const uint8_t* panel = segment.data + at / lanes * segment.layout.panel_bytes;
  const float scale = segment.row_scale.empty() ? 1.0f : segment.row_scale[static_cast<size_t>(at)];
  constexpr int64_t kStep = 64;
  float decoded[kStep * 16];
  for (int64_t begin = 0; begin < matrix.cols(); begin += kStep) {
    const int64_t end = std::min(begin + kStep, segment.layout.cols);
    matrix.kernels().decode(panel, segment.layout, begin, end, decoded);
    for (int64_t c = begin; c < std::min(end, matrix.cols()); ++c) {
      const float value = decoded[(c - begin) * lanes + at % lanes];
      out[c] = segment.row_scale.empty() ? value : value * scale;
    }
  }
}

}  // namespace vernier
