#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "checkpoint/byte_reader.h"
#include "checkpoint/quant_dialects.h"
#include "checkpoint/quant_keys.h"
#include "checkpoint/strict_json.h"

namespace vernier {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// A scheme in words: its method, and what tells one dialect of it from another.
std::string describe_source(const Json& scheme) {
  std::string text;
  for (const char* key : {"quant_method", "quant_algo", "format", "fmt", "weight_block_size", "bits", "mode",
                          "group_size", "kv_cache_quant_algo", "kv_cache_scheme"}) {
    auto value = scheme.find(key);
    if (value == scheme.end() || value->is_null()) continue;
    std::string shown = value->is_string() ? value->get<std::string>() : value->dump(-1, ' ', true);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, printable(shown));
  }
  return text.empty() ? "with no quant_method" : text;
}

Result<Json> read_legacy_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Json();
  TRY_BIND(Json tree, read_strict_json(path.string()));
  if (!tree.is_object() || !tree.value("quantization", Json()).is_object()) {
    return Error{ErrorCode::kCorrupt, "expected an object with \"quantization\", another object", path.string()};
  }
  return tree["quantization"];
}

using Reader = Status (*)(Config&, QuantPlan&);

Reader reader_of(const std::string& method) {
  if (method == "fp8" || method == "mxfp8" || method == "fbgemm_fp8") return read_fp8;
  if (method == "mxfp4") return read_mxfp4;
  if (method == "awq") return read_awq;
  if (method == "gptq") return read_gptq;
  if (method.starts_with("modelopt")) return read_modelopt;
  if (method == "compressed-tensors" || method == "compressed_tensors") return read_compressed_tensors;
  return nullptr;
}

}  // namespace

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

