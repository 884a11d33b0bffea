#include "backends/cpu/cpu_matrix.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "backends/cpu/pack_panel.h"
#include "tensor/scalar.h"
#include "tensor/scale_level.h"

namespace vernier {
namespace {

/// One part of a fused weight and how it is to be stored. E4M3 and E5M2 with a scale for each row, or one for all, are
/// numbers of f16 times a row's scale; other codecs without panels of their own are float32.
struct PartPlan {
  const QTensor* tensor;
  PanelFormat format;
  bool native;      // codes and scales as they are
  bool byte_codes;  // f16 numbers and a scale a row
};

PartPlan plan_part(const QTensor& tensor) {
  if (std::optional<PanelFormat> format = native_format(tensor.codec().id)) return {&tensor, *format, true, false};
  switch (tensor.codec().id) {
    case CodecId::kE4M3Tensor:
    case CodecId::kE4M3Channel:
    case CodecId::kE5M2Tensor:
    case CodecId::kE5M2Channel:
      return {&tensor, PanelFormat::kF16, false, true};
    default:
      return {&tensor, PanelFormat::kF32, false, false};
  }
}

std::vector<float> row_scales(const PartPlan& plan) {
  const QTensor::View view = plan.tensor->view();
  std::vector<float> scales;
  if (plan.byte_codes) {
    const bool each_row = view.codec.group_rows == 1;
    for (int64_t row = 0; row < view.rows; ++row) {
      scales.push_back(scale_value(view.codec.inner, view.inner_scales, each_row ? row : 0));
    }
  }
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
      continue;
    }
    row_floats.resize(static_cast<size_t>(view.cols));
    if (plan.byte_codes) {
      const auto* codes = reinterpret_cast<const uint8_t*>(view.codes.data()) + row * view.cols;
      const auto decode = view.codec.element == Element::kE4M3 ? e4m3_to_f32 : e5m2_to_f32;
      for (size_t c = 0; c < row_floats.size(); ++c) row_floats[c] = decode(codes[c]);
    } else {
      plan.tensor->decode_row(row, row_floats);
    }
    pack_float_row(row_floats.data(), view.cols, segment.layout, lane, to);
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
                                           "e2m1 + f16 scale",
                                           "bf16 pairs",
                                           "f16",
                                           "f32"};
  std::string text = fmt::format("{} x {} rows", kNames[static_cast<size_t>(layout.format)], layout.rows);
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
                                                     Numerics numerics, ThreadPool& pool, PackArena* arena) {
  CHECK(!parts.empty(), "a matrix of no parts");
  const int64_t cols = parts.front().cols();
  const int lanes = linear_kernels(isa).rows;
  std::vector<PartPlan> plans;
  std::vector<MatrixSegment> segments;
  PackedInfo info;
  int64_t rows = 0;
  for (const QTensor& part : parts) {
    CHECK(part.cols() == cols, "parts of {} and {} columns in one matrix", cols, part.cols());
    plans.push_back(plan_part(part));
    MatrixSegment segment;
    segment.layout = panel_layout(plans.back().format, lanes, cols);
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
    std::atomic<bool> damaged = false;
    pool.parallel_for(chunks, [&](int chunk, int thread) {
      const int64_t end = std::min(segment.panels, (chunk + 1) * batch);
      if (!parts[i].check_block_scales(chunk * batch * lanes, std::min(end * lanes, segment.rows)).ok()) damaged = true;
      for (int64_t panel = chunk * batch; panel < end; ++panel) {
        pack_panel(plans[i], segment, panel, to + panel * segment.layout.panel_bytes,
                   row_floats[static_cast<size_t>(thread)]);
      }
    });
    if (damaged) TRY_STATUS(parts[i].check_block_scales(0, segment.rows));
    to += segment.panels * segment.layout.panel_bytes;
  }
  return std::shared_ptr<const CpuMatrix>(
      std::make_shared<CpuMatrix>(rows, cols, std::move(segments), std::move(bytes), std::move(info), isa, numerics));
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
