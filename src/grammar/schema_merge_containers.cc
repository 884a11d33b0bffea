#include <algorithm>
#include <set>

#include "grammar/schema_merge.h"
#include "grammar/text_automaton.h"

namespace vernier {
namespace {

SchemaJson both(const SchemaJson& a, const SchemaJson& b) {
  if (a == SchemaJson(true) || a == b) return b;
  if (b == SchemaJson(true)) return a;
  if (a == SchemaJson(false) || b == SchemaJson(false)) return false;
  return SchemaJson{{"allOf", SchemaJson::array({a, b})}};
}

const SchemaJson& member(const SchemaJson& schema, const char* key) {
  static const SchemaJson kNone = SchemaJson::object();
  return schema.contains(key) ? schema[key] : kNone;
}

Result<std::vector<TextAutomaton>> key_patterns(const SchemaJson& schema, const std::string& pointer) {
  std::vector<TextAutomaton> patterns;
  for (const auto& [text, value] : member(schema, "patternProperties").items()) {
    const std::string at = pointer_to(pointer_to(pointer, "patternProperties"), text);
    Result<PatternNode> pattern = parse_pattern(text, PatternUse::kSearch);
    if (!pattern.ok()) return schema_error(at, "{}", pattern.error().message);
    Result<TextAutomaton> texts = TextAutomaton::of(*pattern);
    if (!texts.ok()) return schema_error(at, "{}", texts.error().message);
    patterns.push_back(std::move(*texts));
  }
  return patterns;
}

/// What the schema says of a key that it does not declare. One that a pattern of it matches is left to the writer,
/// which applies the patterns of the whole.
SchemaJson other_key_schema(const SchemaJson& schema, const std::vector<TextAutomaton>& patterns,
                            const std::string& key) {
  if (std::ranges::any_of(patterns, [&](const TextAutomaton& keys) { return keys.matches(key); })) return true;
  return schema.contains("additionalProperties") ? schema["additionalProperties"] : SchemaJson(true);
}

/// prefixItems and items as draft 2020-12 spells them.
SchemaJson today(const SchemaJson& schema) {
  SchemaJson items = {{"prefix", SchemaJson::array()}, {"rest", true}};
  if (schema.contains("items") && schema["items"].is_array()) {
    items["prefix"] = schema["items"];
    if (schema.contains("additionalItems")) items["rest"] = schema["additionalItems"];
    return items;
  }
  if (schema.contains("prefixItems")) items["prefix"] = schema["prefixItems"];
  if (schema.contains("items")) items["rest"] = schema["items"];
  return items;
}

}  // namespace

Status SchemaMerge::join_objects(SchemaJson& merged, const Part& part) {
  const SchemaJson& mine = member(merged, "properties");
  const SchemaJson& theirs = member(part.schema, "properties");
  const SchemaJson& my_patterns = member(merged, "patternProperties");
  const SchemaJson& their_patterns = member(part.schema, "patternProperties");
  for (const SchemaJson* object : {&mine, &theirs, &my_patterns, &their_patterns}) {
    if (!object->is_object()) return schema_error(part.pointer, "'properties' and 'patternProperties' are objects");
  }
  steps_ += 50 * (my_patterns.size() + their_patterns.size());  // each is made an automaton
  if (steps_ > kMostSteps) return schema_error(part.pointer, "too many patternProperties are to be joined");
  TRY_BIND(const std::vector<TextAutomaton> my_keys, key_patterns(merged, part.pointer));
  TRY_BIND(const std::vector<TextAutomaton> their_keys, key_patterns(part.schema, part.pointer));
  SchemaJson properties = SchemaJson::object();
  for (const auto& [key, value] : mine.items()) {
    properties[key] = both(value, theirs.contains(key) ? theirs[key] : other_key_schema(part.schema, their_keys, key));
  }
  for (const auto& [key, value] : theirs.items()) {
    if (!mine.contains(key)) properties[key] = both(other_key_schema(merged, my_keys, key), value);
  }
  const SchemaJson all = true;
  const SchemaJson& my_rest = merged.contains("additionalProperties") ? merged["additionalProperties"] : all;
  const SchemaJson& their_rest =
      part.schema.contains("additionalProperties") ? part.schema["additionalProperties"] : all;
  if (!my_patterns.empty() && !their_patterns.empty() && (my_rest != all || their_rest != all)) {
    return schema_error(pointer_to(part.pointer, "patternProperties"),
                        "joined with other patternProperties and additionalProperties it is not supported");
  }
  // A key that only one side's pattern matches is an additional one to the other.
  SchemaJson patterns = SchemaJson::object();
  for (const auto& [key, value] : my_patterns.items()) patterns[key] = both(value, their_rest);
  for (const auto& [key, value] : their_patterns.items()) {
    patterns[key] = patterns.contains(key) ? both(patterns[key], value) : both(my_rest, value);
  }
  const SchemaJson rest = both(my_rest, their_rest);
  if (rest != all || part.schema.contains("additionalProperties")) merged["additionalProperties"] = rest;
  if (!properties.empty()) merged["properties"] = std::move(properties);
  if (!patterns.empty()) merged["patternProperties"] = std::move(patterns);
  if (part.schema.contains("propertyNames")) {
    const SchemaJson& names = part.schema["propertyNames"];
    merged["propertyNames"] = merged.contains("propertyNames") ? both(merged["propertyNames"], names) : names;
  }
  return {};
}

Status SchemaMerge::join_arrays(SchemaJson& merged, const Part& part) {
  auto says_items = [](const SchemaJson& schema) { return schema.contains("items") || schema.contains("prefixItems"); };
  for (const SchemaJson* schema : {&static_cast<const SchemaJson&>(merged), &part.schema}) {
    if (schema->contains("unevaluatedItems")) {
      return schema_error(pointer_to(part.pointer, "unevaluatedItems"),
                          "joined with other schemas it is not supported");
    }
  }
  if (!says_items(part.schema)) return {};
  const SchemaJson mine = today(merged);
  const SchemaJson theirs = today(part.schema);
  for (const SchemaJson* list : {&mine["prefix"], &theirs["prefix"]}) {
    if (!list->is_array()) return schema_error(part.pointer, "'prefixItems' is a list of schemas");
  }
  SchemaJson prefix = SchemaJson::array();
  for (size_t i = 0; i < std::max(mine["prefix"].size(), theirs["prefix"].size()); ++i) {
    auto at = [&](const SchemaJson& items) { return i < items["prefix"].size() ? items["prefix"][i] : items["rest"]; };
    const SchemaJson item = both(at(mine), at(theirs));
    if (item == SchemaJson(false)) break;  // no item from here on
    prefix.push_back(item);
  }
  const bool cut = prefix.size() < std::max(mine["prefix"].size(), theirs["prefix"].size());
  merged.erase("additionalItems");
  merged.erase("prefixItems");
  if (!prefix.empty()) merged["prefixItems"] = prefix;
  merged["items"] = cut ? SchemaJson(false) : both(mine["rest"], theirs["rest"]);
  return {};
}

}  // namespace vernier