Result<std::vector<std::string>> text_list(Config& scheme, std::string_view key) {
  const Json& value = scheme.raw(key);
  std::vector<std::string> texts;
  if (value.is_null()) return texts;
  Error wrong{ErrorCode::kCorrupt, fmt::format("\"{}\" must be a list of texts", key), scheme.where()};
  if (!value.is_array()) return wrong;
  for (const Json& item : value) {
    if (!item.is_string()) return wrong;
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

Status read_excluded(Config& scheme, QuantPlan& plan) {
  std::vector<std::string> list;
  for (const char* key : {"ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules"}) {
    if (!scheme.has(key)) continue;
    TRY_BIND(std::vector<std::string> found, text_list(scheme, key));
    if (!plan.excluded_key.empty()) {
      if (std::set(list.begin(), list.end()) == std::set(found.begin(), found.end())) continue;
      return Error{ErrorCode::kCorrupt,
                   fmt::format("\"{}\" and \"{}\" list different modules; expected one list of what is not quantised",
                               plan.excluded_key, key),
                   scheme.where()};
    }
    plan.excluded_key = key;
    list = std::move(found);
  }
  for (const std::string& text : list) {
    Result<ModulePattern> pattern = ModulePattern::make(text);
    if (!pattern.ok()) {
      return Error{ErrorCode::kCorrupt, fmt::format("\"{}\" holds {}", plan.excluded_key, pattern.error().message),
                   scheme.where()};
    }
    plan.excluded.push_back(*std::move(pattern));
  }
  return {};
}

Status read_cache_algorithm(Config& scheme, QuantPlan& plan) {
  if (scheme.contains("kv_cache_quant_algo")) {
    TRY_BIND(std::string name, scheme.text("kv_cache_quant_algo", ""));
    plan.cache = lower_case(name);
  }
  if (!scheme.contains("kv_cache_scheme")) return {};
  const Json& cache = scheme.raw("kv_cache_scheme");
  std::string found;
  if (cache.is_string()) {
    found = lower_case(cache.get<std::string>());
  } else if (cache.is_object()) {
    const Json bits = cache.value("num_bits", Json());
    const Json type = cache.value("type", Json("float"));
    if (!bits.is_number_integer() || !type.is_string()) {
      return Error{ErrorCode::kCorrupt, "\"kv_cache_scheme\" must have \"num_bits\" and a \"type\"", scheme.where()};
    }
    found = type == "float" && bits == 8   ? "fp8"
            : type == "float" && bits == 4 ? "nvfp4"
                                           : fmt::format("{}{}", type.get<std::string>(), bits.dump());
  } else if (!cache.is_null()) {
    return Error{ErrorCode::kCorrupt, "\"kv_cache_scheme\" must be an object", scheme.where()};
  }
  if (plan.cache && *plan.cache != found) {
    return Error{
        ErrorCode::kCorrupt,
        fmt::format("\"kv_cache_quant_algo\" says '{}' and \"kv_cache_scheme\" '{}'; one of them must be wrong",
                    printable(*plan.cache), printable(found)),
        scheme.where()};
  }
  plan.cache = found;
  return {};
}

Result<std::vector<QuantSource>> find_quant_sources(const std::string& folder, const Json& config) {
  std::vector<QuantSource> sources;
  const std::string config_path = (fs::path(folder) / "config.json").string();
  const Json text_config = config.value("text_config", Json());
  for (const Json* level : {&config, &text_config}) {
    if (!level->is_object()) continue;
    for (const char* key : {"quantization_config", "quantization", "compression_config"}) {
      auto scheme = level->find(key);
      if (scheme == level->end() || scheme->is_null()) continue;
      std::string origin = fmt::format("{}{}", level == &config ? "" : "text_config.", key);
      if (!scheme->is_object()) return Error{ErrorCode::kCorrupt, origin + " is not an object", config_path};
      sources.push_back({std::move(origin), config_path, *scheme});
    }
  }
  const fs::path legacy = fs::path(folder) / "hf_quant_config.json";
  TRY_BIND(Json scheme, read_legacy_file(legacy));
  if (scheme.is_object()) {
    if (!scheme.contains("quant_method")) scheme["quant_method"] = "modelopt";
    sources.push_back({"hf_quant_config.json", legacy.string(), std::move(scheme)});
  }
  return sources;
}

Result<QuantPlan> read_quant_source(const QuantSource& source) {
  Config scheme(source.scheme, source.where);
  Result<std::string> named = scheme.text("quant_method", "");
  std::string method = named.ok() ? lower_case(*named) : "";
  Reader read = reader_of(method);
  // MLX names no method; its settings are those of a group.
  const bool is_mlx = method.empty() && scheme.has("group_size") && scheme.has("bits");
  if (read == nullptr && !is_mlx) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format(
            "{} describes a quantised checkpoint ({}); this dialect cannot be loaded. Use a checkpoint "
            "of another dialect (fp8, modelopt, compressed-tensors, mxfp4, awq, gptq, mlx), an unquantised one or a "
            "GGUF file",
            source.origin, describe_source(source.scheme)),
        source.where};
  }
  QuantPlan plan;
  plan.origin = source.origin;
  TRY_STATUS(read_excluded(scheme, plan));
  TRY_STATUS(read_cache_algorithm(scheme, plan));
  TRY_STATUS(is_mlx ? read_mlx(scheme, source.scheme, plan) : read(scheme, plan));
  if (Status unread = scheme.finish(); !unread.ok()) {
    Error error = unread.error();
    error.message = fmt::format("{}: {}", source.origin, error.message);
    return error;
  }
  return plan;
}

Result<QuantPlan> read_quant_plan(const std::vector<QuantSource>& sources, const std::vector<std::string>& modules) {
  std::optional<QuantPlan> first;
  for (const QuantSource& source : sources) {
    TRY_BIND(QuantPlan plan, read_quant_source(source));
    if (!first) {
      first = std::move(plan);
      continue;
    }
    if (Status status = check_agreement(*first, plan, modules); !status.ok()) {
      return Error{status.error().code, status.error().message, source.where};
    }
  }
  return first ? *std::move(first) : QuantPlan();
}

}  // namespace vernier
