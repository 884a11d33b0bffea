#include "backends/cpu/linear_plan.h"

#include <algorithm>
#include <charconv>

#include "backends/cpu/cpu_tactics.h"
#include "backends/cpu/prepared_linear.h"
#include "tensor/checked.h"

namespace vernier {
namespace {

/// Bytes of packed weights in one chunk of a stream: enough that claiming it costs little, few enough that the last
/// chunk of a product keeps no thread waiting for long. A thread's chunks lie one behind the other, so it meets no cold
/// lines.
constexpr int64_t kLeastStreamBytes = 8 << 10;
constexpr int64_t kMostStreamBytes = 16 << 10;
constexpr int64_t kStreamChunksOfThread = 8;
constexpr int64_t kDenseStreamPanels = 4;
/// Rows of activations that panels are unpacked once for.
constexpr int64_t kTileRows = 128;
/// Columns that are unpacked at a time: two panels of codes stay in the first-level cache.
constexpr int64_t kIntTileCols = 768;
constexpr int64_t kFloatTileCols = kMostFp8Group;
/// Products of so few bytes may be over before another thread has heard of them.
constexpr int64_t kMostAloneBytes = 64 << 10;

/// Columns of panels become numbers or bytes before they are multiplied.
bool unpacks(LinearKernel kernel) {
  return !is_stream(kernel) && kernel != LinearKernel::kBf16Tile;
}

int64_t most_cols(LinearKernel kernel) {
  return kernel == LinearKernel::kIntTile ? kMostIntTileCols : kMostFloatTileCols;
}

/// Whether tiles of the instruction set below multiply the same panels in the same order.
bool has_narrower(const CpuMatrix& matrix, const MatrixSegment& segment, LinearKernel kernel) {
  const PanelFormat format = segment.layout.format;
  return kernel == LinearKernel::kIntTile && matrix.kernels().narrower != nullptr && is_integer(format) &&
         int_format(format).group == 32;
}

LinearPlan fixed_stream(const MatrixSegment& segment, const CpuMatrix& matrix, LinearKernel kernel, int threads) {
  const PanelLayout& layout = segment.layout;
  const int64_t share = segment.panels * layout.panel_bytes / (threads * kStreamChunksOfThread);
  const int64_t bytes = std::clamp(share, kLeastStreamBytes, kMostStreamBytes);
  LinearPlan plan{kernel, std::clamp<int64_t>(bytes / layout.panel_bytes, 1, kMostChunkPanels),
                  matrix.kernels().stream_tokens};
  // Of floats several panels run side by side, if threads enough find work.
  if (kernel != LinearKernel::kIntStream && segment.panels >= threads * kDenseStreamPanels) {
    plan.chunk_panels = ceil_div(plan.chunk_panels, kDenseStreamPanels) * kDenseStreamPanels;
  }
  return plan;
}

LinearPlan fixed_tile(const CpuMatrix& matrix, LinearKernel kernel, int64_t rows) {
  LinearPlan plan{kernel, matrix.kernels().tile_panels, kTileRows};
  if (unpacks(kernel)) plan.cols_at_once = kernel == LinearKernel::kIntTile ? kIntTileCols : kFloatTileCols;
  // Few rows: more panels a chunk, so that a chunk stays worth claiming.
  while (plan.chunk_panels < 8 && plan.chunk_panels * rows * matrix.cols() < 65536) plan.chunk_panels *= 2;
  return plan;
}

LinearPlan fixed_plan_of(const CpuMatrix& matrix, const MatrixSegment& segment, LinearKernel kernel, int64_t rows,
                         int threads) {
  return is_stream(kernel) ? fixed_stream(segment, matrix, kernel, threads) : fixed_tile(matrix, kernel, rows);
}

class CandidateList {
 public:
  CandidateList(const CpuMatrix& matrix, const MatrixSegment& segment, int64_t rows, int threads)
      : matrix_(matrix), segment_(segment), rows_(rows), threads_(threads) {}

