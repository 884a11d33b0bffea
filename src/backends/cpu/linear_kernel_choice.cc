#include "backends/cpu/linear_kernel_choice.h"

#include <fmt/format.h>

#include <algorithm>

namespace vernier {
namespace {

/// Kernels that tiles of AMX serve too.
bool has_amx_form(LinearKernel kernel, PanelFormat format) {
  return takes_bf16_rows(kernel) ||
         (kernel == LinearKernel::kIntTile && is_integer(format) && int_format(format).group == 32);
}

constexpr std::string_view kNames[] = {"int8_stream", "int8_tile", "float_stream",  "fp8_stream",
                                       "fp8_tile",    "bf16_tile", "fp8_bf16_tile", "float_tile"};

std::string kernel_name(LinearKernel kernel, const CpuMatrix& matrix, PanelFormat format) {
  const LinearKernels& kernels = matrix.kernels();
  return fmt::format("{}_{}", kNames[static_cast<size_t>(kernel)],
                     has_amx_form(kernel, format) ? kernels.tile_name : kernels.name);
}

/// Whatever the number of rows: which kernel multiplies a row may not depend on its neighbours where it shows.
bool rounds_to_bf16(const CpuMatrix& matrix, const MatrixSegment& segment) {
  const PanelFormat format = segment.layout.format;
  return (format == PanelFormat::kBF16 || is_fp8(format)) && matrix.numerics() == Numerics::kFast &&
         matrix.kernels().bf16_tile != nullptr;
}

/// Whether the kernel can serve this, and why not.
Reason verdict(LinearKernel kernel, const CpuMatrix& matrix, const MatrixSegment& segment, int64_t batch_rows) {
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
  if (is_stream(kernel) && rounds_to_bf16(matrix, segment)) {
    return {ReasonCode::kNumerics,
            "rows are rounded to bf16 in every step, so that a row's bits are those it has alone"};
  }
  if (is_stream(kernel) && batch_rows > kStreamRows) {
    return {ReasonCode::kRows, fmt::format("made for up to {} rows; this step has {}", kStreamRows, batch_rows)};
  }
  // Last, so that what the weight lacks is told of the kernel that it would have had.
  if (fp8 && refused) return segment.fp8_refused;
  return {ReasonCode::kChosen, ""};
}

/// Instruction sets above the one in use, as candidates of the best kernel.
void add_other_isas(const CpuMatrix& matrix, LinearKernel kernel, PanelFormat format,
                    std::vector<Candidate>& candidates) {
  for (Isa isa : {Isa::kAmx, Isa::kAvx512, Isa::kAvx2}) {
    if (isa <= matrix.isa() || (isa == Isa::kAmx && !has_amx_form(kernel, format))) continue;
    std::string full = kernel_name(kernel, matrix, format);
    full.replace(full.rfind('_') + 1, std::string::npos, name(isa));
    candidates.push_back(
        {full, {ReasonCode::kNeedsIsa, fmt::format("needs {}; this run uses {}", name(isa), name(matrix.isa()))}});
  }
}

}  // namespace

bool is_linear_kernel(std::string_view name) {
  return std::ranges::find(kNames, name) != std::end(kNames);
}

LinearKernel choose_linear(const CpuMatrix& matrix, const MatrixSegment& segment, int64_t batch_rows, Choice* choice) {
  // Fastest first.
  constexpr LinearKernel kAll[] = {LinearKernel::kIntStream, LinearKernel::kIntTile,  LinearKernel::kFp8Bf16Tile,
                                   LinearKernel::kFp8Stream, LinearKernel::kFp8Tile,  LinearKernel::kDenseStream,
                                   LinearKernel::kBf16Tile,  LinearKernel::kFloatTile};
  if (choice == nullptr) {
    const bool few = batch_rows <= kStreamRows;
    if (matrix.is_integer(segment)) return few ? LinearKernel::kIntStream : LinearKernel::kIntTile;
    if (rounds_to_bf16(matrix, segment)) {
      return is_fp8(segment.layout.format) ? LinearKernel::kFp8Bf16Tile : LinearKernel::kBf16Tile;
    }
    if (is_fp8(segment.layout.format)) return few ? LinearKernel::kFp8Stream : LinearKernel::kFp8Tile;
    if (is_integer(segment.layout.format)) return LinearKernel::kFloatTile;
    return few ? LinearKernel::kDenseStream : LinearKernel::kFloatTile;
  }
  const LinearKernel chosen = choose_linear(matrix, segment, batch_rows, nullptr);
  choice->problem = {"linear",
                     {{"codec", segment.codec},
                      {"rows", fmt::format("{}", segment.rows)},
                      {"cols", fmt::format("{}", matrix.cols())},
                      {"batch", fmt::format("{}", batch_rows)},
                      {"numerics", matrix.numerics() == Numerics::kExact ? "exact" : "fast"}}};
  choice->layout = matrix.info().layout;
  if (int64_t padding = matrix.info().padding_bytes; padding > 0) {
    choice->layout += fmt::format(", {} of {} bytes padding", padding, matrix.info().bytes);
  }
  const PanelFormat format = segment.layout.format;
  add_other_isas(matrix, chosen, format, choice->candidates);
  for (LinearKernel kernel : kAll) {
    Reason reason = verdict(kernel, matrix, segment, batch_rows);
    if (kernel != chosen && reason.code == ReasonCode::kChosen) {
      reason = {ReasonCode::kSlower, fmt::format("{} is faster here", kernel_name(chosen, matrix, format))};
    }
    choice->candidates.push_back({kernel_name(kernel, matrix, format), std::move(reason)});
  }
  return chosen;
}

std::vector<Choice> explain_linear(const CpuMatrix& matrix, int64_t batch_rows) {
  // Rows that share a codec may lie apart: q and k of a fused weight beside a v of another.
  std::vector<const MatrixSegment*> kinds;
  for (const MatrixSegment& segment : matrix.segments()) {
    if (std::ranges::find(kinds, segment.codec, &MatrixSegment::codec) == kinds.end()) kinds.push_back(&segment);
  }
  std::vector<Choice> choices;
  for (const MatrixSegment* kind : kinds) {
    int64_t rows = 0;
    for (const MatrixSegment& segment : matrix.segments()) rows += segment.codec == kind->codec ? segment.rows : 0;
    Choice choice;
    choose_linear(matrix, *kind, batch_rows, &choice);
    const auto fact = std::ranges::find(choice.problem.facts, "rows", &Problem::Fact::name);
    fact->value = rows == matrix.rows() ? fmt::format("{}", rows) : fmt::format("{} of {}", rows, matrix.rows());
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace vernier
