#include <algorithm>

#include "text/harmony_prompt.h"

namespace vernier {
namespace {

using OrderedJson = nlohmann::ordered_json;

const OrderedJson* member_of(const OrderedJson& object, const char* key) {
  if (!object.is_object()) return nullptr;
  auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string text_of(const OrderedJson& object, const char* key) {
  const OrderedJson* value = member_of(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::string literal(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string simple_type(const std::string& name) {
  if (name == "integer") return "number";
  if (name == "string" || name == "number" || name == "boolean" || name == "null") return name;
  return "any";
}

void add_comment(std::string& out, const std::string& indent, std::string_view text) {
  for (size_t at = 0; at <= text.size() && !text.empty();) {
    size_t end = std::min(text.find('\n', at), text.size());
    out += indent + "// " + std::string(text.substr(at, end - at)) + "\n";
    at = end + 1;
  }
}

std::string type_text(const OrderedJson& schema, const std::string& indent, size_t depth);

std::string union_text(const OrderedJson& list, const std::string& indent, size_t depth) {
  std::string out;
  for (const OrderedJson& item : list) {
    if (!out.empty()) out += " | ";
    out += item.is_string() ? simple_type(item.get<std::string>()) : type_text(item, indent, depth);
  }
  return out.empty() ? "any" : out;
}

std::string default_text(const OrderedJson& property) {
  const OrderedJson* value = member_of(property, "default");
  if (value == nullptr) return {};
  bool bare = value->is_string() && member_of(property, "enum") != nullptr;
  return "default: " + (bare ? value->get<std::string>() : literal(*value));
}

void add_property(std::string& out, const std::string& name, const OrderedJson& property, bool required,
                  const std::string& indent, size_t depth) {
  std::string title = text_of(property, "title");
  add_comment(out, indent, title);
  if (!title.empty()) out += indent + "//\n";
  add_comment(out, indent, text_of(property, "description"));
  if (const OrderedJson* examples = member_of(property, "examples"); examples != nullptr && examples->is_array()) {
    out += indent + "// Examples:\n";
    for (const OrderedJson& example : *examples) out += indent + "// - " + literal(example) + "\n";
  }
  std::string note = default_text(property);
  out += indent + name + (required ? "" : "?") + ":";
  const OrderedJson* choices = member_of(property, "oneOf");
  if (choices == nullptr || !choices->is_array()) {
    out += " " + type_text(property, indent + "    ", depth) + "," + (note.empty() ? "" : " // " + note) + "\n";
    return;
  }
  out += note.empty() ? "\n" : " // " + note + "\n";
  for (const OrderedJson& choice : *choices) {
    std::string about = text_of(choice, "description");
    std::replace(about.begin(), about.end(), '\n', ' ');
    std::string fallback = default_text(choice);
    if (!about.empty() && !fallback.empty()) about += " ";
    about += fallback;
    out += indent + " | " + type_text(choice, indent + "   ", depth) + (about.empty() ? "" : " // " + about) + "\n";
  }
  out += indent + ",\n";
}

std::string object_text(const OrderedJson& schema, const std::string& indent, size_t depth) {
  const OrderedJson* properties = member_of(schema, "properties");
  if (properties == nullptr || !properties->is_object()) return "object";
  const OrderedJson* required = member_of(schema, "required");
  std::string out = "{\n";
  for (const auto& [name, property] : properties->items()) {
    bool needed = required != nullptr && required->is_array() &&
                  std::find(required->begin(), required->end(), OrderedJson(name)) != required->end();
    add_property(out, name, property, needed, indent, depth);
  }
  return out + indent + "}";
}

std::string type_text(const OrderedJson& schema, const std::string& indent, size_t depth) {
  constexpr size_t kMaxDepth = 32;  // a schema that nests deeper says nothing that a model reads
  if (!schema.is_object() || depth > kMaxDepth) return "any";
  const OrderedJson* nullable = member_of(schema, "nullable");
  std::string null = nullable != nullptr && nullable->is_boolean() && nullable->get<bool>() ? " | null" : "";
  if (const OrderedJson* choices = member_of(schema, "oneOf"); choices != nullptr && choices->is_array()) {
    return union_text(*choices, indent, depth + 1) + null;
  }
  if (const OrderedJson* values = member_of(schema, "enum");
      values != nullptr && values->is_array() && !values->empty()) {
    std::string out;
    for (const OrderedJson& value : *values) out += (out.empty() ? "" : " | ") + literal(value);
    return out + null;
  }
  const OrderedJson* type = member_of(schema, "type");
  if (type == nullptr) return "any" + null;
  if (type->is_array()) return union_text(*type, indent, depth) + null;
  if (*type == "object") return object_text(schema, indent, depth + 1) + null;
  if (*type == "array") {
    const OrderedJson* items = member_of(schema, "items");
    return (items == nullptr ? "Array<any>" : type_text(*items, indent, depth + 1) + "[]") + null;
  }
  return (type->is_string() ? simple_type(type->get<std::string>()) : "any") + null;
}

}  // namespace

std::string harmony_type(const OrderedJson& schema) {
  return type_text(schema, "", 0);
}

std::string harmony_functions(const OrderedJson& tools) {
  std::string out = "# Tools\n\n## functions\n\nnamespace functions {\n\n";
  for (const OrderedJson& tool : tools) {
    const OrderedJson* inner = member_of(tool, "function");
    const OrderedJson& function = inner != nullptr ? *inner : tool;
    add_comment(out, "", text_of(function, "description"));
    const OrderedJson* parameters = member_of(function, "parameters");
    const OrderedJson* properties = parameters != nullptr ? member_of(*parameters, "properties") : nullptr;
    bool takes_some = properties != nullptr && properties->is_object() && !properties->empty();
    out += "type " + text_of(function, "name") + " = (";
    if (takes_some) out += "_: " + harmony_type(*parameters);
    out += ") => any;\n\n";
  }
  return out + "} // namespace functions";
}

}  // namespace vernier