  /// With one thing changed at a time.
  void add_around(const LinearPlan& plan) {
    add(plan);
    for (int64_t panels : {plan.chunk_panels / 2, plan.chunk_panels * 2, plan.chunk_panels * 4}) {
      LinearPlan other = plan;
      other.chunk_panels = std::clamp<int64_t>(panels, 1, kMostChunkPanels);
      if (other.chunk_panels < segment_.panels) add(other);
    }
    is_stream(plan.kernel) ? add_streams(plan) : add_tiles(plan);
    int64_t bytes = 0;
    for (const MatrixSegment& segment : matrix_.segments()) bytes += segment.panels * segment.layout.panel_bytes;
    if (threads_ > 1 && bytes <= kMostAloneBytes) {
      LinearPlan other = plan;
      other.alone = true;
      add(other);
    }
  }
  std::vector<LinearPlan> take() { return std::move(all_); }

 private:
  void add(const LinearPlan& plan) {
    if (std::ranges::find(all_, plan) == all_.end()) all_.push_back(plan);
  }
  void add_streams(const LinearPlan& plan) {
    LinearPlan other = plan;
    other.rows_at_once = plan.rows_at_once / 2;
    if (other.rows_at_once > 0 && rows_ > other.rows_at_once) add(other);
  }
  void add_tiles(const LinearPlan& plan) {
    for (int64_t rows : {plan.rows_at_once / 4, plan.rows_at_once / 2, plan.rows_at_once * 2}) {
      LinearPlan other = plan;
      other.rows_at_once = std::min(rows, kMostTileRows);
      if (rows_ > std::min(other.rows_at_once, plan.rows_at_once)) add(other);
    }
    for (int64_t cols : {plan.cols_at_once / 2, plan.cols_at_once * 2}) {
      LinearPlan other = plan;
      other.cols_at_once = cols;
      const bool differs = segment_.layout.cols > std::min(cols, plan.cols_at_once);
      if (cols >= segment_.layout.group && cols > 0 && cols <= most_cols(plan.kernel) && differs) add(other);
    }
    if (has_narrower(matrix_, segment_, plan.kernel)) {
      LinearPlan other = plan;
      other.narrower = true;
      add(other);
    }
  }

  const CpuMatrix& matrix_;
  const MatrixSegment& segment_;
  int64_t rows_;
  int threads_;
  std::vector<LinearPlan> all_;
};

Result<int64_t> read_parameter(const NamedKernel& named, std::string_view name, int64_t usual, int64_t most) {
  const auto found = std::ranges::find(named.parameters, name, &Problem::Fact::name);
  if (found == named.parameters.end()) return usual;
  int64_t value = 0;
  const std::string& text = found->value;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc() && end == text.data() + text.size() && value >= 1 && value <= most) return value;
  return invalid_argument("{}: {}={}; expected 1 to {}", named.kernel, name, text, most);
}

Status check_parameter_names(const NamedKernel& named, bool unpacking) {
  for (const Problem::Fact& parameter : named.parameters) {
    const bool known = parameter.name == "chunk_panels" || parameter.name == "rows_at_once" ||
                       parameter.name == "threads" || (unpacking && parameter.name == "cols_at_once");
    if (!known) {
      return invalid_argument("{} has no parameter {}; expected chunk_panels, rows_at_once, threads{}", named.kernel,
                              parameter.name, unpacking ? ", cols_at_once" : "");
    }
  }
  return {};
}

Status check_plan(const LinearPlan& plan, const NamedKernel& named, const MatrixSegment& segment) {
  const int64_t cols = plan.cols_at_once;
  const int64_t unit = plan.kernel == LinearKernel::kIntTile ? 32 : std::max(segment.layout.group, 4);
  if (cols != 0 && (cols < unit || (segment.layout.group == 0 && cols % unit != 0))) {
    return invalid_argument("{}: cols_at_once={}; expected a multiple of {}", named.kernel, cols, unit);
  }
  if (is_stream(plan.kernel) && (plan.rows_at_once & (plan.rows_at_once - 1)) != 0) {
    return invalid_argument("{}: rows_at_once={}; expected a power of two", named.kernel, plan.rows_at_once);
  }
  return {};
}

}  // namespace

