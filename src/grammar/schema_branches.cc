#include <algorithm>
#include <set>

#include "grammar/schema_writer.h"

namespace vernier {
namespace {

/// What is known of the values of a branch of oneOf.
struct BranchValues {
  std::set<SchemaType> types;          // kNumber for whole numbers too
  std::optional<SchemaJson> values;    // all of them, where the branch lists them
  const SchemaJson* schema = nullptr;  // behind its references
};

SchemaType type_of_value(const SchemaJson& value) {
  if (value.is_null()) return SchemaType::kNull;
  if (value.is_boolean()) return SchemaType::kBoolean;
  if (value.is_number()) return SchemaType::kNumber;
  if (value.is_string()) return SchemaType::kString;
  return value.is_array() ? SchemaType::kArray : SchemaType::kObject;
}

std::optional<SchemaJson> listed_values(const SchemaJson& schema) {
  if (!schema.is_object()) return std::nullopt;
  if (schema.contains("const")) return SchemaJson::array({schema["const"]});
  if (schema.contains("enum") && schema["enum"].is_array()) return schema["enum"];
  return std::nullopt;
}

const SchemaJson* behind_references(const SchemaDocument& document, const SchemaJson* schema) {
  for (int hops = 0; hops < 20 && schema != nullptr && schema->is_object() && schema->contains("$ref"); ++hops) {
    if (!(*schema)["$ref"].is_string()) return nullptr;
    Result<std::string> pointer = document.resolve((*schema)["$ref"].get<std::string>());
    schema = pointer.ok() ? document.find(*pointer) : nullptr;
  }
  return schema;
}

std::optional<BranchValues> values_of(const SchemaDocument& document, const SchemaJson& branch) {
  BranchValues found;
  found.schema = behind_references(document, &branch);
  if (found.schema == nullptr || !found.schema->is_object()) return std::nullopt;
  found.values = listed_values(*found.schema);
  if (found.values) {
    for (const SchemaJson& value : *found.values) found.types.insert(type_of_value(value));
    return found;
  }
  if (!found.schema->contains("type")) return std::nullopt;
  const SchemaJson& type = (*found.schema)["type"];
  for (const SchemaJson& name : type.is_array() ? type : SchemaJson::array({type})) {
    auto known = name.is_string() ? parse_schema_type(name.get<std::string>()) : std::nullopt;
    if (!known) return std::nullopt;
    found.types.insert(*known == SchemaType::kInteger ? SchemaType::kNumber : *known);
  }
  return found;
}

bool share_a_value(const SchemaJson& a, const SchemaJson& b) {
  return std::ranges::any_of(a, [&](const SchemaJson& value) { return std::ranges::find(b, value) != b.end(); });
}

bool requires_key(const SchemaJson& schema, const std::string& key) {
  return schema.contains("required") && schema["required"].is_array() &&
         std::ranges::find(schema["required"], SchemaJson(key)) != schema["required"].end();
}

const SchemaJson* property_of(const SchemaDocument& document, const SchemaJson& schema, const std::string& key) {
  if (!schema.contains("properties") || !schema["properties"].is_object()) return nullptr;
  auto found = schema["properties"].find(key);
  return found == schema["properties"].end() ? nullptr : behind_references(document, &*found);
}

/// Both list the values of the key, and share none.
bool values_differ(const SchemaDocument& document, const SchemaJson& a, const SchemaJson& b, const std::string& key) {
  const SchemaJson* in_a = property_of(document, a, key);
  const SchemaJson* in_b = property_of(document, b, key);
  auto values_a = in_a == nullptr ? std::nullopt : listed_values(*in_a);
  auto values_b = in_b == nullptr ? std::nullopt : listed_values(*in_b);
  return values_a && values_b && !share_a_value(*values_a, *values_b);
}

/// Both require a key whose listed values differ.
bool told_apart_by_a_key(const SchemaDocument& document, const SchemaJson& a, const SchemaJson& b) {
  if (!a.contains("properties") || !a["properties"].is_object()) return false;
  for (const auto& [key, value] : a["properties"].items()) {
    if (requires_key(a, key) && requires_key(b, key) && values_differ(document, a, b, key)) return true;
  }
  return false;
}

bool apart(const SchemaDocument& document, const BranchValues& a, const BranchValues& b) {
  std::set<SchemaType> shared;
  std::ranges::set_intersection(a.types, b.types, std::inserter(shared, shared.end()));
  if (shared.empty()) return true;
  if (a.values && b.values) return !share_a_value(*a.values, *b.values);
  return shared == std::set{SchemaType::kObject} && told_apart_by_a_key(document, *a.schema, *b.schema);
}

}  // namespace

std::optional<std::string> telling_key(const SchemaDocument& document, const SchemaJson& branches) {
  std::vector<const SchemaJson*> schemas;
  for (const SchemaJson& branch : branches) {
    schemas.push_back(behind_references(document, &branch));
    if (schemas.back() == nullptr || !schemas.back()->is_object() || schemas.size() > 50) return std::nullopt;
  }
  if (!schemas[0]->contains("properties") || !(*schemas[0])["properties"].is_object()) return std::nullopt;
  for (const auto& [key, value] : (*schemas[0])["properties"].items()) {
    bool tells = true;
    for (size_t i = 0; i < schemas.size() && tells; ++i) {
      for (size_t k = 0; k < i && tells; ++k) tells = values_differ(document, *schemas[i], *schemas[k], key);
    }
    if (tells) return key;
  }
  return std::nullopt;
}

/// A grammar allows what any branch allows; that is oneOf only where no value fits two branches.
Status SchemaWriter::check_apart(const SchemaJson& branches, const std::string& pointer) const {
  constexpr size_t kMostBranches = 200;  // each pair is compared
  if (branches.size() > kMostBranches) return schema_error(pointer, "more than {} branches", kMostBranches);
  std::vector<std::optional<BranchValues>> known;
  for (const SchemaJson& branch : branches) known.push_back(values_of(document_, branch));
  for (size_t i = 0; i < known.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (known[i] && known[k] && apart(document_, *known[i], *known[k])) continue;
      return schema_error(
          pointer_to(pointer, i),
          "it is not certain that branches {} and {} of oneOf exclude each other: give them different types, or a "
          "required property with different const values; or write anyOf",
          k, i);
    }
  }
  return {};
}

}  // namespace vernier
