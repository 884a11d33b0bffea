#include "tune/tactic_json.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace vernier {

using nlohmann::json;

json facts_to_json(const Facts& facts) {
  json all = json::array();
  for (const Problem::Fact& fact : facts) all.push_back({fact.name, fact.value});
  return all;
}

json kernel_to_json(const NamedKernel& named) {
  return {{"kernel", named.kernel}, {"hash", named.kernel_hash}, {"parameters", facts_to_json(named.parameters)}};
}

Result<const json*> json_member(const json& object, const char* key, json::value_t type) {
  if (!object.is_object()) return corrupt("the object that should have '{}' is a {}", key, object.type_name());
  const auto found = object.find(key);
  if (found == object.end()) return corrupt("'{}' is absent", key);
  const bool fits = type == json::value_t::number_float ? found->is_number() : found->type() == type;
  if (!fits) return corrupt("'{}' is a {}; expected a {}", key, found->type_name(), json(type).type_name());
  return &*found;
}

Result<std::string> json_text(const json& object, const char* key) {
  TRY_BIND(const json* found, json_member(object, key, json::value_t::string));
  return found->get<std::string>();
}

Result<int64_t> json_count(const json& object, const char* key) {
  TRY_BIND(const json* found, json_member(object, key, json::value_t::number_float));
  if (!found->is_number_integer() || (found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX) ||
      found->get<int64_t>() < 0) {
    return corrupt("'{}' is {}; expected a whole number from 0", key, found->dump());
  }
  return found->get<int64_t>();
}

Result<double> json_time(const json& object, const char* key) {
  TRY_BIND(const json* found, json_member(object, key, json::value_t::number_float));
  const double value = found->get<double>();
  if (!std::isfinite(value) || value < 0) return corrupt("'{}' is {}; expected a time from 0", key, found->dump());
  return value;
}

Result<Facts> json_facts(const json& object, const char* key) {
  TRY_BIND(const json* found, json_member(object, key, json::value_t::array));
  Facts facts;
  for (const json& pair : *found) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return corrupt("'{}' holds {}; expected [name, value]", key,
                     pair.dump(-1, ' ', false, json::error_handler_t::replace));
    }
    facts.push_back({pair[0].get<std::string>(), pair[1].get<std::string>()});
  }
  return facts;
}

Result<NamedKernel> json_kernel(const json& object) {
  NamedKernel named;
  TRY_BIND(named.kernel, json_text(object, "kernel"));
  TRY_BIND(named.kernel_hash, json_text(object, "hash"));
  TRY_BIND(named.parameters, json_facts(object, "parameters"));
  if (named.kernel.empty()) return corrupt("a kernel has no name");
  return named;
}

}  // namespace vernier
