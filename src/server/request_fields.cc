#include "server/request_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "server/field_table.h"
#include "server/nested_fields.h"

namespace vernier {
namespace {

Error wrong_type(const std::string& where, std::string_view expected, const Json& value) {
  return bad_field(where, "{} is {}, expected {}", where, describe_json(value), expected);
}

Error unknown_field(const std::string& where) {
  return bad_field(where, "{} is no field of this route; the server was started with --strict-api", where);
}

Status check_range(const RequestField& field, const std::string& where, double value) {
  if (value >= field.low && value <= field.high) return {};
  if (field.high >= kNoUpperBound) return bad_field(where, "{} is {}, expected at least {}", where, value, field.low);
  return bad_field(where, "{} is {}, expected {} to {}", where, value, field.low, field.high);
}

Status check_value(const RequestField& field, const std::string& where, const Json& value) {
  switch (field.type) {
    case FieldType::kBoolean:
      return value.is_boolean() ? Status() : wrong_type(where, "true or false", value);
    case FieldType::kInteger: {
      if (!value.is_number()) return wrong_type(where, "an integer", value);
      const std::optional<int64_t> integer = as_integer(value);
      if (!integer) return bad_field(where, "{} is {}, expected a 64-bit integer", where, value.dump());
      return check_range(field, where, static_cast<double>(*integer));
    }
    case FieldType::kNumber:
      if (!value.is_number()) return wrong_type(where, "a number", value);
      return check_range(field, where, value.get<double>());
    case FieldType::kString:
      return value.is_string() ? Status() : wrong_type(where, "a string", value);
    case FieldType::kObject:
      return value.is_object() ? Status() : wrong_type(where, "an object", value);
    case FieldType::kArray:
      return value.is_array() ? Status() : wrong_type(where, "an array", value);
    case FieldType::kAny:
      return {};
  }
  return {};
}

}  // namespace

std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::trunc(number) != number || std::fabs(number) > 9007199254740992.0) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::string_view describe_json(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::null:
      return "null";
    default:
      return "a number";
  }
}

Result<Fields> Fields::check(const Json& body, FieldRoute route, bool strict, std::string_view where) {
  Fields fields;
  fields.where_ = where;
  for (const auto& [key, value] : body.items()) {
    const std::string place = std::string(where) + key;
    const RequestField* field = find_request_field(key, route);
    if (field == nullptr) {
      if (strict) return unknown_field(place);
      fields.ignored_.push_back(place);
      continue;
    }
    if (value.is_null()) continue;
    if (field->use == FieldUse::kRefused && !is_harmless_value(*field, value)) {
      return Error{ErrorCode::kUnsupported, fmt::format("{} is not supported by this server", place), place};
    }
    TRY_STATUS(check_value(*field, place, value));
    if (field->use == FieldUse::kNoEffect) fields.ignored_.push_back(place);
    const bool spelt_twice = fields.has(field->meaning);
    if (spelt_twice && key != field->meaning) {
      fields.ignored_.push_back(place);
      continue;
    }
    if (spelt_twice) {
      std::erase_if(fields.found_, [&](const Found& found) {
        if (found.name == field->meaning) fields.ignored_.push_back(found.spelling);
        return found.name == field->meaning;
      });
    }
    fields.found_.push_back({field->meaning, place, &value});
  }
  for (std::string& place : unknown_members(body, route)) {
    if (strict) return unknown_field(place);
    fields.ignored_.push_back(std::move(place));
  }
  return fields;
}

const Json* Fields::find(std::string_view name) const {
  for (const Found& found : found_) {
    if (found.name == name) return found.value;
  }
  return nullptr;
}

std::optional<double> Fields::number(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

std::optional<int64_t> Fields::integer(std::string_view name) const {
  const Json* value = find(name);
  return value != nullptr ? as_integer(*value) : std::nullopt;
}

std::optional<std::string> Fields::text(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

bool Fields::flag(std::string_view name, bool otherwise) const {
  const Json* value = find(name);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
}

std::string Fields::spelling(std::string_view name) const {
  for (const Found& found : found_) {
    if (found.name == name) return found.spelling;
  }
  return where_ + std::string(name);
}

}  // namespace vernier
