#include <algorithm>
#include <set>

#include "grammar/schema_writer.h"

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

std::string json_text(std::string_view text) {
  return SchemaJson(text).dump(-1, ' ', false, SchemaJson::error_handler_t::replace);
}

}  // namespace

std::string SchemaWriter::other_key(const std::vector<std::string>& keys) {
  if (keys.empty()) return writer_.string_of_length(0, kUnbounded);
  std::vector<std::vector<char32_t>> points;
  for (const std::string& key : keys) points.push_back(code_points(key));
  return "\"\\\"\" " + rest_of_other_key(writer_, points, 0);
}

Result<std::vector<SchemaWriter::Property>> SchemaWriter::properties(const SchemaJson& schema,
                                                                     const std::string& pointer) {
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
  for (const auto& [key, value] : declared.items()) {
    const std::string at = pointer_to(pointer_to(pointer, "properties"), key);
    const bool needed = required.erase(key) > 0;
    if (value.is_boolean() && !value.get<bool>()) {
      if (needed) return schema_error(at, "'{}' is required, and its schema false allows no value", key);
      continue;
    }
    found.push_back({key, rule_of(at), needed});
  }
  // A required key that is not declared has the schema of the keys that are not.
  for (const std::string& key : required) {
    const SchemaJson& others =
        schema.contains("additionalProperties") ? schema["additionalProperties"] : SchemaJson(true);
    if (others.is_boolean()) {
      return schema_error(pointer_to(pointer, "required"), "'{}' is required and not among the properties; declare it",
                          key);
    }
    found.push_back({key, rule_of(pointer_to(pointer, "additionalProperties")), true});
  }
  return found;
}

Result<std::optional<SchemaWriter::Extra>> SchemaWriter::extra_keys(const SchemaJson& schema,
                                                                    const std::string& pointer,
                                                                    const std::vector<Property>& declared) {
  const char* keyword = schema.contains("additionalProperties") ? "additionalProperties" : "unevaluatedProperties";
  TRY_BIND(std::optional<size_t> most, schema_count(schema, pointer, "maxProperties"));
  const size_t extra = most ? *most - std::min(*most, declared.size()) : kUnbounded;
  const bool declares = schema.contains("properties") && !schema["properties"].empty();
  // Where properties are declared and nothing is said of others, none is written: still a valid object.
  const bool open = schema.contains(keyword) ? schema[keyword] != SchemaJson(false) : !declares;
  if (!open || extra == 0) return std::optional<Extra>();
  std::vector<std::string> keys;
  for (const Property& property : declared) keys.push_back(property.key);
  if (schema.contains("properties")) {
    for (const auto& [key, value] : schema["properties"].items()) {
      if (value == SchemaJson(false)) keys.push_back(key);
    }
  }
  Extra found;
  found.most = extra;
  std::string value = writer_.any_value();
  if (schema.contains(keyword) && !schema[keyword].is_boolean()) {
    found.value = rule_of(pointer_to(pointer, keyword));
    value = name_of(*found.value);
  }
  const std::string s = writer_.space();
  found.pair = writer_.rule(fmt::format("{} {} \":\" {} {}", other_key(keys), s, s, value));
  return std::optional(std::move(found));
}

/// The properties come in the order of the schema; `first` and `rest` are what may stand at property i before and after
/// the first pair.
Result<SchemaWriter::Body> SchemaWriter::object(const SchemaJson& schema, const std::string& pointer) {
  TRY_BIND(std::vector<Property> declared, properties(schema, pointer));
  TRY_BIND(std::optional<size_t> least, schema_count(schema, pointer, "minProperties"));
  TRY_BIND(std::optional<size_t> most, schema_count(schema, pointer, "maxProperties"));
  TRY_BIND(std::optional<Extra> extra, extra_keys(schema, pointer, declared));
  const auto required = static_cast<size_t>(std::ranges::count(declared, true, &Property::required));
  const size_t low = least.value_or(0);
  if (low > std::max<size_t>(required, 1)) {
    return schema_error(pointer_to(pointer, "minProperties"),
                        "supported are 0, 1, and up to the number of required properties");
  }
  if (most && *most < declared.size()) {
    return schema_error(pointer_to(pointer, "maxProperties"),
                        "below the number of declared properties it is not supported");
  }
  if (low > 0 && declared.empty() && !extra) {
    return schema_error(pointer_to(pointer, "minProperties"), "the object may have no property at all");
  }
  const std::string s = writer_.space();
  std::string rest = s + " \"}\"";
  std::string first = low > 0 ? "" : "\"}\"";
  if (extra) {
    const std::string more = fmt::format("({} \",\" {} {})", s, s, extra->pair);
    rest = gbnf_repeat(more, 0, extra->most) + " " + rest;
    first += fmt::format("{}{} {} {} \"}}\"", first.empty() ? "" : " | ", extra->pair,
                         gbnf_repeat(more, 0, extra->most == kUnbounded ? kUnbounded : extra->most - 1), s);
  }
  Body body;
  body.alternatives.emplace_back();
  for (size_t i = declared.size(); i-- > 0;) {
    const Property& property = declared[i];
    const std::string pair =
        fmt::format("{} {} \":\" {} {}", gbnf_literal(json_text(property.key)), s, s, name_of(property.value));
    const std::string after = writer_.rule(rest);
    const std::string otherwise = property.required || first.empty() ? "" : " | " + writer_.rule(first);
    first = fmt::format("{} {}{}", pair, after, otherwise);
    rest = fmt::format("{} \",\" {} {} {}{}", s, s, pair, after, property.required ? "" : " | " + after);
    if (property.required) body.alternatives[0].push_back(property.value);
  }
  body.text = fmt::format("\"{{\" {} ({})", s, first);
  return body;
}

