#include <array>
#include <optional>
#include <string>

#include "checkpoint/byte_reader.h"
#include "checkpoint/quant_keys.h"

namespace vernier {

namespace {

using Json = nlohmann::json;

/// "weights" of one group.
struct GroupWeights {
  int64_t bits = 0;
  std::string type;
  std::string strategy;
  int64_t group_size = 0;
  int block_rows = 0, block_cols = 0;
  bool symmetric = true;
};

Status read_block_structure(Config& args, GroupWeights& weights) {
  const Json& structure = args.raw("block_structure");
  if (structure.is_null()) return {};
  Error wrong{ErrorCode::kCorrupt,
              fmt::format("\"block_structure\" is {}, expected two whole numbers", printable(structure.dump())),
              args.where()};
  Json pair = structure;
  if (structure.is_string()) {  // "128x128"
    const auto text = structure.get<std::string>();
    const size_t cross = text.find('x');
    if (cross == std::string::npos) return wrong;
    pair = Json::array(
        {Json::parse(text.substr(0, cross), nullptr, false), Json::parse(text.substr(cross + 1), nullptr, false)});
  }
  if (!pair.is_array() || pair.size() != 2) return wrong;
  for (const Json& extent : pair) {
    if (!extent.is_number_integer() || extent < 1 || extent > (1 << 15)) return wrong;
  }
  weights.block_rows = pair[0].get<int>();
  weights.block_cols = pair[1].get<int>();
  return {};
}

Result<GroupWeights> read_weights(Config& args) {
  GroupWeights weights;
  TRY_BIND(weights.bits, args.integer("num_bits", 8));
  TRY_BIND(weights.type, args.text("type", "int"));
  TRY_BIND(weights.group_size, args.integer("group_size", 0));
  if (weights.group_size < 0) weights.group_size = 0;  // -1: one group a row
  if (weights.group_size > (1 << 20)) {
    return Error{ErrorCode::kCorrupt, fmt::format("\"group_size\" is {}", weights.group_size), args.where()};
  }
  TRY_STATUS(read_block_structure(args, weights));
  std::string implied = weights.group_size > 0 ? "group" : weights.block_rows > 0 ? "block" : "tensor";
  TRY_BIND(weights.strategy, args.text("strategy", implied));
  TRY_BIND(weights.symmetric, args.boolean("symmetric", true));
  TRY_BIND(bool dynamic, args.boolean("dynamic", false));
  if (!weights.symmetric && weights.type == "float") {
    return Error{ErrorCode::kUnsupported, "asymmetric floating weights have no reader", args.where()};
  }
  if (dynamic) return Error{ErrorCode::kCorrupt, "weights cannot be quantised dynamically", args.where()};
  args.ignore({"observer", "observer_kwargs", "scale_dtype", "zp_dtype", "actorder"});
  TRY_STATUS(args.finish());
  return weights;
}

/// What the numbers, their strategy and the format of the file come to.
std::optional<WeightForm> form_of(const GroupWeights& weights, const std::string& format) {
  const std::string& strategy = weights.strategy;
  const bool grouped = strategy == "group" || strategy == "tensor_group";
  if (weights.type == "int") {
    const bool known = strategy == "tensor" || strategy == "channel" || (grouped && weights.group_size > 0);
    if (!known || (weights.bits != 4 && weights.bits != 8)) return std::nullopt;
    return format == "int-quantized" && weights.bits == 8 ? WeightForm::kInteger : WeightForm::kPackedInteger;
  }
  if (weights.type != "float") return std::nullopt;
  if (weights.bits == 8) {
    if (strategy == "tensor") return WeightForm::kFp8Tensor;
    if (strategy == "channel") return WeightForm::kFp8Channel;
    if (strategy == "block" && weights.block_rows > 0) return WeightForm::kFp8Block;
    if (grouped && weights.group_size == 32) return WeightForm::kMxfp8;
  }
  if (weights.bits == 4 && grouped) {
    if (weights.group_size == 16) return WeightForm::kNvfp4;
    if (weights.group_size == 32) return WeightForm::kMxfp4;
  }
  return std::nullopt;
}

/// Whether this format keeps such weights; anything else means other bytes than those that are read.
bool format_holds(const std::string& format, WeightForm form) {
  switch (form) {
    case WeightForm::kPackedInteger:
      return format == "pack-quantized";
    case WeightForm::kInteger:
      return format == "int-quantized";
    case WeightForm::kNvfp4:
      return format == "nvfp4-pack-quantized";
    case WeightForm::kMxfp4:
      return format == "mxfp4-pack-quantized";
    case WeightForm::kMxfp8:
      return format == "mxfp8-quantized" || format == "float-quantized" || format == "naive-quantized";
    default:
      return format == "float-quantized" || format == "naive-quantized";
  }
}

bool has_static_inputs(const Json& group) {
  const Json inputs = group.value("input_activations", Json());
  if (!inputs.is_object()) return false;
  const Json dynamic = inputs.value("dynamic", Json(false));
  return dynamic.is_boolean() && !dynamic.get<bool>();  // "local": its global scale alone is static
}

Result<std::optional<WeightScheme>> group_scheme(const std::string& name, const Json& group, const std::string& format,
                                                 bool global_divides) {
  const Json args = group.value("weights", Json());
  if (args.is_null()) return std::optional<WeightScheme>();  // a group that is about activations or the cache alone
  Config reader(args, fmt::format("{} of config_groups", printable(name)));
  TRY_BIND(GroupWeights weights, read_weights(reader));
  const Json own_format = group.value("format", Json());
  const std::string used = own_format.is_string() ? own_format.get<std::string>() : format;
  std::optional<WeightForm> form = form_of(weights, used);
  if (!form || (!used.empty() && !format_holds(used, *form))) {
    return unsupported(
        "{} of config_groups: {} weights of {} bits by {} (group {}) in the format \"{}\" have no reader",
        printable(name), printable(weights.type), weights.bits, printable(weights.strategy), weights.group_size,
        printable(used));
  }
  WeightScheme scheme;
  scheme.form = *form;
  scheme.algorithm = used.empty() ? fmt::format("{}{}", weights.type, weights.bits) : used;
  scheme.block_rows = weights.block_rows;
  scheme.block_cols = weights.block_cols;
  scheme.global_divides = global_divides;
  if (weights.type == "int") {
    scheme.bits = static_cast<int>(weights.bits);
    scheme.group = static_cast<int>(weights.group_size);
    scheme.symmetric = weights.symmetric;
  }
  scheme.weights_only = !group.value("input_activations", Json()).is_object();
  scheme.needs_input_scale = has_static_inputs(group) && *form == WeightForm::kFp8Tensor;
  return std::optional(scheme);
}

/// Modules by name, by pattern, or every linear layer.
Status add_targets(const std::string& name, const Json& group, size_t rule, QuantPlan& plan) {
  const Json targets = group.value("targets", Json());
  Error wrong = corrupt("{} of config_groups: \"targets\" must be a list of texts", printable(name));
  if (!targets.is_array() || targets.empty()) return wrong;
  for (const Json& item : targets) {
    if (!item.is_string()) return wrong;
    const auto target = item.get<std::string>();
    if (target == "Linear") {
      if (plan.every_linear) {
        return corrupt("{} and {} of config_groups both target Linear", printable(plan.rules[*plan.every_linear].name),
                       printable(name));
      }
      plan.every_linear = rule;
      continue;
    }
    const bool is_name = target.find_first_of("*?") == std::string::npos && !target.starts_with("re:");
    if (is_name) {
      auto [known, fresh] = plan.listed.emplace(without_wrappers(target), rule);
      if (!fresh && known->second != rule) {
        return corrupt("{} and {} of config_groups both target {}", printable(plan.rules[known->second].name),
                       printable(name), printable(target));
      }
    }
    TRY_BIND(ModulePattern pattern, ModulePattern::make(target));
    plan.patterns.emplace_back(std::move(pattern), rule);
  }
  return {};
}

}  // namespace

Status read_config_groups(const Json& groups, const std::string& format, bool global_divides, QuantPlan& plan) {
  for (const auto& [name, group] : groups.items()) {
    if (!group.is_object()) return corrupt("{} of config_groups is not an object", printable(name));
    Config keys(group, fmt::format("{} of config_groups", printable(name)));
    keys.ignore(
        {"weights", "targets", "format", "input_activations", "output_activations"});  // read below, or no matter
    TRY_STATUS(keys.finish());
    TRY_BIND(std::optional<WeightScheme> scheme, group_scheme(name, group, format, global_divides));
    if (!scheme) continue;
    plan.rules.push_back({name, *std::move(scheme)});
    TRY_STATUS(add_targets(name, group, plan.rules.size() - 1, plan));
  }
  return {};
}

Status read_compressed_tensors(Config& scheme, QuantPlan& plan) {
  scheme.ignore({"quant_method", "version", "global_compression_ratio"});
  auto refuse = [&](std::string message) { return Error{ErrorCode::kUnsupported, std::move(message), scheme.where()}; };
  TRY_BIND(std::string status, scheme.text("quantization_status", "compressed"));
  if (status != "compressed") {
    return refuse(fmt::format("\"quantization_status\" is {}, expected compressed", printable(status)));
  }
  const Json sparsity = scheme.raw("sparsity_config");
  if (sparsity.is_object() && !sparsity.empty() && sparsity.value("format", Json("dense")) != "dense") {
    return refuse(fmt::format("\"sparsity_config\" has the format {}; sparse weights are not supported",
                              printable(sparsity["format"].dump())));
  }
  const Json transforms = scheme.raw("transform_config");
  if (transforms.is_object() && transforms.contains("config_groups") && !transforms["config_groups"].empty()) {
    return refuse("\"transform_config\": rotated weights are not supported");
  }
  TRY_BIND(std::string format, scheme.text("format", ""));
  if (format == "dense") return {};
  const Json groups = scheme.raw("config_groups");
  if (!groups.is_object()) {
    return Error{ErrorCode::kCorrupt, "\"config_groups\" must be an object of groups", scheme.where()};
  }
  const std::string fallback = format == "mixed-precision" ? "" : format;
  if (Status read = read_config_groups(groups, fallback, true, plan); !read.ok()) {
    return Error{read.error().code, read.error().to_string(), scheme.where()};
  }
  return {};
}

}  // namespace vernier
