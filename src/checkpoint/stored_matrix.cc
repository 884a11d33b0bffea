#include "checkpoint/stored_matrix.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>

#include "checkpoint/byte_reader.h"
#include "checkpoint/scale_tensor.h"
#include "checkpoint/stored_module.h"
#include "tensor/fnuz.h"
#include "tensor/tensor.h"

namespace vernier {

namespace {

constexpr std::array<const char*, 5> kCodeNames = {".weight", ".weight_packed", ".qweight", "_blocks", ".blocks"};

constexpr std::string_view kGgufNvfp4 = "NVFP4";

/// Both spellings of an FP8 weight's scale multiply, whatever the second is called.
constexpr std::array<const char*, 5> kScaleNames = {".weight_scale", ".weight_scale_inv", ".scale", "_scales",
                                                    ".scales"};
constexpr std::array<const char*, 6> kOtherLevels = {".biases", ".qzeros",       ".weight_zero_point",
                                                     ".g_idx",  ".weight_g_idx", ".weight_shape"};
constexpr std::array<const char*, 2> kGlobalScaleNames = {".weight_scale_2", ".weight_global_scale"};

Result<QTensor> make_matrix(const StoredModule& module, QTensorParts parts) {
  Result<QTensor> made = QTensor::make(std::move(parts));
  if (made.ok()) return made;
  const bool of_scale = made.error().message.find("scale") != std::string::npos;
  const StoredTensor& about = of_scale && module.sources.size() > 1 ? *module.sources[1].tensor : module.codes;
  return tensor_error(about, made.error().code, made.error().message);
}

bool holds_fp4(const StoredTensor& codes) {
  return codes.type == "U8" || codes.type == "I8" || codes.type == "U32" || codes.type == "F4";
}

/// `bits` of each code.
Status check_codes(const StoredModule& module, int bits) {
  const std::vector<int64_t>& extents = module.codes.extents;
  const int width = module.codes.type == "F4" ? bits : module.codes.type == "U32" ? 32 : 8;
  const int64_t code_cols = module.cols * bits / width;
  if (extents == std::vector{module.rows, code_cols}) return {};
  // gpt-oss keeps the extents of its groups: [rows, columns / 32, 16].
  if (holds_fp4(module.codes) && code_cols % 16 == 0 &&
      extents == std::vector{module.rows, code_cols / 16, int64_t{16}}) {
    return {};
  }
  return tensor_error(module.codes, ErrorCode::kCorrupt,
                      fmt::format("has shape {}, but the configuration asks for [{}, {}], stored as [{}, {}]",
                                  shape_text(module.codes.extents), module.rows, module.cols, module.rows, code_cols));
}

Error wrong_codes(const StoredModule& module, const char* expected) {
  const bool is_dense = module.codes.codec.has_value();
  return tensor_error(module.codes, ErrorCode::kCorrupt,
                      fmt::format("holds {} numbers, but {} is to be {}: expected {} and its scales{}",
                                  module.codes.type, printable(module.name), describe(module.scheme), expected,
                                  is_dense ? "; a layer that is not quantised must stand in the list of those" : ""));
}

int64_t ceil_groups(int64_t extent, int64_t group) {
  return (extent + group - 1) / group;
}

Result<QTensor> read_mxfp4_matrix(StoredModule& module) {
  if (!holds_fp4(module.codes)) return wrong_codes(module, "two codes of 4 bits in each U8");
  TRY_STATUS(check_codes(module, 4));
  TRY_BIND(const StoredTensor* scale, find_one(module, kScaleNames, "scale"));
  module.sources.push_back({scale, TensorUse::kScale});
  TRY_BIND(ScaleLevel level, read_e8m0_scales(*scale, {module.rows, ceil_groups(module.cols, 32), module.rows, 1}));
  return make_matrix(module, {codec(CodecId::kMxfp4),
                              module.rows,
                              module.cols,
                              module.codes.data(),
                              std::move(level.bytes),
                              {},
                              {},
                              module.origin()});
}

/// What NVFP4's block scales are multiplied by.
Result<float> read_global_scale(StoredModule& module) {
  const char* own_name = kGlobalScaleNames[module.scheme.global_divides ? 1 : 0];
  TRY_BIND(const StoredTensor* global, find_one(module, std::span(&own_name, 1), "global scale"));
  module.sources.push_back({global, TensorUse::kScale});
  TRY_BIND(float outer, read_one_scale(*global));
  if (module.scheme.global_divides) outer = 1 / outer;
  if (!std::isfinite(outer) || outer == 0) {
    return tensor_error(*global, ErrorCode::kCorrupt, "its reciprocal is no finite number above 0");
  }
  return outer;
}

Result<QTensor> read_nvfp4(StoredModule& module) {
  if (!holds_fp4(module.codes)) return wrong_codes(module, "two codes of 4 bits in each U8");
  TRY_STATUS(check_codes(module, 4));
  const char* scale_name = module.scheme.in_words ? ".scales" : ".weight_scale";
  TRY_BIND(const StoredTensor* scale, find_one(module, std::span(&scale_name, 1), "scale"));
  module.sources.push_back({scale, TensorUse::kScale});
  // MLX has no global scale, and calls E4M3 bytes U8.
  const bool is_mlx = module.scheme.in_words && scale->type == "U8";
  if (scale->type != "F8_E4M3" && !is_mlx) {
    return tensor_error(*scale, ErrorCode::kCorrupt,
                        fmt::format("holds {} numbers, expected F8_E4M3: one for each 16 columns", scale->type));
  }
  TRY_BIND(ScaleLevel level, read_scales(*scale, {module.rows, ceil_groups(module.cols, 16), module.rows, 1}));
  float outer = 1;
  if (!is_mlx) {
    TRY_BIND(outer, read_global_scale(module));
  }
  return make_matrix(module, {codec(CodecId::kNvfp4),
                              module.rows,
                              module.cols,
                              module.codes.data(),
                              std::move(level.bytes),
                              {outer},
                              {},
                              module.origin()});
}

/// FNUZ codes have their own values and NaN (0x7F, 0x80). They become FN under half the scale where that loses nothing,
/// else plain numbers.
Result<QTensor> from_fnuz(const StoredModule& module, Bytes scales, const Codec& codec_of_scales) {
  Result<FnuzTensor> stored = FnuzTensor::make(
      {codec_of_scales, module.rows, module.cols, module.codes.data(), std::move(scales), {}, {}, module.origin()});
  if (!stored.ok()) return tensor_error(*module.sources[1].tensor, stored.error().code, stored.error().message);
  if (Result<Cast> cast = stored->to_fn(); cast.ok() && cast->report.exact()) return std::move(cast->tensor);
  return QTensor::from_dense(Tensor::from_floats(Shape{module.rows, module.cols}, stored->decode()), module.origin());
}

Codec fp8_codec(const WeightScheme& scheme, bool is_e5m2) {
  if (scheme.form == WeightForm::kFp8Channel) return codec(is_e5m2 ? CodecId::kE5M2Channel : CodecId::kE4M3Channel);
  if (scheme.form == WeightForm::kMxfp8) return codec(CodecId::kMxfp8);
  if (scheme.form == WeightForm::kFp8Block) {
    return block_codec(is_e5m2 ? CodecId::kE5M2Block : CodecId::kE4M3Block, scheme.block_rows, scheme.block_cols,
                       ScaleType::kF32);
  }
  return codec(is_e5m2 ? CodecId::kE5M2Tensor : CodecId::kE4M3Tensor);
}

/// E4M3 and E5M2 of any granularity.
Result<QTensor> read_fp8_bytes(StoredModule& module) {
  const WeightScheme& scheme = module.scheme;
  const bool is_fnuz = module.codes.type == "F8_E4M3FNUZ" || module.codes.type == "F8_E5M2FNUZ";
  const bool is_e5m2 = module.codes.type == "F8_E5M2" || module.codes.type == "F8_E5M2FNUZ";
  const bool in_words = scheme.in_words && module.codes.type == "U32";
  if (!is_fnuz && !is_e5m2 && !in_words && module.codes.type != "F8_E4M3")
    return wrong_codes(module, "F8_E4M3 or F8_E5M2 codes");
  if (!scheme.element.empty() && scheme.element != (is_e5m2 ? "e5m2" : "e4m3")) {
    return tensor_error(
        module.codes, ErrorCode::kCorrupt,
        fmt::format("holds {} codes, and \"fmt\" of the configuration says {}; one of both must be wrong",
                    module.codes.type, scheme.element));
  }
  TRY_STATUS(check_codes(module, 8));
  TRY_BIND(const StoredTensor* scale,
           find_one(module, std::span(kScaleNames).subspan(in_words ? 4 : 0, in_words ? 1 : 2), "scale"));
  module.sources.push_back({scale, TensorUse::kScale});
  Codec layout = fp8_codec(scheme, is_e5m2);
  if (scheme.form == WeightForm::kMxfp8 && (is_e5m2 || module.cols % 32 != 0)) {
    return tensor_error(module.codes, ErrorCode::kUnsupported,
                        fmt::format("MXFP8 holds {} and {} columns; expected F8_E4M3 and a multiple of 32",
                                    module.codes.type, module.cols));
  }
  const ScaleGrid grid{layout.groups_down(module.rows), layout.groups_across(module.cols), module.rows,
                       layout.group_rows};
  auto read = [&]() -> Result<ScaleLevel> {
    if (scheme.form == WeightForm::kMxfp8) return read_e8m0_scales(*scale, grid);
    if (scheme.power_of_two_scales) TRY_STATUS(read_e8m0_scales(*scale, grid));
    if (scheme.form == WeightForm::kFp8Block) return read_scales(*scale, grid);
    return read_f32_scales(*scale, grid);
  };
  TRY_BIND(ScaleLevel level, read());
  if (level.type == ScaleType::kE4M3) {
    return tensor_error(*scale, ErrorCode::kCorrupt, "holds F8_E4M3 numbers, expected F32 or F8_E8M0 scales");
  }
  if (scheme.form == WeightForm::kFp8Block) {
    layout = block_codec(layout.id, scheme.block_rows, scheme.block_cols, level.type);
  }
  if (is_fnuz) return from_fnuz(module, std::move(level.bytes), layout);
  return make_matrix(
      module, {layout, module.rows, module.cols, module.codes.data(), std::move(level.bytes), {}, {}, module.origin()});
}

/// As stored: numbers, or blocks with their scales inside.
Result<QTensor> read_dense(StoredModule& module, const WeightDecision& decision) {
  const StoredTensor& codes = module.codes;
  if (codes.type == kGgufNvfp4 && decision.rule.empty()) return read_gguf_nvfp4(module);
  if (!codes.codec) {
    const bool needs_scale = codes.type.starts_with("F8") || codes.type.starts_with("F4");
    if (!decision.rule.empty()) {
      return tensor_error(codes, ErrorCode::kCorrupt,
                          fmt::format("holds {} codes, but {} is not quantised, by {}; one of both must be wrong",
                                      codes.type, printable(module.name), decision.rule));
    }
    return tensor_error(codes, ErrorCode::kUnsupported,
                        needs_scale ? fmt::format("holds {} codes, and nothing says which scale they have", codes.type)
                                    : fmt::format("type {} is not supported as a weight", codes.type));
  }
  // A matrix of one row loses its first extent in GGUF files.
  const bool fits = codes.extents == std::vector{module.rows, module.cols} ||
                    (module.rows == 1 && codes.extents == std::vector{module.cols});
  if (!fits) {
    return tensor_error(codes, ErrorCode::kCorrupt,
                        fmt::format("has shape {}, but the configuration asks for [{}, {}]", shape_text(codes.extents),
                                    module.rows, module.cols));
  }
  return make_matrix(module,
                     {codec(*codes.codec), module.rows, module.cols, codes.data(), {}, {}, {}, module.origin()});
}

bool is_integer(WeightForm form) {
  return form >= WeightForm::kAwq;
}

Result<QTensor> read_scheme(StoredModule& module, const WeightDecision& decision) {
  switch (module.scheme.form) {
    case WeightForm::kDense:
      return read_dense(module, decision);
    case WeightForm::kMxfp4:
      return read_mxfp4_matrix(module);
    case WeightForm::kNvfp4:
      return read_nvfp4(module);
    default:
      if (is_integer(module.scheme.form)) return read_integers(module);
      // Experts of FP4 inside an FP8 checkpoint.
      if (!module.scheme.in_words && holds_fp4(module.codes)) return read_mxfp4_matrix(module);
      return read_fp8_bytes(module);
  }
}

/// A static scale of the activations, under either name; the second is stored as what to divide by.
Result<std::optional<float>> read_input_scale(StoredModule& module) {
  const StoredTensor* plain = module.checkpoint.find(module.name + ".input_scale");
  const StoredTensor* inverse = module.checkpoint.find(module.name + ".input_global_scale");
  if (plain != nullptr && inverse != nullptr) {
    return tensor_error(*inverse, ErrorCode::kCorrupt,
                        fmt::format("stands beside {}; expected one input scale", printable(plain->file_name)));
  }
  const StoredTensor* found = plain != nullptr ? plain : inverse;
  if (found == nullptr) {
    if (!module.scheme.needs_input_scale) return std::optional<float>();
    return tensor_error(
        module.codes, ErrorCode::kCorrupt,
        fmt::format("the static scale of its activations is missing: expected {}.input_scale", printable(module.name)));
  }
  TRY_BIND(float scale, read_one_scale(*found));
  module.sources.push_back({found, TensorUse::kInputScale});
  return std::optional(plain != nullptr ? scale : 1 / scale);
}

}  // namespace

std::string StoredModule::origin() const {
  std::string text = printable(codes.file_name);
  for (size_t i = 1; i < sources.size(); ++i) {
    if (sources[i].use != TensorUse::kScale) continue;
    std::string_view scale = sources[i].tensor->file_name;
    if (scale.starts_with(name)) scale.remove_prefix(name.size() + 1);
    text += fmt::format(" x {}{}", scheme.global_divides && i == 2 ? "1/" : "", printable(scale));
  }
  return text;
}

Result<const StoredTensor*> find_one(const StoredModule& module, std::span<const char* const> names, const char* what) {
  const StoredTensor* found = nullptr;
  std::string expected;
  for (const char* name : names) {
    expected += fmt::format("{}{}", expected.empty() ? "" : " or ", name + 1);
    const StoredTensor* tensor = module.checkpoint.find(module.name + name);
    if (tensor == nullptr) continue;
    if (found != nullptr) {
      return tensor_error(*tensor, ErrorCode::kCorrupt,
                          fmt::format("stands beside {}; expected one {}", printable(found->file_name), what));
    }
    found = tensor;
  }
  if (found == nullptr) {
    return tensor_error(module.codes, ErrorCode::kCorrupt,
                        fmt::format("its {} is missing: {} is {}, expected {}", what, printable(module.name),
                                    describe(module.scheme), expected));
  }
  return found;
}

const StoredTensor* find_codes(const Checkpoint& checkpoint, const std::string& module) {
  for (const char* name : kCodeNames) {
    if (const StoredTensor* tensor = checkpoint.find(module + name)) return tensor;
  }
  return nullptr;
}

std::string scales_beside(const Checkpoint& checkpoint, const std::string& module) {
  std::string found;
  auto add = [&](std::span<const char* const> names) {
    for (const char* name : names) {
      if (checkpoint.find(module + name) != nullptr) found += fmt::format("{}{}", found.empty() ? "" : ", ", name + 1);
    }
  };
  add(kScaleNames);
  add(kGlobalScaleNames);
  add(kOtherLevels);
  return found;
}

Result<StoredMatrix> read_matrix(const Checkpoint& checkpoint, const std::string& module, int64_t rows, int64_t cols) {
  const StoredTensor* codes = find_codes(checkpoint, module);
  if (codes == nullptr) {
    return Error{
        ErrorCode::kCorrupt,
        fmt::format("tensor {}.weight is missing, and the configuration asks for it; is the download complete?",
                    printable(module)),
        checkpoint.path()};
  }
  WeightDecision decision = checkpoint.plan().decide(module);
  if (decision.only_if_stored && codes->codec) decision.scheme = {};
  StoredModule parts{checkpoint, module, rows, cols, decision.scheme, *codes, {{codes, TensorUse::kMatrix}}};
  TRY_BIND(QTensor matrix, read_scheme(parts, decision));
  std::optional<float> input_scale;
  if (decision.scheme.form != WeightForm::kDense || codes->type == kGgufNvfp4) {
    TRY_BIND(input_scale, read_input_scale(parts));
  }
  return StoredMatrix{std::move(matrix), std::move(parts.sources), input_scale, decision.scheme.weights_only};
}

}  // namespace vernier
