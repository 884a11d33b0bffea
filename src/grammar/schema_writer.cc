#include "grammar/schema_writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "grammar/schema_merge.h"

namespace vernier {
namespace {

constexpr std::array<std::pair<std::string_view, SchemaType>, 7> kTypes = {{{"null", SchemaType::kNull},
                                                                            {"boolean", SchemaType::kBoolean},
                                                                            {"integer", SchemaType::kInteger},
                                                                            {"number", SchemaType::kNumber},
                                                                            {"string", SchemaType::kString},
                                                                            {"array", SchemaType::kArray},
                                                                            {"object", SchemaType::kObject}}};

bool value_has_type(const SchemaJson& value, SchemaType type) {
  switch (type) {
    case SchemaType::kNull:
      return value.is_null();
    case SchemaType::kBoolean:
      return value.is_boolean();
    case SchemaType::kInteger:
      return value.is_number_integer();
    case SchemaType::kNumber:
      return value.is_number();
    case SchemaType::kString:
      return value.is_string();
    case SchemaType::kArray:
      return value.is_array();
    case SchemaType::kObject:
      return value.is_object();
  }
  return false;
}

}  // namespace

std::optional<SchemaType> parse_schema_type(std::string_view name) {
  auto found = std::ranges::find(kTypes, name, &std::pair<std::string_view, SchemaType>::first);
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

Result<std::string> SchemaWriter::write(bool object_only) {
  if (object_only) {
    std::string pointer;
    const SchemaJson* schema = &document_.root();
    for (int hops = 0; hops < 20 && schema->is_object() && schema->contains("$ref"); ++hops) {
      if (!(*schema)["$ref"].is_string()) break;
      TRY_BIND(pointer, document_.resolve((*schema)["$ref"].get<std::string>()));
      schema = document_.find(pointer);
    }
    if (schema->is_object()) {
      TRY_BIND(std::vector<SchemaType> types, types_of(*schema, pointer));
      if (types != std::vector{SchemaType::kObject}) {
        return schema_error(pointer, "the parameters of a function are an object; write \"type\": \"object\"");
      }
    }
  }
  return write_part("");
}

Result<std::string> SchemaWriter::write_part(const std::string& pointer) {
  Id id = rule_of(pointer);
  Status written = write_waiting();
  if (written.ok()) written = check_graph();
  if (!written.ok()) return document_.placed(written.error());
  return name_of(id);
}

SchemaWriter::Id SchemaWriter::rule_of(const std::string& pointer) {
  auto [found, fresh] = by_pointer_.try_emplace(pointer, graph_.size());
  if (fresh) {
    graph_.add();
    names_.push_back(writer_.reserve());
    pointers_.push_back(pointer);
    waiting_.push_back(found->second);
  }
  return found->second;
}

Status SchemaWriter::write_waiting() {
  while (!waiting_.empty()) {
    if (writer_.rules() > most_rules_) {
      return schema_error("", "the schema makes more than {} rules; simplify it", most_rules_);
    }
    Id id = waiting_.back();
    waiting_.pop_back();
    TRY_STATUS(write_rule(id));
  }
  return {};
}

Status SchemaWriter::write_rule(Id id) {
  const std::string pointer = pointers_[id];
  TRY_BIND(Body body, body_of(*document_.find(pointer), pointer));
  writer_.define(names_[id], body.text);
  for (std::vector<Id>& needs : body.alternatives) graph_.add_alternative(id, std::move(needs));
  for (Id unit : body.units) graph_.add_unit(id, unit);
  return {};
}

Status SchemaWriter::check_graph() const {
  if (auto circular = graph_.circular(); !circular.empty()) {
    return schema_error(pointers_[circular[0]], "the reference leads back to itself and says nothing in between");
  }
  if (auto endless = graph_.endless(); !endless.empty()) {
    return schema_error(pointers_[endless[0]], "no finite value satisfies this part: it requires itself again");
  }
  return {};
}

Result<SchemaWriter::Body> SchemaWriter::body_of(const SchemaJson& schema, const std::string& pointer) {
  if (schema.is_boolean()) {
    if (!schema.get<bool>()) return schema_error(pointer, "the schema false allows no value");
    return Body{writer_.any_value(), {{}}, {}};
  }
  if (!schema.is_object()) return schema_error(pointer, "expected a schema: an object, true or false");
  TRY_STATUS(check_keywords(schema, pointer, pointer.empty()));
  if (needs_merge(schema)) return merged(schema, pointer);
  if (schema.contains("$ref")) return reference(schema, pointer);
  if (schema.contains("enum") || schema.contains("const")) return values(schema, pointer);
  for (std::string_view keyword : {"anyOf", "oneOf", "allOf"}) {
    if (schema.contains(keyword)) return branches(schema, pointer, keyword);
  }
  return by_types(schema, pointer);
}

Result<SchemaWriter::Body> SchemaWriter::merged(const SchemaJson& schema, const std::string& pointer) {
  TRY_BIND(SchemaJson one, flat(schema, pointer));
  if (one == SchemaJson(false)) return schema_error(pointer, "no value satisfies all that must hold here together");
  TRY_BIND(Id id, made(std::move(one), pointer));
  return Body{name_of(id), {{id}}, {id}};
}

Result<SchemaWriter::Id> SchemaWriter::made(SchemaJson schema, const std::string& place) {
  const std::string text = schema.dump(-1, ' ', false, SchemaJson::error_handler_t::replace);
  auto found = made_.find(text);
  if (found == made_.end()) {
    std::optional<std::string> pointer = document_.add(std::move(schema), place);
    if (!pointer) return schema_error(place, "the schemas that hold together here grow too large; simplify them");
    found = made_.emplace(text, *pointer).first;
  }
  return rule_of(found->second);
}

Result<SchemaWriter::Body> SchemaWriter::reference(const SchemaJson& schema, const std::string& pointer) {
  const std::string at = pointer_to(pointer, "$ref");
  if (!schema["$ref"].is_string()) return schema_error(at, "$ref is a text");
  Result<std::string> target = document_.resolve(schema["$ref"].get<std::string>());
  if (!target.ok()) return schema_error(at, "{}", target.error().message);
  Id id = rule_of(*target);
  return Body{name_of(id), {{id}}, {id}};
}

Result<SchemaJson> SchemaWriter::listed(const SchemaJson& schema, const std::string& pointer) {
  const char* keyword = schema.contains("const") ? "const" : "enum";
  const SchemaJson list = schema.contains("const") ? SchemaJson::array({schema["const"]}) : schema["enum"];
  if (!list.is_array() || list.empty()) {
    return schema_error(pointer_to(pointer, keyword), "enum is a list of at least one value");
  }
  std::vector<SchemaType> types;
  if (schema.contains("type")) {
    TRY_BIND(types, types_of(schema, pointer));
  }
  TRY_BIND(const std::optional<TextAutomaton> texts, allowed_texts(schema, pointer));
  TRY_STATUS(count_automata(texts ? 1 : 0, pointer));
  SchemaJson beside = schema;  // a value of the enum need not be looked up in it
  if (!schema.contains("const")) beside.erase("enum");
  SchemaJson found = SchemaJson::array();
  for (const SchemaJson& value : list) {
    auto fits = [&](SchemaType type) { return value_has_type(value, type); };
    if (!types.empty() && std::ranges::none_of(types, fits)) continue;
    TRY_BIND(const bool allowed, listed_value_fits(value, beside, texts, pointer));
    if (allowed) found.push_back(value);
  }
  if (found.empty()) {
    return schema_error(pointer_to(pointer, keyword), "no value of {} satisfies what stands beside it", keyword);
  }
  return found;
}

Result<SchemaJson> SchemaWriter::flat(const SchemaJson& schema, const std::string& pointer) {
  const SchemaMerge::CheckApart apart = [this](const SchemaJson& list, const std::string& at) {
    return check_apart(list, at);
  };
  return SchemaMerge(document_, apart, merge_steps_).merge(schema, pointer);
}

Result<SchemaWriter::Body> SchemaWriter::values(const SchemaJson& schema, const std::string& pointer) {
  TRY_BIND(const SchemaJson list, listed(schema, pointer));
  Body body;
  for (const SchemaJson& value : list) {
    body.text += (body.text.empty() ? "" : " | ") +
                 gbnf_literal(value.dump(-1, ' ', false, SchemaJson::error_handler_t::replace));
  }
  body.alternatives = {{}};
  return body;
}

Result<SchemaWriter::Body> SchemaWriter::branches(const SchemaJson& schema, const std::string& pointer,
                                                  std::string_view keyword) {
  const std::string at = pointer_to(pointer, keyword);
  const SchemaJson& list = schema[keyword];
  if (!list.is_array() || list.empty()) return schema_error(at, "{} is a list of at least one schema", keyword);
  std::optional<std::string> key;  // that each branch must hold, so that no value fits two
  if (keyword == "oneOf") {
    const Status apart = check_apart(list, at);
    if (!apart.ok()) key = telling_key(document_, list);
    if (!apart.ok() && !key) return apart.error();
  }
  Body body;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_boolean() && !list[i].get<bool>() && list.size() > 1) continue;
    Id id = 0;
    if (key) {
      const SchemaJson holds = {{"type", "object"}, {"required", SchemaJson::array({*key})}};
      TRY_BIND(id, made(SchemaJson{{"allOf", SchemaJson::array({list[i], holds})}}, pointer_to(at, i)));
    } else {
      id = rule_of(pointer_to(at, i));
    }
    body.text += (body.text.empty() ? "" : " | ") + name_of(id);
    body.alternatives.push_back({id});
    body.units.push_back(id);
  }
  if (body.text.empty()) return schema_error(at, "no branch of {} allows a value", keyword);
  return body;
}

