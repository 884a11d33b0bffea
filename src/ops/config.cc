#include "ops/config.h"

#include <cmath>
#include <limits>
#include <utility>

namespace vernier {
namespace {

using Json = nlohmann::json;
const Json kNull;

Error wrong_type(const std::string& where, std::string_view key, std::string_view expected, const Json& found) {
  Error error = invalid_argument("'{}' is {}, expected {}; correct it in the model's configuration", key,
                                 found.dump(-1, ' ', false, Json::error_handler_t::replace), expected);
  error.where = where;
  return error;
}

Error missing(const std::string& where, std::string_view key) {
  Error error = invalid_argument("'{}' is missing; the model cannot be built without it", key);
  error.where = where;
  return error;
}

std::optional<int64_t> as_integer(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
    return std::nullopt;
  }
  return value.get<int64_t>();
}

}  // namespace

Config::Config(Json tree, std::string where) : tree_(std::move(tree)), where_(std::move(where)) {}

bool Config::has(std::string_view key) const {
  auto found = tree_.is_object() ? tree_.find(key) : tree_.end();
  return found != tree_.end() && !found->is_null();
}

bool Config::contains(std::string_view key) const {
  return tree_.is_object() && tree_.contains(key);
}

const Json& Config::raw(std::string_view key) {
  read_.emplace(key);
  if (!tree_.is_object()) return kNull;
  auto found = tree_.find(key);
  return found == tree_.end() ? kNull : *found;
}

Result<int64_t> Config::integer(std::string_view key) {
  const Json& value = raw(key);
  if (value.is_null()) return missing(where_, key);
  std::optional<int64_t> number = as_integer(value);
  if (!number) return wrong_type(where_, key, "a 64-bit integer", value);
  return *number;
}

Result<int64_t> Config::integer(std::string_view key, int64_t fallback) {
  if (raw(key).is_null()) return fallback;
  return integer(key);
}

Result<double> Config::number(std::string_view key) {
  const Json& value = raw(key);
  if (value.is_null()) return missing(where_, key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    return wrong_type(where_, key, "a finite number", value);
  }
  return value.get<double>();
}

Result<double> Config::number(std::string_view key, double fallback) {
  if (raw(key).is_null()) return fallback;
  return number(key);
}

Result<bool> Config::boolean(std::string_view key, bool fallback) {
  const Json& value = raw(key);
  if (value.is_null()) return fallback;
  if (!value.is_boolean()) return wrong_type(where_, key, "true or false", value);
  return value.get<bool>();
}

Result<std::string> Config::text(std::string_view key) {
  const Json& value = raw(key);
  if (value.is_null()) return missing(where_, key);
  if (!value.is_string()) return wrong_type(where_, key, "a string", value);
  return value.get<std::string>();
}

Result<std::string> Config::text(std::string_view key, std::string fallback) {
  if (raw(key).is_null()) return fallback;
  return text(key);
}

Result<std::optional<int64_t>> Config::optional_integer(std::string_view key) {
  if (raw(key).is_null()) return std::optional<int64_t>();
  TRY_BIND(int64_t value, integer(key));
  return std::optional<int64_t>(value);
}

void Config::ignore(std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) read_.emplace(key);
}

Status Config::finish() const {
  if (!tree_.is_object()) {
    Error error = invalid_argument("found {}, expected an object of settings", tree_.type_name());
    error.where = where_;
    return error;
  }
  std::string unread;
  for (const auto& [key, value] : tree_.items()) {
    // A null asks for nothing: configurations list every feature that is off this way.
    if (value.is_null() || read_.contains(key)) continue;
    if (!unread.empty()) unread += ", ";
    std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > 60) shown.replace(57, std::string::npos, "...");
    unread += fmt::format("'{}' = {}", key, shown);
  }
  if (unread.empty()) return {};
  Error error = unsupported(
      "unknown key, may change arithmetic: {}; remove what the model does not need, or report it as missing", unread);
  error.where = where_;
  return error;
}

}  // namespace vernier
