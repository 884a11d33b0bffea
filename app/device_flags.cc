#include "app/device_flags.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace vernier {
namespace {

std::string known_names() {
  std::string names;
  for (const DeviceFeatures& device : known_devices()) names += (names.empty() ? "" : ", ") + device.name;
  return names;
}

std::string capability_names() {
  std::string names;
  for (int i = 0; i < kChipFeatures; ++i) {
    names += (names.empty() ? "" : ", ") + std::string(name(static_cast<ChipFeature>(i)));
  }
  return names;
}

Result<DeviceFeatures> from_json(const nlohmann::json& all, const std::string& path) {
  if (!all.is_object()) return invalid_argument("{}: expected a JSON object", path);
  DeviceFeatures device{path, {}, 0};
  for (const auto& [key, value] : all.items()) {
    if (key == "name" && value.is_string()) {
      device.name = value.get<std::string>();
    } else if (key == "shared_bytes" && value.is_number_unsigned() && value.get<uint64_t>() < (uint64_t{1} << 40)) {
      device.shared_bytes = value.get<int64_t>();
    } else if (key == "capabilities" && value.is_array()) {
      for (const nlohmann::json& entry : value) {
        const auto one = entry.is_string() ? find_chip_feature(entry.get<std::string>()) : std::nullopt;
        if (!one) return invalid_argument("{}: capability {} is none of {}", path, entry.dump(), capability_names());
        device.capabilities.add(*one);
      }
    } else {
      return invalid_argument("{}: \"{}\" is {}; expected name (text), capabilities (a list) and shared_bytes", path,
                              key, value.dump());
    }
  }
  return device;
}

}  // namespace

Result<DeviceFeatures> read_device_features(const std::string& given) {
  if (const DeviceFeatures* known = find_device(given)) return *known;
  std::ifstream file(given);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open()) {
    return invalid_argument("--device-features {}: no chip that is known ({}), and no file", given, known_names());
  }
  const nlohmann::json all = nlohmann::json::parse(text, nullptr, false);
  if (all.is_discarded()) return invalid_argument("{} is no JSON", given);
  return from_json(all, given);
}

void DeviceFlags::add_to(CLI::App& command) {
  command.add_option("--device-features", features,
                     "Products as a chip would run them: " + known_names() + ", or a JSON file of its capabilities");
  command.add_option("--kernel", kernel, "With --device-features: this kernel, or an error that says what it lacks");
  command.add_option("--result-dtype", result, "With --device-features: type of results, bf16 or f16")
      ->check(CLI::IsMember({"bf16", "f16"}))
      ->capture_default_str();
  command.add_flag("--no-requant", no_requant,
                   "With --device-features: no kernel whose scales would need codes made anew");
}

Result<PlanRules> DeviceFlags::rules() const {
  PlanRules rules;
  TRY_BIND(rules.device, read_device_features(features));
  rules.result = result == "f16" ? DType::kF16 : DType::kBF16;
  rules.may_requantise = !no_requant;
  rules.kernel = kernel;
  return rules;
}

}  // namespace vernier
