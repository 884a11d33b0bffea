#include "checkpoint/load_report.h"

#include <fmt/ranges.h>

#include "checkpoint/byte_reader.h"
#include "checkpoint/stored_matrix.h"

namespace vernier {

namespace {

using Json = nlohmann::json;

/// "model.layers.0.mlp.up_proj" of a tensor that holds that module's numbers; empty for others.
std::string module_of_codes(const Checkpoint& checkpoint, const StoredTensor& tensor) {
  const size_t dot = tensor.name.rfind('.');
  if (checkpoint.plan().empty() || dot == std::string::npos) return "";
  std::string module = tensor.name.substr(0, dot);
  return find_codes(checkpoint, module) == &tensor ? module : "";
}

std::string scale_location(const Checkpoint& checkpoint, const StoredTensor& tensor, const std::string& module) {
  if (!module.empty()) {
    std::string beside = scales_beside(checkpoint, module);
    if (!beside.empty()) return beside;
  }
  if (!checkpoint.plan().empty() && looks_like_scale(tensor.name)) return "none";
  if (!tensor.codec) return "unknown";
  return codec(*tensor.codec).packing == Packing::kGgufBlock ? "in its blocks" : "none";
}

std::string shape(const std::vector<int64_t>& extents) {
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

}  // namespace

std::string_view name(TensorUse use) {
  switch (use) {
    case TensorUse::kNotBound:
      return "unused";
    case TensorUse::kMatrix:
      return "matrix";
    case TensorUse::kVector:
      return "vector";
    case TensorUse::kConfiguration:
      return "configuration";
    case TensorUse::kUnneeded:
      return "not needed";
    case TensorUse::kScale:
      return "scale";
    case TensorUse::kInputScale:
      return "input scale";
    case TensorUse::kCacheScale:
      return "cache scale";
    case TensorUse::kTiedCopy:
      return "tied copy";
  }
  return "?";
}

int64_t LoadReport::stored_bytes() const {
  int64_t sum = 0;
  for (const TensorReport& tensor : tensors) sum += tensor.stored_bytes;
  return sum;
}

int64_t LoadReport::packed_bytes() const {
  int64_t sum = 0;
  for (const WeightReport& weight : weights) sum += weight.packed.bytes;
  return sum;
}

std::vector<const TensorReport*> LoadReport::unused() const {
  std::vector<const TensorReport*> out;
  for (const TensorReport& tensor : tensors) {
    if (tensor.use == TensorUse::kNotBound) out.push_back(&tensor);
  }
  return out;
}

std::string LoadReport::to_string() const {
  std::string out = fmt::format("{}: {} tensors, {} bytes\n", format, tensors.size(), stored_bytes());
  for (const TensorReport& tensor : tensors) {
    out += fmt::format("{} {} {} {} bytes, scales {}, {}", printable(tensor.file_name), tensor.type,
                       shape(tensor.extents), tensor.stored_bytes, tensor.scales, name(tensor.use));
    if (!tensor.bound_as.empty()) out += fmt::format(" {}", printable(tensor.bound_as));
    if (!tensor.rule.empty()) out += fmt::format(", {}", tensor.rule);
    if (!tensor.quantised_to.empty()) {
      out += fmt::format(", quantised from {} to {}", tensor.read_as, tensor.quantised_to);
    }
    out += '\n';
  }
  if (!weights.empty()) out += fmt::format("{} weights, {} bytes packed\n", weights.size(), packed_bytes());
  for (const WeightReport& weight : weights) {
    out += fmt::format("{} [{}, {}] {}, {}, {} bytes", printable(weight.name), weight.rows, weight.cols,
                       weight.packed.codec, weight.packed.layout, weight.packed.bytes);
    if (weight.packed.padding_bytes > 0) out += fmt::format(" of which {} padding", weight.packed.padding_bytes);
    if (!weight.packed.scale_origin.empty()) out += fmt::format(", scales {}", weight.packed.scale_origin);
    out += '\n';
  }
  for (const CacheScale& scale : cache_scales) {
    out += fmt::format("cache scale of layer {} {} {} from {}\n", scale.layer, scale.of, fmt::join(scale.values, " "),
                       printable(scale.origin));
  }
  for (const std::string& warning : warnings) out += fmt::format("warning: {}\n", warning);
  return out;
}

Json LoadReport::to_json() const {
  Json out = {{"format", format}, {"stored_bytes", stored_bytes()}, {"packed_bytes", packed_bytes()}};
  out["tensors"] = Json::array();
  for (const TensorReport& tensor : tensors) {
    out["tensors"].push_back({{"name", printable(tensor.name)},
                              {"file_name", printable(tensor.file_name)},
                              {"type", tensor.type},
                              {"shape", tensor.extents},
                              {"bytes", tensor.stored_bytes},
                              {"scales", tensor.scales},
                              {"rule", tensor.rule},
                              {"quantised_to", tensor.quantised_to},
                              {"use", name(tensor.use)},
                              {"bound_as", printable(tensor.bound_as)}});
  }
  out["weights"] = Json::array();
  for (const WeightReport& weight : weights) {
    out["weights"].push_back({{"name", printable(weight.name)},
                              {"shape", {weight.rows, weight.cols}},
                              {"codec", weight.packed.codec},
                              {"layout", weight.packed.layout},
                              {"bytes", weight.packed.bytes},
                              {"padding_bytes", weight.packed.padding_bytes},
                              {"scales", weight.packed.scale_origin}});
  }
  out["cache_scales"] = Json::array();
  for (const CacheScale& scale : cache_scales) {
    out["cache_scales"].push_back({{"layer", scale.layer},
                                   {"of", std::string(1, scale.of)},
                                   {"values", scale.values},
                                   {"origin", printable(scale.origin)}});
  }
  out["warnings"] = warnings;
  return out;
}

LoadReport describe(const Checkpoint& checkpoint) {
  LoadReport report;
  report.format = checkpoint.dialect().format;
  report.warnings = checkpoint.warnings();
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    TensorReport entry;
    entry.name = tensor.name;
    entry.file_name = tensor.file_name;
    entry.type = tensor.type;
    entry.extents = tensor.extents;
    entry.stored_bytes = static_cast<int64_t>(tensor.bytes.size());
    const std::string module = module_of_codes(checkpoint, tensor);
    entry.scales = scale_location(checkpoint, tensor, module);
    if (!module.empty()) {
      const WeightDecision decision = checkpoint.plan().decide(module);
      const bool is_kept = decision.only_if_stored && tensor.codec;
      entry.rule = is_kept ? "not quantised, as its kind is by convention"
                           : fmt::format("{} by {}", describe(decision.scheme), decision.rule);
    }
    if (!tensor.used_by_configuration.empty()) {
      entry.use = TensorUse::kConfiguration;
      entry.bound_as = tensor.used_by_configuration;
    }
    report.tensors.push_back(std::move(entry));
  }
  return report;
}

}  // namespace vernier
