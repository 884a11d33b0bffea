#include "checkpoint/quant_dialects.h"

#include <algorithm>
#include <optional>
#include <string>

#include "checkpoint/byte_reader.h"
#include "checkpoint/quant_keys.h"

namespace vernier {

namespace {

using Json = nlohmann::json;

constexpr int64_t kLargestBlock = 1 << 15;

Error scheme_error(const Config& scheme, ErrorCode code, std::string message) {
  return Error{code, std::move(message), scheme.where()};
}

/// [rows, columns]; nothing where the key is absent.
Result<std::optional<std::pair<int, int>>> read_block_size(Config& scheme) {
  const Json& size = scheme.raw("weight_block_size");
  if (size.is_null()) return std::optional<std::pair<int, int>>();
  bool is_pair = size.is_array() && size.size() == 2;
  for (const Json& extent : size) {
    is_pair = is_pair && extent.is_number_integer() && extent >= 1 && extent <= kLargestBlock;
  }
  if (!is_pair) {
    return scheme_error(scheme, ErrorCode::kCorrupt,
                        fmt::format("\"weight_block_size\" is {}, expected two whole numbers above 0, rows and columns",
                                    printable(size.dump())));
  }
  return std::optional(std::pair(size[0].get<int>(), size[1].get<int>()));
}

/// ModelOpt's and TensorRT-LLM's names of algorithms; nothing for one that is not known.
std::optional<WeightScheme> modelopt_scheme(const std::string& algorithm) {
  WeightScheme scheme;
  scheme.algorithm = algorithm;
  const std::string name = upper_case(algorithm);
  if (name == "FP8") {
    scheme.form = WeightForm::kFp8Tensor;
  } else if (name == "FP8_PER_CHANNEL_PER_TOKEN") {
    scheme.form = WeightForm::kFp8Channel;
  } else if (name == "FP8_PB_WO" || name == "FP8_BLOCK_SCALES") {
    scheme.form = WeightForm::kFp8Block;
    scheme.block_rows = scheme.block_cols = 128;
  } else if (name == "NVFP4" || name == "W4A16_NVFP4") {
    scheme.form = WeightForm::kNvfp4;
  } else if (name == "MXFP8") {
    scheme.form = WeightForm::kMxfp8;
  } else if (name == "W4A16_MXFP4" || name == "W4A8_MXFP4_FP8" || name == "W4A8_MXFP4_MXFP8") {
    scheme.form = WeightForm::kMxfp4;
  } else {
    return std::nullopt;
  }
  scheme.weights_only = name == "FP8_PB_WO" || name.starts_with("W4A16");
  return scheme;
}

constexpr std::string_view kModeloptNames =
    "FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, NVFP4, W4A16_NVFP4, MXFP8, MIXED_PRECISION";

/// The group that an algorithm implies; a configuration that names another means something else.
Status check_group_size(const Config& scheme, const WeightScheme& weights, const Json& group, std::string_view of) {
  if (group.is_null()) return {};
  int expected = weights.form == WeightForm::kNvfp4                                         ? 16
                 : weights.form == WeightForm::kMxfp8 || weights.form == WeightForm::kMxfp4 ? 32
                 : weights.form == WeightForm::kFp8Block                                    ? weights.block_cols
                                                                                            : 0;
  if (expected == 0 || group == expected || group == 0) return {};
  return scheme_error(
      scheme, ErrorCode::kUnsupported,
      fmt::format("{}: {} with groups of {}, expected {}", of, weights.algorithm, printable(group.dump()), expected));
}

/// "quantized_layers": each layer of a mixed checkpoint and its algorithm.
Status read_listed_layers(Config& scheme, QuantPlan& plan) {
  const Json& layers = scheme.raw("quantized_layers");
  if (!layers.is_object()) {
    return scheme_error(scheme, ErrorCode::kCorrupt,
                        "MIXED_PRECISION needs \"quantized_layers\", an object from layers to their algorithms");
  }
  for (const auto& [layer, entry] : layers.items()) {
    const Json algorithm = entry.is_object() ? entry.value("quant_algo", Json()) : Json();
    if (!algorithm.is_string()) {
      return scheme_error(scheme, ErrorCode::kCorrupt,
                          fmt::format("layer {} of \"quantized_layers\" has no \"quant_algo\"", printable(layer)));
    }
    std::optional<WeightScheme> weights = modelopt_scheme(algorithm.get<std::string>());
    if (!weights) {
      return scheme_error(scheme, ErrorCode::kUnsupported,
                          fmt::format("layer {} is quantised by {}, which is not known; known are {}", printable(layer),
                                      printable(algorithm.get<std::string>()), kModeloptNames));
    }
    TRY_STATUS(check_group_size(scheme, *weights, entry.value("group_size", Json()), layer));
    for (const ModulePattern& pattern : plan.excluded) {
      if (!pattern.matches(layer)) continue;
      return scheme_error(scheme, ErrorCode::kCorrupt,
                          fmt::format("layer {} stands in \"quantized_layers\" and in \"{}\" ('{}')", printable(layer),
                                      plan.excluded_key, printable(pattern.text())));
    }
    auto rule = std::find_if(plan.rules.begin(), plan.rules.end(),
                             [&](const QuantPlan::Rule& known) { return known.name == weights->algorithm; });
    if (rule == plan.rules.end()) rule = plan.rules.insert(plan.rules.end(), {weights->algorithm, *weights});
    auto index = static_cast<size_t>(rule - plan.rules.begin());
    auto [known, fresh] = plan.listed.emplace(without_wrappers(layer), index);
    if (!fresh && known->second != index) {
      return scheme_error(scheme, ErrorCode::kCorrupt,
                          fmt::format("layer {} stands in \"quantized_layers\" twice, as {} and as {}",
                                      printable(layer), plan.rules[known->second].name, weights->algorithm));
    }
  }
  return {};
}

/// "config_groups" beside "quant_algo" say the same once more: they must not say something else.
Status check_groups_again(const Config& scheme, const WeightScheme& weights, const Json& groups) {
  if (!groups.is_object()) return {};
  const bool is_narrow = weights.form == WeightForm::kNvfp4 || weights.form == WeightForm::kMxfp4;
  for (const auto& [name, group] : groups.items()) {
    const Json said = group.is_object() ? group.value("weights", Json()) : Json();
    const Json bits = said.is_object() ? said.value("num_bits", Json()) : Json();
    if (bits.is_null() || bits == (is_narrow ? 4 : 8)) continue;
    return scheme_error(scheme, ErrorCode::kCorrupt,
                        fmt::format("\"quant_algo\" is {}, but {} of \"config_groups\" has weights of {} bits; one of "
                                    "them must be wrong",
                                    printable(weights.algorithm), printable(name), printable(bits.dump())));
  }
  return {};
}

}  // namespace

Status read_fp8(Config& scheme, QuantPlan& plan) {
  TRY_BIND(std::string method, scheme.text("quant_method"));
  method = lower_case(method);
  WeightScheme weights;
  weights.algorithm = method;
  TRY_BIND(std::string activations, scheme.text("activation_scheme", "dynamic"));
  if (activations != "dynamic" && activations != "static") {
    return scheme_error(scheme, ErrorCode::kUnsupported,
                        fmt::format("\"activation_scheme\" is {}, expected dynamic or static", printable(activations)));
  }
  weights.needs_input_scale = activations == "static";
  TRY_BIND(auto block, read_block_size(scheme));
  TRY_BIND(std::string element, scheme.text("fmt", ""));
  if (!element.empty() && element != "e4m3" && element != "e5m2" && element != "e4m3fn" && element != "float8_e4m3fn") {
    return scheme_error(scheme, ErrorCode::kUnsupported,
                        fmt::format("\"fmt\" is {}, expected e4m3 or e5m2", printable(element)));
  }
  if (!element.empty()) weights.element = element == "e5m2" ? "e5m2" : "e4m3";
  TRY_BIND(std::string scales, scheme.text("scale_fmt", "float"));
  if (scales != "float" && scales != "float32" && scales != "ue8m0") {
    return scheme_error(scheme, ErrorCode::kUnsupported,
                        fmt::format("\"scale_fmt\" is {}, expected ue8m0 or none", printable(scales)));
  }
  weights.power_of_two_scales = scales == "ue8m0";
  scheme.ignore({"dequantize", "activation_scale_ub", "is_checkpoint_fp8_serialized"});
  if (method == "mxfp8") {
    weights.form = WeightForm::kMxfp8;  // whatever block it names, as every reader of the dialect has it
  } else if (method == "fbgemm_fp8") {
    weights.form = WeightForm::kFp8Channel;
  } else if (block) {
    if (weights.needs_input_scale) {
      return scheme_error(scheme, ErrorCode::kUnsupported,
                          "\"weight_block_size\" with a static \"activation_scheme\"; expected dynamic");
    }
    weights.form = WeightForm::kFp8Block;
    weights.block_rows = block->first;
    weights.block_cols = block->second;
  } else {
    weights.form = WeightForm::kFp8Tensor;
  }
  plan.rules.push_back({"", weights});
  plan.every_linear = 0;
  return {};
}

Status read_mxfp4(Config& scheme, QuantPlan& plan) {
  scheme.ignore({"quant_method", "dequantize"});
  WeightScheme weights;
  weights.form = WeightForm::kMxfp4;
  weights.algorithm = "mxfp4";
  plan.rules.push_back({"", weights});
  plan.patterns_are_own = true;
  TRY_BIND(ModulePattern experts, ModulePattern::make("mlp.experts"));
  plan.patterns.emplace_back(std::move(experts), 0);
  return {};
}

Status read_modelopt(Config& scheme, QuantPlan& plan) {
  // What a pre-scale, a zero point or smoothing would change, no reader here undoes.
  scheme.ignore({"quant_method", "producer", "quantization_version", "awq_block_size", "smoothquant_val"});
  TRY_BIND(bool has_zero_point, scheme.boolean("has_zero_point", false));
  TRY_BIND(bool has_pre_scale, scheme.boolean("pre_quant_scale", false));
  if (has_zero_point || has_pre_scale) {
    return scheme_error(scheme, ErrorCode::kUnsupported,
                        "zero points and pre_quant_scale of AWQ algorithms are not supported");
  }
  const Json group_size = scheme.raw("group_size");
  const Json groups = scheme.raw("config_groups");
  if (!scheme.has("quant_algo")) {
    scheme.ignore({"quant_algo", "quantized_layers"});
    if (groups.is_object() && !groups.empty()) return read_config_groups(groups, "", false, plan);
    if (plan.cache && !plan.cache->empty()) return {};
    return scheme_error(scheme, ErrorCode::kCorrupt, "neither \"quant_algo\" nor a quantised KV cache is named");
  }
  TRY_BIND(std::string algorithm, scheme.text("quant_algo"));
  if (upper_case(algorithm) == "MIXED_PRECISION") {
    if (!scheme.has("quantized_layers") && groups.is_object()) return read_config_groups(groups, "", false, plan);
    return read_listed_layers(scheme, plan);
  }
  std::optional<WeightScheme> weights = modelopt_scheme(algorithm);
  if (!weights) {
    return scheme_error(
        scheme, ErrorCode::kUnsupported,
        fmt::format("\"quant_algo\" is {}, which is not known; known are {}", printable(algorithm), kModeloptNames));
  }
  TRY_STATUS(check_group_size(scheme, *weights, group_size, "group_size"));
  plan.rules.push_back({"", *weights});
  plan.every_linear = 0;
  if (scheme.has("quantized_layers")) {
    return scheme_error(scheme, ErrorCode::kUnsupported,
                        fmt::format("\"quantized_layers\" beside {}, expected MIXED_PRECISION", printable(algorithm)));
  }
  return check_groups_again(scheme, *weights, groups);
}

}  // namespace vernier