LinearPlan fixed_plan(const CpuMatrix& matrix, const MatrixSegment& segment, int64_t rows, int threads) {
  return fixed_plan_of(matrix, segment, fixed_linear_kernel(matrix, segment, rows), rows, threads);
}

LinearPlan plan_linear(const CpuMatrix& matrix, const MatrixSegment& segment, int64_t rows, int threads) {
  const LinearPlan* tactic = segment.prepared == nullptr ? nullptr : segment.prepared->find(rows);
  return tactic != nullptr ? *tactic : fixed_plan(matrix, segment, rows, threads);
}

std::vector<LinearPlan> linear_candidates(const CpuMatrix& matrix, const MatrixSegment& segment, int64_t rows,
                                          int threads) {
  CandidateList list(matrix, segment, rows, threads);
  list.add_around(fixed_plan(matrix, segment, rows, threads));
  for (LinearKernel kernel : all_linear_kernels()) {
    if (linear_verdict(kernel, matrix, segment, rows).code != ReasonCode::kChosen) continue;
    list.add_around(fixed_plan_of(matrix, segment, kernel, rows, threads));
  }
  return list.take();
}

NamedKernel name_plan(const LinearPlan& plan, const CpuMatrix& matrix, const MatrixSegment& segment) {
  NamedKernel named;
  named.kernel = linear_kernel_name(plan.kernel, plan.narrower ? *matrix.kernels().narrower : matrix.kernels(),
                                    segment.layout.format);
  named.kernel_hash = cpu_kernel_hash(named.kernel);
  named.parameters = {{"chunk_panels", std::to_string(plan.chunk_panels)},
                      {"rows_at_once", std::to_string(plan.rows_at_once)}};
  if (plan.cols_at_once > 0) named.parameters.push_back({"cols_at_once", std::to_string(plan.cols_at_once)});
  if (plan.alone) named.parameters.push_back({"threads", "1"});
  return named;
}

Result<LinearPlan> read_plan(const NamedKernel& named, const CpuMatrix& matrix, const MatrixSegment& segment,
                             int64_t rows, int threads) {
  std::string refused;
  for (LinearKernel kernel : all_linear_kernels()) {
    for (bool narrower : {false, true}) {
      if (narrower && !has_narrower(matrix, segment, kernel)) continue;
      const std::string name =
          linear_kernel_name(kernel, narrower ? *matrix.kernels().narrower : matrix.kernels(), segment.layout.format);
      const Reason reason = linear_verdict(kernel, matrix, segment, rows);
      if (name != named.kernel) {
        refused += fmt::format("{}{}", refused.empty() ? "" : "; ", name);
        if (reason.code != ReasonCode::kChosen)
          refused += fmt::format(" ({}: {})", vernier::name(reason.code), reason.detail);
        continue;
      }
      if (reason.code != ReasonCode::kChosen) {
        return unsupported("{} cannot serve this: {}, {}", name, vernier::name(reason.code), reason.detail);
      }
      LinearPlan plan = fixed_plan_of(matrix, segment, kernel, rows, threads);
      plan.narrower = narrower;
      TRY_STATUS(check_parameter_names(named, unpacks(kernel)));
      TRY_BIND(plan.chunk_panels, read_parameter(named, "chunk_panels", plan.chunk_panels, kMostChunkPanels));
      const int64_t most_rows = is_stream(kernel) ? matrix.kernels().stream_tokens : kMostTileRows;
      TRY_BIND(plan.rows_at_once, read_parameter(named, "rows_at_once", plan.rows_at_once, most_rows));
      if (unpacks(kernel)) {
        TRY_BIND(plan.cols_at_once, read_parameter(named, "cols_at_once", plan.cols_at_once, most_cols(kernel)));
      }
      TRY_BIND(const int64_t alone, read_parameter(named, "threads", threads, threads));
      if (alone != 1 && alone != threads) {
        return invalid_argument("{}: threads={}; expected 1 or {}", name, alone, threads);
      }
      plan.alone = alone == 1 && threads > 1;
      TRY_STATUS(check_plan(plan, named, segment));
      return plan;
    }
  }
  return not_found("no kernel here is called {}; there are {}", named.kernel, refused);
}

}  // namespace vernier
