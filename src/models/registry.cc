#include "models/registry.h"

#include <algorithm>
#include <array>
#include <utility>

#include "models/families.h"

namespace vernier {
namespace {

struct Family {
  std::string_view model_type;
  std::string_view architecture;
  Result<DecoderSpec> (*read)(Config&);
};

#define VERNIER_ROW(type, architecture) Family{#type, architecture, read_##type},
constexpr std::array kFamilies = {VERNIER_FAMILIES(VERNIER_ROW)};
#undef VERNIER_ROW

std::string list_supported() {
  std::string list;
  for (const Family& family : kFamilies) {
    if (!list.empty()) list += ", ";
    list += family.model_type;
  }
  return list;
}

Result<std::vector<std::string>> read_architectures(Config& config) {
  std::vector<std::string> names;
  const nlohmann::json& value = config.raw("architectures");
  if (value.is_null()) return names;
  if (!value.is_array()) return Error{ErrorCode::kInvalidArgument, "'architectures' is no list", config.where()};
  for (const nlohmann::json& name : value) {
    if (!name.is_string()) {
      return Error{ErrorCode::kInvalidArgument, "'architectures' holds something that is no string", config.where()};
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

/// By model type; a configuration without one is found by its architecture.
Result<const Family*> find_family(Config& config) {
  TRY_BIND(std::string type, config.text("model_type", ""));
  TRY_BIND(std::vector<std::string> architectures, read_architectures(config));
  auto names = [&](const Family& family) {
    return std::find(architectures.begin(), architectures.end(), family.architecture) != architectures.end();
  };
  for (const Family& family : kFamilies) {
    if (type.empty() ? !names(family) : family.model_type != type) continue;
    if (!architectures.empty() && !names(family)) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("architecture '{}' of model type '{}' is not built; expected {}", architectures[0],
                               family.model_type, family.architecture),
                   config.where()};
    }
    return &family;
  }
  for (const WaitingFamily& waiting : kWaitingFamilies) {
    if (waiting.model_type != type) continue;
    return Error{ErrorCode::kUnsupported,
                 fmt::format("model type '{}' is recognised and not built yet: it waits for {}; supported are {}", type,
                             waiting.needs, list_supported()),
                 config.where()};
  }
  std::string found = !type.empty()           ? fmt::format("model type '{}' is unknown", type)
                      : architectures.empty() ? "neither 'model_type' nor 'architectures' is set"
                                              : fmt::format("architecture '{}' is unknown", architectures[0]);
  return Error{ErrorCode::kUnsupported, fmt::format("{}; supported are {}", found, list_supported()), config.where()};
}

}  // namespace

Result<DecoderSpec> read_decoder(Config& config) {
  TRY_BIND(const Family* family, find_family(config));
  TRY_BIND(DecoderSpec spec, family->read(config));
  spec.family = family->model_type;
  TRY_STATUS(config.finish());
  return spec;
}

std::vector<std::string> supported_model_types() {
  std::vector<std::string> types;
  for (const Family& family : kFamilies) types.emplace_back(family.model_type);
  return types;
}

}  // namespace vernier