Result<SchemaWriter::Body> SchemaWriter::array(const SchemaJson& schema, const std::string& pointer) {
  TRY_BIND(std::optional<size_t> least, schema_count(schema, pointer, "minItems"));
  TRY_BIND(std::optional<size_t> most, schema_count(schema, pointer, "maxItems"));
  TRY_BIND(ArrayItems items, array_items(schema, pointer));
  const size_t low = least.value_or(0);
  const size_t high = std::min(most.value_or(kUnbounded), items.closed ? items.prefix.size() : kUnbounded);
  if (low > high) return schema_error(pointer_to(pointer, "minItems"), "more items than the array may have");
  if (schema.contains("uniqueItems") && schema["uniqueItems"] != SchemaJson(false) && high > 1) {
    return schema_error(pointer_to(pointer, "uniqueItems"),
                        "uniqueItems cannot be enforced; leave it out, or allow one item");
  }
  const std::string s = writer_.space();
  const std::string item = items.rest ? name_of(*items.rest) : writer_.any_value();
  const std::string close = s + " \"]\"";
  const std::string comma = fmt::format("{} \",\" {} ", s, s);
  Body body;
  body.alternatives.emplace_back();
  auto need = [&](size_t index) {
    if (index < items.prefix.size()) body.alternatives[0].push_back(items.prefix[index]);
    if (index >= items.prefix.size() && items.rest) body.alternatives[0].push_back(*items.rest);
  };
  const size_t prefix = std::min(items.prefix.size(), high);
  for (size_t i = 0; i < std::min(low, prefix + 1); ++i) need(i);
  if (prefix == 0) {
    const std::string more =
        gbnf_repeat("(" + comma + item + ")", low == 0 ? 0 : low - 1, high == kUnbounded ? high : high - 1);
    std::string filled = high == 0 ? "" : fmt::format("{} {} {}", item, more, close);
    body.text = fmt::format("\"[\" {} ({}{}{})", s, low == 0 ? "\"]\"" : "", low == 0 && high > 0 ? " | " : "", filled);
    return body;
  }
  // What may stand after all of the prefix, then before each of its items, from the last to the second.
  std::string after = close;
  if (high > prefix) {
    after = gbnf_repeat("(" + comma + item + ")", low > prefix ? low - prefix : 0,
                        high == kUnbounded ? high : high - prefix) +
            " " + close;
  }
  for (size_t i = prefix; i-- > 0;) {
    const std::string next = name_of(items.prefix[i]) + " " + writer_.rule(after);
    if (i == 0) {
      after = next + (low == 0 ? " | \"]\"" : "");
    } else {
      after = comma + next + (i >= low ? " | " + close : "");
    }
  }
  body.text = fmt::format("\"[\" {} ({})", s, after);
  return body;
}

Result<SchemaWriter::ArrayItems> SchemaWriter::array_items(const SchemaJson& schema, const std::string& pointer) {
  ArrayItems found;
  std::string rest = schema.contains("items") ? "items" : "unevaluatedItems";
  std::string list = "prefixItems";
  if (schema.contains("items") && schema["items"].is_array()) {  // as draft 7 wrote it
    if (schema.contains("prefixItems")) return schema_error(pointer_to(pointer, "items"), "a list beside prefixItems");
    list = "items";
    rest = "additionalItems";
  } else if (schema.contains("additionalItems")) {
    return schema_error(pointer_to(pointer, "additionalItems"), "it means something beside a list of items only");
  }
  if (schema.contains(list)) {
    const std::string at = pointer_to(pointer, list);
    if (!schema[list].is_array() || schema[list].empty()) return schema_error(at, "'{}' is a list of schemas", list);
    for (size_t i = 0; i < schema[list].size(); ++i) {
      if (schema[list][i] == SchemaJson(false))
        return schema_error(pointer_to(at, i), "the schema false allows no item");
      found.prefix.push_back(rule_of(pointer_to(at, i)));
    }
  }
  if (schema.contains(rest)) {
    found.closed = schema[rest] == SchemaJson(false);
    if (!schema[rest].is_boolean()) found.rest = rule_of(pointer_to(pointer, rest));
  }
  return found;
}

}  // namespace vernier