Result<std::vector<SchemaType>> SchemaWriter::types_of(const SchemaJson& schema, const std::string& pointer) const {
  std::vector<SchemaType> types;
  auto add = [&](SchemaType type) {
    if (std::ranges::find(types, type) == types.end()) types.push_back(type);
  };
  if (schema.contains("type")) {
    const std::string at = pointer_to(pointer, "type");
    const SchemaJson list = schema["type"].is_array() ? schema["type"] : SchemaJson::array({schema["type"]});
    for (const SchemaJson& name : list) {
      auto type = name.is_string() ? parse_schema_type(name.get<std::string>()) : std::nullopt;
      if (!type) {
        return schema_error(at, "{} is no type; known: null, boolean, integer, number, string, array, object",
                            name.dump(-1, ' ', false, SchemaJson::error_handler_t::replace).substr(0, 100));
      }
      add(*type);
    }
    if (types.empty()) return schema_error(at, "type is an empty list");
    if (std::ranges::find(types, SchemaType::kNumber) != types.end()) std::erase(types, SchemaType::kInteger);
    return types;
  }
  // Without a type the keywords say which types they are about; a value of another type is left out.
  auto has_any = [&](std::initializer_list<std::string_view> keys) {
    return std::ranges::any_of(keys, [&](std::string_view key) { return schema.contains(key); });
  };
  if (has_any({"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
               "maxProperties"})) {
    add(SchemaType::kObject);
  }
  if (has_any({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"})) add(SchemaType::kArray);
  if (has_any({"minLength", "maxLength", "pattern", "format"})) add(SchemaType::kString);
  if (has_any({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})) add(SchemaType::kNumber);
  return types;
}

Result<SchemaWriter::Body> SchemaWriter::by_types(const SchemaJson& schema, const std::string& pointer) {
  TRY_BIND(std::vector<SchemaType> types, types_of(schema, pointer));
  if (types.empty()) return Body{writer_.any_value(), {{}}, {}};
  Body body;
  for (SchemaType type : types) {
    TRY_BIND(Body part, of_type(type, schema, pointer));
    body.text += (body.text.empty() ? "" : " | ") + part.text;
    for (std::vector<Id>& needs : part.alternatives) body.alternatives.push_back(std::move(needs));
  }
  return body;
}

Result<SchemaWriter::Body> SchemaWriter::of_type(SchemaType type, const SchemaJson& schema,
                                                 const std::string& pointer) {
  switch (type) {
    case SchemaType::kNull:
      return Body{"\"null\"", {{}}, {}};
    case SchemaType::kBoolean:
      return Body{"\"true\" | \"false\"", {{}}, {}};
    case SchemaType::kInteger:
    case SchemaType::kNumber: {
      TRY_BIND(std::string text, number(schema, pointer, type == SchemaType::kInteger));
      return Body{std::move(text), {{}}, {}};
    }
    case SchemaType::kString: {
      TRY_BIND(std::string text, string(schema, pointer));
      return Body{std::move(text), {{}}, {}};
    }
    case SchemaType::kArray:
      return array(schema, pointer);
    case SchemaType::kObject:
      return object(schema, pointer);
  }
  return schema_error(pointer, "no type");
}

}  // namespace vernier
