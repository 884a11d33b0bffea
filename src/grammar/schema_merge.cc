#include "grammar/schema_merge.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "grammar/schema_writer.h"

namespace vernier {
namespace {

constexpr size_t kMostParts = 100;
constexpr int kMostDepth = 8;
constexpr std::array<std::string_view, 4> kObjectKeywords = {"properties", "additionalProperties", "patternProperties",
                                                             "propertyNames"};
constexpr std::array<std::string_view, 4> kArrayKeywords = {"items", "prefixItems", "additionalItems",
                                                            "unevaluatedItems"};
constexpr std::array<std::string_view, 4> kApplied = {"$ref", "allOf", "anyOf", "oneOf"};

SchemaJson list_of(const SchemaJson& value) {
  return value.is_array() ? value : SchemaJson::array({value});
}

/// The types that stand in both lists; an integer is a number.
SchemaJson shared_types(const SchemaJson& a, const SchemaJson& b) {
  SchemaJson shared = SchemaJson::array();
  for (const SchemaJson& mine : list_of(a)) {
    for (const SchemaJson& theirs : list_of(b)) {
      if (mine == theirs || (mine == "integer" && theirs == "number")) shared.push_back(mine);
      if (mine == "number" && theirs == "integer") shared.push_back(theirs);
    }
  }
  return shared;
}

bool has_repeat(const SchemaJson& list, const SchemaJson& value) {
  return std::ranges::find(list, value) != list.end();
}

bool less(const SchemaJson& a, const SchemaJson& b) {
  if (a.is_number_integer() && b.is_number_integer() && !a.is_number_unsigned() && !b.is_number_unsigned()) {
    return a.get<int64_t>() < b.get<int64_t>();
  }
  return a.get<double>() < b.get<double>();
}

Error cannot_join(const std::string& pointer, const std::string& key) {
  return schema_error(pointer_to(pointer, key),
                      "'{}' stands here and in a schema that it is joined with, which is not "
                      "supported; write both as one",
                      key);
}

}  // namespace

bool needs_merge(const SchemaJson& schema) {
  size_t applied = 0;
  for (std::string_view key : kApplied) applied += schema.contains(key) ? 1 : 0;
  if (applied == 0) return false;
  if (schema.contains("allOf") && schema["allOf"].is_array() && schema["allOf"].size() > 1) return true;
  for (std::string_view key : kApplied) {
    if (schema.contains(key)) return applied > 1 || other_assertion(schema, {key}).has_value();
  }
  return false;
}

Result<SchemaJson> SchemaMerge::merge(const SchemaJson& schema, const std::string& pointer) {
  TRY_STATUS(add(schema, pointer));
  TRY_BIND(SchemaJson merged, combine());
  if (merged.is_boolean()) return merged;
  if (!unevaluated_.is_null() && !merged.contains("additionalProperties")) {
    // In a branch of a choice only what that branch declares counts: narrower, and still valid.
    auto close = [&](SchemaJson& object) {
      if (object.is_object() && !object.contains("additionalProperties")) object["additionalProperties"] = unevaluated_;
    };
    if (!merged.contains("anyOf")) close(merged);
    if (merged.contains("anyOf")) std::ranges::for_each(merged["anyOf"], close);
  }
  return merged;
}

Status SchemaMerge::add(const SchemaJson& schema, const std::string& pointer) {
  const bool outermost = std::exchange(outermost_, false);
  if (++steps_ > kMostSteps) return schema_error(pointer, "more than {} schemas are to be joined", kMostSteps);
  if (schema.is_boolean()) {
    never_ = never_ || !schema.get<bool>();
    return {};
  }
  if (!schema.is_object()) return schema_error(pointer, "expected a schema: an object, true or false");
  TRY_STATUS(check_keywords(schema, pointer, pointer.empty()));
  bool applies = false;
  Part part{SchemaJson::object(), pointer};
  for (const auto& [key, value] : schema.items()) {
    const std::string at = pointer_to(pointer, key);
    if (is_one_of(kApplied, key)) applies = true;
    if (key == "allOf" || key == "anyOf" || key == "oneOf") {
      if (!value.is_array() || value.empty()) return schema_error(at, "{} is a list of at least one schema", key);
    }
    if (key == "pattern" && !value.is_string()) return schema_error(at, "'pattern' is a text");
    if (key == "$ref") {
      TRY_STATUS(add_reference(schema, pointer));
    } else if (key == "allOf") {
      for (size_t i = 0; i < value.size(); ++i) TRY_STATUS(add(value[i], pointer_to(at, i)));
    } else if (key == "oneOf" || key == "anyOf") {
      if (key == "oneOf") TRY_STATUS(check_apart_(value, at));
      choices_.push_back({value, at});
    } else if (key == "unevaluatedProperties" && outermost) {
      unevaluated_ = value;
    } else if (!is_annotation(key)) {
      part.schema[key] = value;
    }
  }
  if (part.schema.contains("unevaluatedProperties")) {
    if (applies || part.schema.contains("additionalProperties")) return cannot_join(pointer, "unevaluatedProperties");
    part.schema["additionalProperties"] = part.schema["unevaluatedProperties"];
    part.schema.erase("unevaluatedProperties");
  }
  const bool known = std::ranges::any_of(parts_, [&](const Part& other) { return other.schema == part.schema; });
  if (!part.schema.empty() && !known) parts_.push_back(std::move(part));
  if (parts_.size() > kMostParts) return schema_error(pointer, "more than {} schemas together", kMostParts);
  return {};
}

Status SchemaMerge::add_reference(const SchemaJson& schema, const std::string& pointer) {
  const std::string at = pointer_to(pointer, "$ref");
  if (!schema["$ref"].is_string()) return schema_error(at, "$ref is a text");
  Result<std::string> target = document_.resolve(schema["$ref"].get<std::string>());
  if (!target.ok()) return schema_error(at, "{}", target.error().message);
  if (std::ranges::find(open_, *target) != open_.end() || open_.size() > kMostParts) {
    return schema_error(at, "the reference leads back to itself and says nothing in between");
  }
  open_.push_back(*target);
  TRY_STATUS(add(*document_.find(*target), *target));
  open_.pop_back();
  return {};
}

Result<SchemaJson> SchemaMerge::combine() {
  SchemaJson merged = SchemaJson::object();
  for (const Part& part : parts_) {
    if (never_) break;
    TRY_STATUS(join(merged, part));
  }
  if (never_) return SchemaJson(false);
  if (choices_.empty()) return merged;
  return distribute(std::move(merged), choices_[0].pointer);
}

/// Each branch of the first choice with all the rest. Branches that no value satisfies are left out.
Result<SchemaJson> SchemaMerge::distribute(SchemaJson base, const std::string& place) {
  if (depth_ >= kMostDepth) return schema_error(place, "choices nest deeper than {} levels", kMostDepth);
  SchemaJson branches = SchemaJson::array();
  const Choice first = choices_[0];
  for (size_t i = 0; i < first.branches.size(); ++i) {
    SchemaMerge one(document_, check_apart_, steps_);
    one.outermost_ = false;
    one.depth_ = depth_ + 1;
    one.open_ = open_;
    if (!base.empty()) one.parts_.push_back({base, place});
    one.choices_.assign(choices_.begin() + 1, choices_.end());
    // A branch's own choices come after those of this level.
    TRY_STATUS(one.add(first.branches[i], pointer_to(first.pointer, i)));
    TRY_BIND(SchemaJson merged, one.combine());
    if (merged == SchemaJson(false)) continue;
    if (merged.is_object() && merged.size() == 1 && merged.contains("anyOf")) {
      for (SchemaJson& inner : merged["anyOf"]) branches.push_back(std::move(inner));
    } else {
      branches.push_back(std::move(merged));
    }
    if (branches.size() > kMostParts) return schema_error(place, "more than {} choices together", kMostParts);
  }
  if (branches.empty()) return SchemaJson(false);
  if (branches.size() == 1) return branches[0];
  return SchemaJson{{"anyOf", std::move(branches)}};
}

Status SchemaMerge::join(SchemaJson& merged, const Part& part) {
  if (merged.empty()) {
    merged = part.schema;
    return {};
  }
  TRY_STATUS(join_objects(merged, part));
  TRY_STATUS(join_arrays(merged, part));
  for (const auto& [key, value] : part.schema.items()) {
    if (is_one_of(kObjectKeywords, key) || is_one_of(kArrayKeywords, key)) continue;
    TRY_STATUS(join_keyword(merged, key, value, part.pointer));
  }
  return {};
}

Status SchemaMerge::join_keyword(SchemaJson& merged, const std::string& key, const SchemaJson& value,
                                 const std::string& pointer) {
  const bool lists = key == "enum" || key == "const";
  if (lists && (merged.contains("enum") || merged.contains("const"))) {
    const SchemaJson mine = merged.contains("const") ? SchemaJson::array({merged["const"]}) : merged["enum"];
    const SchemaJson theirs = key == "const" ? SchemaJson::array({value}) : value;
    if (!mine.is_array() || !theirs.is_array()) return cannot_join(pointer, key);
    SchemaJson shared = SchemaJson::array();
    for (const SchemaJson& one : mine) {
      if (has_repeat(theirs, one)) shared.push_back(one);
    }
    merged.erase("const");
    merged["enum"] = shared;
    never_ = never_ || shared.empty();
    return {};
  }
  if (!merged.contains(key) || merged[key] == value) {
    merged[key] = value;
    return {};
  }
  SchemaJson& mine = merged[key];
  if (key == "type") {
    mine = shared_types(mine, value);
    never_ = never_ || mine.empty();
    return {};
  }
  if (key == "required" && mine.is_array() && value.is_array()) {
    for (const SchemaJson& name : value) {
      if (!has_repeat(mine, name)) mine.push_back(name);
    }
    return {};
  }
  if (key == "pattern") {  // several: read by the writer
    mine = list_of(mine);
    for (const SchemaJson& pattern : list_of(value)) {
      if (!has_repeat(mine, pattern)) mine.push_back(pattern);
    }
    return {};
  }
  if (key == "uniqueItems") {
    if (!mine.is_boolean() || !value.is_boolean()) return cannot_join(pointer, key);
    mine = true;
    return {};
  }
  const bool lower = key.starts_with("min") || key == "exclusiveMinimum";
  const bool upper = key.starts_with("max") || key == "exclusiveMaximum";
  if ((lower || upper) && mine.is_number() && value.is_number()) {
    if (lower ? less(mine, value) : less(value, mine)) mine = value;
    return {};
  }
  return cannot_join(pointer, key);
}

}  // namespace vernier
