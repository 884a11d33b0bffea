#include <array>
#include <filesystem>

#include "checkpoint/byte_reader.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/strict_json.h"

// The files in which sentence-transformers writes what follows the hidden states.

namespace vernier {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Result<Json> json_if_there(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Json();
  return read_strict_json(path.string());
}

struct PoolingMode {
  std::string_view key;   ///< as a flag of its own
  std::string_view name;  ///< as the value of "pooling_mode"
  std::optional<Pooling> pooling;
};

constexpr std::array kModes = {
    PoolingMode{"pooling_mode_cls_token", "cls", Pooling::kFirst},
    PoolingMode{"pooling_mode_mean_tokens", "mean", Pooling::kMean},
    PoolingMode{"pooling_mode_lasttoken", "lasttoken", Pooling::kLast},
    PoolingMode{"pooling_mode_max_tokens", "max", {}},
    PoolingMode{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", {}},
    PoolingMode{"pooling_mode_weightedmean_tokens", "weightedmean", {}},
};

/// The one mode that is on.
Result<Pooling> read_pooling(const Json& config, const std::string& path) {
  Error wrong{ErrorCode::kUnsupported, "", path};
  if (!config.is_object()) {
    wrong.message = "expected an object that says how states are pooled";
    return wrong;
  }
  std::vector<const PoolingMode*> on;
  for (const auto& [key, value] : config.items()) {
    if (!key.starts_with("pooling_mode")) continue;
    const PoolingMode* found = nullptr;
    for (const PoolingMode& mode : kModes) {
      if (key == mode.key || (key == "pooling_mode" && value == mode.name)) found = &mode;
    }
    const bool off = key != "pooling_mode" && value == false;
    if (found == nullptr || (key != "pooling_mode" && !value.is_boolean())) {
      wrong.message = fmt::format("{} is {}, which is not known", printable(key), printable(value.dump(-1, ' ', true)));
      return wrong;
    }
    if (!off) on.push_back(found);
  }
  if (on.size() == 1 && on.front()->pooling) return *on.front()->pooling;
  wrong.message = on.size() == 1 ? fmt::format("pooling by {} is not built", on.front()->name)
                                 : fmt::format("{} ways of pooling are asked for, expected one", on.size());
  wrong.message += " (mean, cls and lasttoken are built)";
  return wrong;
}

/// Follows the modules in their order: hidden states, pooling, and at most scaling to unit length.
Result<std::optional<Pooling>> read_modules(const fs::path& folder) {
  const fs::path list = folder / "modules.json";
  TRY_BIND(Json modules, json_if_there(list));
  std::optional<Pooling> pooling;
  if (modules.is_null()) return pooling;
  Error wrong{ErrorCode::kUnsupported, R"(expected a list of {"type", "path"})", list.string()};
  if (!modules.is_array()) return wrong;
  for (const Json& module : modules) {
    if (!module.is_object() || !module.value("type", Json()).is_string() || !module.value("path", Json()).is_string()) {
      return wrong;
    }
    const std::string type = module["type"];
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Transformer" || kind == "Normalize") continue;
    if (kind != "Pooling") {
      wrong.message =
          fmt::format("the module {} is not built; expected Transformer, Pooling, Normalize", printable(type));
      return wrong;
    }
    const std::string path = module["path"];
    if (path.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos || path == "..") {
      wrong.message = fmt::format("the path {} is no plain folder name", printable(path));
      return wrong;
    }
    const fs::path config = folder / path / "config.json";
    TRY_BIND(Json settings, json_if_there(config));
    TRY_BIND(pooling, read_pooling(settings, config.string()));
  }
  return pooling;
}

Result<std::optional<int32_t>> read_limit(const fs::path& path) {
  TRY_BIND(Json settings, json_if_there(path));
  if (settings.is_null()) return std::optional<int32_t>();
  Error wrong{ErrorCode::kUnsupported, "expected an object", path.string()};
  if (!settings.is_object()) return wrong;
  const Json lower = settings.value("do_lower_case", Json());
  if (!lower.is_null() && lower != false) {
    wrong.message = "do_lower_case asks for lower case before the tokenizer, which is not built";
    return wrong;
  }
  const Json limit = settings.value("max_seq_length", Json());
  if (limit.is_null()) return std::optional<int32_t>();
  if (!limit.is_number_integer() || limit.get<int64_t>() < 2 || limit.get<int64_t>() > INT32_MAX) {
    wrong.message =
        fmt::format("max_seq_length is {}, expected a number of tokens", printable(limit.dump(-1, ' ', true)));
    return wrong;
  }
  return std::optional(limit.get<int32_t>());
}

}  // namespace

EmbeddingDefaults embedding_defaults(const std::string& folder) {
  EmbeddingDefaults defaults;
  auto pooling = read_modules(folder);
  auto limit = read_limit(fs::path(folder) / "sentence_bert_config.json");
  if (pooling.ok()) defaults.pooling = *pooling;
  if (limit.ok()) defaults.max_tokens = *limit;
  if (!limit.ok()) defaults.refusal = limit.error();
  if (!pooling.ok()) defaults.refusal = pooling.error();
  return defaults;
}

}  // namespace vernier
