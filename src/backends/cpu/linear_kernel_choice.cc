#include "backends/cpu/linear_kernel_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/linear_plan.h"
#include "backends/cpu/prepared_linear.h"

namespace vernier {
namespace {

/// Kernels that tiles of AMX serve too.
bool has_amx_form(LinearKernel kernel, PanelFormat format) {
  return takes_bf16_rows(kernel) ||
         (kernel == LinearKernel::kIntTile && is_integer(format) && int_format(format).group == 32);
}

constexpr std::string_view kNames[] = {"int8_stream", "int8_tile", "float_stream",  "fp8_stream",
                                       "fp8_tile",    "bf16_tile", "fp8_bf16_tile", "float_tile"};

constexpr LinearKernel kAllLinear[] = {LinearKernel::kIntStream, LinearKernel::kIntTile,  LinearKernel::kFp8Bf16Tile,
                                       LinearKernel::kFp8Stream, LinearKernel::kFp8Tile,  LinearKernel::kDenseStream,
                                       LinearKernel::kBf16Tile,  LinearKernel::kFloatTile};

/// Of a kernel that would give other bits than those which serve the other steps, whichever a tactic names.
Reason other_bits(std::string_view rows_are) {
  return {ReasonCode::kNumerics,
          fmt::format("rows are {} in every step, so that a row's bits are those it has alone", rows_are)};
}

/// Whatever the number of rows: which kernel multiplies a row may not depend on its neighbours where it shows.
bool rounds_to_bf16(const CpuMatrix& matrix, const MatrixSegment& segment) {
  const PanelFormat format = segment.layout.format;
  return (format == PanelFormat::kBF16 || is_fp8(format)) && matrix.numerics() == Numerics::kFast &&
         matrix.kernels().bf16_tile != nullptr;
}

/// Instruction sets above the one in use, as candidates of the best kernel.
void add_other_isas(const CpuMatrix& matrix, LinearKernel kernel, PanelFormat format,
                    std::vector<Candidate>& candidates) {
  for (Isa isa : {Isa::kAmx, Isa::kAvx512, Isa::kAvx2}) {
    if (isa <= matrix.isa() || (isa == Isa::kAmx && !has_amx_form(kernel, format))) continue;
    std::string full = linear_kernel_name(kernel, matrix.kernels(), format);
    full.replace(full.rfind('_') + 1, std::string::npos, name(isa));
    candidates.push_back(
        {full, {ReasonCode::kNeedsIsa, fmt::format("needs {}; this run uses {}", name(isa), name(matrix.isa()))}});
  }
}

Candidate tuned_candidate(const LinearPlan& plan, const CpuMatrix& matrix, const MatrixSegment& segment) {
  NamedKernel named = name_plan(plan, matrix, segment);
  return {std::move(named.kernel), {ReasonCode::kChosen, "by its tactic"}, std::move(named.parameters)};
}

}  // namespace

bool is_linear_kernel(std::string_view name) {
  return std::ranges::find(kNames, name) != std::end(kNames);
}

std::span<const LinearKernel> all_linear_kernels() {
  return kAllLinear;
}

std::string linear_kernel_name(LinearKernel kernel, const LinearKernels& kernels, PanelFormat format) {
  return fmt::format("{}_{}", kNames[static_cast<size_t>(kernel)],
                     has_amx_form(kernel, format) ? kernels.tile_name : kernels.name);
}

bool is_of_kind(const MatrixSegment& segment, const MatrixSegment& kind) {
  return segment.codec == kind.codec && segment.layout.format == kind.layout.format;
}

std::vector<const MatrixSegment*> linear_kinds(const CpuMatrix& matrix) {
  std::vector<const MatrixSegment*> kinds;
  for (const MatrixSegment& segment : matrix.segments()) {
    const auto same = [&](const MatrixSegment* kind) { return is_of_kind(segment, *kind); };
    if (std::ranges::none_of(kinds, same)) kinds.push_back(&segment);
  }
  return kinds;
}

Problem linear_problem(const CpuMatrix& matrix, const MatrixSegment& kind, int64_t batch_rows) {
  int64_t rows = 0;
  for (const MatrixSegment& segment : matrix.segments()) rows += is_of_kind(segment, kind) ? segment.rows : 0;
  Problem problem = {"linear", {{"codec", kind.codec}}};
  if (kind.fp8_refused.code != ReasonCode::kChosen) problem.facts.push_back({"kept", "f32"});
  problem.facts.push_back({"rows", std::to_string(rows)});
  problem.facts.push_back({"cols", std::to_string(matrix.cols())});
  problem.facts.push_back({"batch", std::to_string(bucket_rows(batch_bucket(batch_rows)))});
  problem.facts.push_back({"numerics", matrix.numerics() == Numerics::kExact ? "exact" : "fast"});
  return problem;
}

Reason linear_verdict(LinearKernel kernel, const CpuMatrix& matrix, const MatrixSegment& segment, int64_t batch_rows) {
  const bool integer = kernel == LinearKernel::kIntStream || kernel == LinearKernel::kIntTile;
  if (integer && !is_integer(segment.layout.format)) {
    return {ReasonCode::kCodec, fmt::format("{} is kept as floats; int8 kernels read integer codes", segment.codec)};
  }
  const bool fp8 =
      kernel == LinearKernel::kFp8Stream || kernel == LinearKernel::kFp8Tile || kernel == LinearKernel::kFp8Bf16Tile;
  const bool refused = segment.fp8_refused.code != ReasonCode::kChosen;
  if (fp8 && !refused && !is_fp8(segment.layout.format)) {
    return {ReasonCode::kCodec, fmt::format("{} is not kept as FP8 codes", segment.codec)};
  }
  if (integer && matrix.numerics() == Numerics::kExact) {
    return {ReasonCode::kNumerics, "int8 activations round; exact numerics keep float32"};
  }
  if (kernel == LinearKernel::kDenseStream && !is_dense(segment.layout.format)) {
    return {ReasonCode::kCodec, fmt::format("{} is kept as codes; this kernel reads floats", segment.codec)};
  }
  if (kernel == LinearKernel::kBf16Tile && segment.layout.format != PanelFormat::kBF16) {
    return {ReasonCode::kCodec, fmt::format("{} is not kept as bf16", segment.codec)};
  }
  if (takes_bf16_rows(kernel)) {
    if (matrix.numerics() == Numerics::kExact) {
      return {ReasonCode::kNumerics, "bf16 activations round; exact numerics keep float32"};
    }
    if (matrix.kernels().bf16_tile == nullptr) {
      return {ReasonCode::kNeedsIsa, fmt::format("needs avx512 with bf16; this run uses {}", name(matrix.isa()))};
    }
  }
  if (!integer && matrix.is_integer(segment)) {
    return other_bits("rounded to int8");
  }
  if (!takes_bf16_rows(kernel) && rounds_to_bf16(matrix, segment)) {
    return other_bits("rounded to bf16");
  }
  if (kernel == LinearKernel::kFloatTile && is_fp8(segment.layout.format)) {
    return other_bits("added group by group");
  }
  if (is_stream(kernel) && batch_rows > kMostStreamRows) {
    return {ReasonCode::kRows, fmt::format("made for up to {} rows; this step has {}", kMostStreamRows, batch_rows)};
  }
  // Last, so that what the weight lacks is told of the kernel that it would have had.
  if (fp8 && refused) return segment.fp8_refused;
  return {ReasonCode::kChosen, ""};
}

LinearKernel fixed_linear_kernel(const CpuMatrix& matrix, const MatrixSegment& segment, int64_t batch_rows) {
  const bool few = batch_rows <= kStreamRows;
  if (matrix.is_integer(segment)) return few ? LinearKernel::kIntStream : LinearKernel::kIntTile;
  if (rounds_to_bf16(matrix, segment)) {
    return is_fp8(segment.layout.format) ? LinearKernel::kFp8Bf16Tile : LinearKernel::kBf16Tile;
  }
  if (is_fp8(segment.layout.format)) return few ? LinearKernel::kFp8Stream : LinearKernel::kFp8Tile;
  if (is_integer(segment.layout.format)) return LinearKernel::kFloatTile;
  return few ? LinearKernel::kDenseStream : LinearKernel::kFloatTile;
}

LinearKernel choose_linear(const CpuMatrix& matrix, const MatrixSegment& segment, int64_t batch_rows, Choice* choice) {
  const LinearPlan* tactic = segment.prepared == nullptr ? nullptr : segment.prepared->find(batch_rows);
  const LinearKernel chosen = tactic != nullptr ? tactic->kernel : fixed_linear_kernel(matrix, segment, batch_rows);
  if (choice == nullptr) return chosen;
  choice->problem = linear_problem(matrix, segment, batch_rows);
  choice->layout = matrix.info().layout;
  if (int64_t padding = matrix.info().padding_bytes; padding > 0) {
    choice->layout += fmt::format(", {} of {} bytes padding", padding, matrix.info().bytes);
  }
  const PanelFormat format = segment.layout.format;
  add_other_isas(matrix, chosen, format, choice->candidates);
  for (LinearKernel kernel : kAllLinear) {
    Candidate candidate{linear_kernel_name(kernel, matrix.kernels(), format),
                        linear_verdict(kernel, matrix, segment, batch_rows)};
    if (kernel == chosen) {
      if (tactic != nullptr) candidate = tuned_candidate(*tactic, matrix, segment);
    } else if (candidate.reason.code == ReasonCode::kChosen) {
      candidate.reason = {ReasonCode::kSlower,
                          fmt::format("{} is faster here", linear_kernel_name(chosen, matrix.kernels(), format))};
    }
    choice->candidates.push_back(std::move(candidate));
  }
  return chosen;
}

std::vector<Choice> explain_linear(const CpuMatrix& matrix, int64_t batch_rows) {
  std::vector<Choice> choices;
  const std::vector<const MatrixSegment*> kinds = linear_kinds(matrix);
  for (const MatrixSegment* kind : kinds) {
    Choice choice;
    choose_linear(matrix, *kind, batch_rows, &choice);
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace vernier
