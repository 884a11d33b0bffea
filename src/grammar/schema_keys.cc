#include <algorithm>
#include <set>

#include "grammar/schema_writer.h"

// Which keys an object may have, and what stands behind each.

namespace vernier {
namespace {

constexpr size_t kMostKeyChars = 200;  // of a key that other keys are told apart from

const CharSet& bare_chars() {
  static const CharSet set = CharSet::of({{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}});
  return set;
}

/// A rule for the rest of a key, with its closing quote, that is none of `keys`; these share their first `depth`
/// characters. Other keys are spelled without escapes, else "\u0061" would be a way round.
std::string rest_of_other_key(GbnfWriter& writer, const std::vector<std::vector<char32_t>>& keys, size_t depth) {
  std::set<char32_t> next;
  bool ends = false;
  for (const auto& key : keys) {
    if (key.size() == depth) {
      ends = true;
    } else {
      next.insert(key[depth]);
    }
  }
  CharSet others = bare_chars();
  std::string text = ends ? "" : "\"\\\"\"";
  for (char32_t c : next) {
    const CharSet one = CharSet::of({{c, c}});
    if (one.empty() || !bare_chars().contains(c)) continue;  // not spelled without an escape
    others = others & one.complement();
    if (depth + 1 > kMostKeyChars) continue;
    std::vector<std::vector<char32_t>> same;
    std::ranges::copy_if(keys, std::back_inserter(same),
                         [&](auto& key) { return key.size() > depth && key[depth] == c; });
    text += fmt::format("{}{} {}", text.empty() ? "" : " | ", gbnf_chars(one, TextContext::kPlain),
                        rest_of_other_key(writer, same, depth + 1));
  }
  text += fmt::format("{}{} {}* \"\\\"\"", text.empty() ? "" : " | ", gbnf_chars(others, TextContext::kPlain),
                      gbnf_chars(bare_chars(), TextContext::kPlain));
  return writer.rule(text);
}

}  // namespace

bool SchemaWriter::KeyRules::allows(const std::string& key) const {
  if (listed && std::ranges::find(*listed, key) == listed->end()) return false;
  return !shape || shape->matches(key);
}

std::string SchemaWriter::other_key(const std::vector<std::string>& keys) {
  if (keys.empty()) return writer_.string_of_length(0, kUnbounded);
  std::vector<std::vector<char32_t>> points;
  for (const std::string& key : keys) points.push_back(code_points(key));
  return "\"\\\"\" " + rest_of_other_key(writer_, points, 0);
}

Result<SchemaWriter::KeyRules> SchemaWriter::key_rules(const SchemaJson& schema, const std::string& pointer) {
  KeyRules rules;
  if (schema.contains("patternProperties")) {
    const std::string list = pointer_to(pointer, "patternProperties");
    if (!schema["patternProperties"].is_object()) return schema_error(list, "'patternProperties' is an object");
    const size_t count = schema["patternProperties"].size();
    TRY_STATUS(count_automata(count * count, list));  // each is told apart from all others
    for (const auto& [text, value] : schema["patternProperties"].items()) {
      const std::string at = pointer_to(list, text);
      Result<PatternNode> pattern = parse_pattern(text, PatternUse::kSearch);
      if (!pattern.ok()) return schema_error(at, "{}", pattern.error().message);
      Result<TextAutomaton> keys = TextAutomaton::of(*pattern);
      if (!keys.ok()) return schema_error(at, "{}", keys.error().message);
      rules.patterns.push_back({std::move(*keys), at});
    }
  }
  if (!schema.contains("propertyNames")) return rules;
  const std::string at = pointer_to(pointer, "propertyNames");
  TRY_BIND(const SchemaJson names, flat(schema["propertyNames"], at));
  if (names == SchemaJson(false)) return schema_error(at, "the schema false allows no key");
  if (auto other = other_assertion(names, {"type", "enum", "const", "pattern", "format", "minLength", "maxLength"})) {
    return schema_error(pointer_to(at, *other), "'{}' of a key is not supported", *other);
  }
  TRY_BIND(const std::vector<SchemaType> types, types_of(names, at));
  if (!types.empty() && std::ranges::find(types, SchemaType::kString) == types.end()) {
    return schema_error(at, "a key is a text; the schema allows none");
  }
  if (!names.contains("enum") && !names.contains("const")) {
    TRY_STATUS(count_automata(1, at));
    TRY_BIND(rules.shape, allowed_texts(names, at));
    return rules;
  }
  TRY_BIND(const SchemaJson list, listed(names, at));
  rules.listed.emplace();
  for (const SchemaJson& name : list) {
    if (name.is_string()) rules.listed->push_back(name.get<std::string>());
  }
  return rules;
}

Result<std::optional<SchemaWriter::Id>> SchemaWriter::value_of_key(const SchemaJson& schema, const std::string& pointer,
                                                                   const KeyRules& rules, const std::string& key,
                                                                   bool required) {
  std::vector<std::string> places;
  const bool declared = schema.contains("properties") && schema["properties"].contains(key);
  if (declared) places.push_back(pointer_to(pointer_to(pointer, "properties"), key));
  for (const KeyPattern& pattern : rules.patterns) {
    if (pattern.keys.matches(key)) places.push_back(pattern.pointer);
  }
  if (places.empty() && schema.contains("additionalProperties")) {
    places.push_back(pointer_to(pointer, "additionalProperties"));
  } else if (places.empty() && schema.contains("unevaluatedProperties")) {
    places.push_back(pointer_to(pointer, "unevaluatedProperties"));
  }
  SchemaJson all = SchemaJson::array();
  for (const std::string& place : places) {
    const SchemaJson& one = *document_.find(place);
    if (one == SchemaJson(false)) {
      if (!required) return std::optional<Id>();
      return schema_error(declared ? place : pointer_to(pointer, "required"),
                          "'{}' is required, and the schema of that key is false: it allows no value", key);
    }
    all.push_back(one);
  }
  if (places.size() == 1) return std::optional(rule_of(places[0]));
  TRY_BIND(const Id id, made(places.empty() ? SchemaJson(true) : SchemaJson{{"allOf", std::move(all)}},
                             places.empty() ? pointer : places[0]));
  return std::optional(id);
}

Result<std::vector<SchemaWriter::Property>> SchemaWriter::properties(const SchemaJson& schema,
                                                                     const std::string& pointer,
                                                                     const KeyRules& rules) {
  static const SchemaJson kNone = SchemaJson::object();
  const SchemaJson& declared = schema.contains("properties") ? schema["properties"] : kNone;
  if (!declared.is_object()) return schema_error(pointer_to(pointer, "properties"), "'properties' is an object");
  std::set<std::string> required;
  if (schema.contains("required")) {
    const std::string at = pointer_to(pointer, "required");
    if (!schema["required"].is_array()) return schema_error(at, "'required' is a list of names");
    for (const SchemaJson& name : schema["required"]) {
      if (!name.is_string()) return schema_error(at, "'required' is a list of names");
      required.insert(name.get<std::string>());
    }
  }
  std::vector<Property> found;
  std::set<std::string> seen;
  auto add = [&](const std::string& key) -> Status {
    const bool needed = required.contains(key);
    if (!seen.insert(key).second) return {};
    if (!rules.allows(key)) {
      if (!needed) return {};
      return schema_error(pointer_to(pointer, "propertyNames"), "'{}' is required, and no key may be so", key);
    }
    TRY_BIND(const std::optional<Id> value, value_of_key(schema, pointer, rules, key, needed));
    if (value) found.push_back({key, *value, needed});
    return {};
  };
  for (const auto& [key, value] : declared.items()) TRY_STATUS(add(key));
  const bool open = declared.empty() || schema.contains("additionalProperties");
  if (rules.listed) {
    for (const std::string& key : *rules.listed) {
      if (open || required.contains(key)) TRY_STATUS(add(key));
    }
  }
  for (const std::string& key : required) TRY_STATUS(add(key));
  return found;
}

void SchemaWriter::add_extra(Extra& extra, const std::string& key, const std::optional<std::string>& value_pointer) {
  const std::string s = writer_.space();
  std::string value = writer_.any_value();
  extra.values.emplace_back();
  if (value_pointer) {
    const Id id = rule_of(*value_pointer);
    extra.values.back().push_back(id);
    value = name_of(id);
  }
  const std::string pair = writer_.rule(fmt::format("{} {} \":\" {} {}", key, s, s, value));
  extra.pair += (extra.pair.empty() ? "" : " | ") + pair;
}

/// Keys that one pattern matches and no other, and those that none matches where `others` says what they hold; none of
/// `taken`. A key that several patterns match is left out.
Status SchemaWriter::shaped_keys(const KeyRules& rules, const std::vector<std::string>& taken,
                                 const std::string& pointer, const std::optional<std::string>& others, Extra& extra) {
  auto keys_of = [&](const KeyPattern* pattern) -> Result<TextAutomaton> {
    TRY_BIND(TextAutomaton keys, TextAutomaton::of_length(0, kUnbounded));
    if (rules.shape) {
      TRY_BIND(keys, keys.both(*rules.shape));
    }
    for (const KeyPattern& other : rules.patterns) {
      TRY_BIND(keys, &other == pattern ? keys.both(other.keys) : keys.without(other.keys));
    }
    TRY_BIND(const TextAutomaton words, TextAutomaton::of_words(taken));
    return taken.empty() ? Result<TextAutomaton>(std::move(keys)) : keys.without(words);
  };
  auto add = [&](const KeyPattern* pattern, const std::string& at, const std::optional<std::string>& value) -> Status {
    Result<TextAutomaton> keys = keys_of(pattern);
    if (!keys.ok()) return schema_error(at, "{}", keys.error().message);
    if (!keys->empty()) add_extra(extra, "\"\\\"\" " + keys->write_rest_of_string(writer_), value);
    return {};
  };
  for (const KeyPattern& pattern : rules.patterns) {
    if (*document_.find(pattern.pointer) == SchemaJson(false)) continue;
    TRY_STATUS(add(&pattern, pattern.pointer, pattern.pointer));
  }
  if (others) TRY_STATUS(add(nullptr, pointer, others->empty() ? std::nullopt : others));
  return {};
}

Result<std::optional<SchemaWriter::Extra>> SchemaWriter::extra_keys(const SchemaJson& schema,
                                                                    const std::string& pointer, const KeyRules& rules,
                                                                    const std::vector<Property>& declared) {
  const char* keyword = schema.contains("additionalProperties") ? "additionalProperties" : "unevaluatedProperties";
  TRY_BIND(std::optional<size_t> most, schema_count(schema, pointer, "maxProperties"));
  Extra found;
  found.most = most ? *most - std::min(*most, declared.size()) : kUnbounded;
  if (rules.listed || found.most == 0) return std::optional<Extra>();
  const bool declares = (schema.contains("properties") && !schema["properties"].empty()) || !rules.patterns.empty();
  // Where properties are declared and nothing is said of others, none is written: still a valid object.
  const bool open = schema.contains(keyword) ? schema[keyword] != SchemaJson(false) : !declares;
  std::vector<std::string> taken;
  for (const Property& property : declared) taken.push_back(property.key);
  if (schema.contains("properties")) {
    const std::set<std::string> known(taken.begin(), taken.end());
    for (const auto& [key, value] : schema["properties"].items()) {
      if (!known.contains(key)) taken.push_back(key);
    }
  }
  const bool any = !schema.contains(keyword) || schema[keyword].is_boolean();
  const std::string value = any ? "" : pointer_to(pointer, keyword);
  if (rules.any_shape()) {
    if (open) add_extra(found, other_key(taken), any ? std::nullopt : std::optional(value));
  } else {
    TRY_STATUS(shaped_keys(rules, taken, pointer, open ? std::optional(value) : std::nullopt, found));
    if (!found.pair.empty()) found.pair = writer_.rule(found.pair);
  }
  return found.pair.empty() ? std::optional<Extra>() : std::optional(std::move(found));
}

}  // namespace vernier
