#include "json_validator.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <regex>

namespace vernier::testing {
namespace {

using Json = nlohmann::json;
using Schema = nlohmann::ordered_json;

bool is_integer(const Json& value) {
  return value.is_number_integer() ||
         (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") return is_integer(value);
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

/// UTF-8 as characters; a regular expression over bytes would count them otherwise.
std::wstring wide(const std::string& text) {
  std::wstring characters;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t c = bytes == 1 ? lead : lead & (0xFFU >> (bytes + 1));
    for (size_t k = 1; k < bytes; ++k) c = (c << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    characters += static_cast<wchar_t>(c);
    i += bytes;
  }
  return characters;
}

bool finds(const std::string& pattern, const std::string& text) {
  return std::regex_search(wide(text), std::wregex(wide(pattern)));
}

std::string number_fault(const Schema& s, double v) {
  if (s.contains("minimum") && !(v >= s["minimum"].get<double>())) return "minimum";
  if (s.contains("maximum") && !(v <= s["maximum"].get<double>())) return "maximum";
  if (s.contains("exclusiveMinimum") && !(v > s["exclusiveMinimum"].get<double>())) return "exclusiveMinimum";
  if (s.contains("exclusiveMaximum") && !(v < s["exclusiveMaximum"].get<double>())) return "exclusiveMaximum";
  if (s.contains("multipleOf") && std::fmod(v, s["multipleOf"].get<double>()) != 0) return "multipleOf";
  return "";
}

std::string string_fault(const Schema& s, const std::string& v) {
  if (s.contains("minLength") && wide(v).size() < s["minLength"].get<size_t>()) return "minLength";
  if (s.contains("maxLength") && wide(v).size() > s["maxLength"].get<size_t>()) return "maxLength";
  if (s.contains("pattern") && !finds(s["pattern"].get<std::string>(), v)) return "pattern";
  if (!s.contains("format")) return "";
  const std::string format = s["format"];
  const char* pattern = format == "uuid"   ? "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
                        : format == "date" ? "^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])$"
                                           : "^(\\d{1,3}\\.){3}\\d{1,3}$";
  return finds(pattern, v) ? "" : "format";
}

std::string array_fault(const Schema& s, const Json& v, const Schema& root) {
  if (s.contains("minItems") && v.size() < s["minItems"].get<size_t>()) return "minItems";
  if (s.contains("maxItems") && v.size() > s["maxItems"].get<size_t>()) return "maxItems";
  if (s.contains("uniqueItems") && s["uniqueItems"] == Schema(true)) {
    for (size_t i = 0; i < v.size(); ++i) {
      if (std::find(v.begin() + static_cast<std::ptrdiff_t>(i) + 1, v.end(), v[i]) != v.end()) return "uniqueItems";
    }
  }
  const size_t prefix = s.contains("prefixItems") ? s["prefixItems"].size() : 0;
  for (size_t i = 0; i < v.size(); ++i) {
    std::string fault;
    if (i < prefix) fault = validate(s["prefixItems"][i], v[i], root);
    if (i >= prefix && s.contains("items")) fault = validate(s["items"], v[i], root);
    if (!fault.empty()) return std::to_string(i) + "/" + fault;
  }
  return "";
}

std::string object_fault(const Schema& s, const Json& v, const Schema& root) {
  if (s.contains("minProperties") && v.size() < s["minProperties"].get<size_t>()) return "minProperties";
  if (s.contains("maxProperties") && v.size() > s["maxProperties"].get<size_t>()) return "maxProperties";
  if (s.contains("required")) {
    for (const auto& key : s["required"]) {
      if (!v.contains(key.get<std::string>())) return "required " + key.get<std::string>();
    }
  }
  for (const auto& [key, item] : v.items()) {
    std::string fault;
    bool named = false;
    if (s.contains("propertyNames")) fault = validate(s["propertyNames"], key, root);
    if (!fault.empty()) return "propertyNames/" + fault;
    if (s.contains("properties") && s["properties"].contains(key)) {
      named = true;
      fault = validate(s["properties"][key], item, root);
    }
    if (s.contains("patternProperties")) {
      for (const auto& [pattern, schema] : s["patternProperties"].items()) {
        if (!fault.empty() || !finds(pattern, key)) continue;
        named = true;
        fault = validate(schema, item, root);
      }
    }
    if (!named && s.contains("additionalProperties")) fault = validate(s["additionalProperties"], item, root);
    if (!fault.empty()) return key + "/" + fault;
  }
  return "";
}

size_t branches_that_fit(const Schema& list, const Json& value, const Schema& root) {
  size_t count = 0;
  for (const auto& branch : list) count += validate(branch, value, root).empty();
  return count;
}

}  // namespace

std::string validate(const Schema& s, const Json& value, const Schema& root) {
  if (s.is_boolean()) return s.get<bool>() ? "" : "false";
  if (s.contains("$ref")) {
    const Schema& target = root.at(Schema::json_pointer(s["$ref"].get<std::string>().substr(1)));
    if (std::string fault = validate(target, value, root); !fault.empty()) return "$ref/" + fault;
  }
  if (s.contains("enum") && std::find(s["enum"].begin(), s["enum"].end(), Schema(value)) == s["enum"].end())
    return "enum";
  if (s.contains("const") && s["const"] != Schema(value)) return "const";
  if (s.contains("anyOf") && branches_that_fit(s["anyOf"], value, root) == 0) return "anyOf";
  if (s.contains("oneOf") && branches_that_fit(s["oneOf"], value, root) != 1) return "oneOf";
  if (s.contains("allOf") && branches_that_fit(s["allOf"], value, root) != s["allOf"].size()) return "allOf";
  if (s.contains("type")) {
    const Schema types = s["type"].is_array() ? s["type"] : Schema::array({s["type"]});
    bool fits = false;
    for (const auto& type : types) fits = fits || has_type(value, type.get<std::string>());
    if (!fits) return "type";
  }
  if (value.is_number()) return number_fault(s, value.get<double>());
  if (value.is_string()) return string_fault(s, value.get<std::string>());
  if (value.is_array()) return array_fault(s, value, root);
  if (value.is_object()) return object_fault(s, value, root);
  return "";
}

}  // namespace vernier::testing
