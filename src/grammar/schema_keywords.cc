#include <algorithm>
#include <array>

#include "grammar/schema_writer.h"

namespace vernier {
namespace {

// Say nothing about which values are valid.
constexpr std::array<std::string_view, 17> kAnnotations = {
    "title",           "description",  "default",   "examples",      "example",
    "$comment",        "$schema",      "$id",       "$defs",         "definitions",
    "deprecated",      "readOnly",     "writeOnly", "discriminator", "contentMediaType",
    "contentEncoding", "contentSchema"};

constexpr std::array<std::string_view, 31> kAssertions = {"$ref",
                                                          "type",
                                                          "enum",
                                                          "const",
                                                          "anyOf",
                                                          "oneOf",
                                                          "allOf",
                                                          "properties",
                                                          "required",
                                                          "additionalProperties",
                                                          "patternProperties",
                                                          "propertyNames",
                                                          "minProperties",
                                                          "maxProperties",
                                                          "items",
                                                          "prefixItems",
                                                          "additionalItems",
                                                          "minItems",
                                                          "maxItems",
                                                          "uniqueItems",
                                                          "unevaluatedProperties",
                                                          "unevaluatedItems",
                                                          "minLength",
                                                          "maxLength",
                                                          "pattern",
                                                          "format",
                                                          "minimum",
                                                          "maximum",
                                                          "multipleOf",
                                                          "exclusiveMinimum",
                                                          "exclusiveMaximum"};

constexpr std::string_view kSupported =
    "$ref within the schema, type, enum, const, anyOf, oneOf whose branches exclude each other, allOf, properties, "
    "required, additionalProperties, patternProperties, propertyNames, minProperties up to 1, items, prefixItems, "
    "minItems, maxItems, uniqueItems of listed values, minLength, maxLength, pattern, format, minimum, maximum, "
    "exclusiveMinimum, exclusiveMaximum, multipleOf of integers up to 100";

struct FormatPattern {
  std::string_view name, pattern;
};

#define VERNIER_DATE                                                                                                  \
  "([12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-" \
  "8]))"                                                                                                              \
  "|[12][0-9](0[48]|[2468][048]|[13579][26])-02-29)"
#define VERNIER_TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define VERNIER_LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define VERNIER_BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define VERNIER_HOST VERNIER_LABEL "(\\." VERNIER_LABEL "){0,5}"
#define VERNIER_PATH_CHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"

// A part of each format that every validator takes.
constexpr std::array<FormatPattern, 11> kFormats = {{
    {"date", VERNIER_DATE},
    {"time", VERNIER_TIME},
    {"date-time", VERNIER_DATE "T" VERNIER_TIME},
    {"duration", "P([0-9]{1,6}W|[0-9]{1,6}D(T[0-9]{1,6}H([0-9]{1,6}M([0-9]{1,6}S)?)?)?|T[0-9]{1,6}[HMS])"},
    {"email", "[A-Za-z0-9_+-]{1,30}(\\.[A-Za-z0-9_+-]{1,30})?@" VERNIER_LABEL "(\\." VERNIER_LABEL "){1,4}"},
    {"hostname", VERNIER_HOST},
    {"ipv4", VERNIER_BYTE "(\\." VERNIER_BYTE "){3}"},
    {"ipv6", "[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"uri",
     "(https?|ftp)://" VERNIER_HOST "(:[0-9]{1,4})?(/" VERNIER_PATH_CHAR "*)*(\\?(" VERNIER_PATH_CHAR "|[/?])*)?"},
    {"json-pointer", "(/([^\\u0000-\\u001f/~]|~[01])*)*"},
}};

}  // namespace

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_annotation(std::string_view key) {
  return is_one_of(kAnnotations, key) || key.starts_with("x-");
}

Status check_keywords(const SchemaJson& schema, const std::string& pointer, bool is_root) {
  for (const auto& [key, value] : schema.items()) {
    const std::string at = pointer_to(pointer, key);
    if (key == "$id" && !is_root) return schema_error(at, "$id below the root changes what $ref means; not supported");
    if (key == "nullable")
      return schema_error(at, "'nullable' is not JSON schema; write \"type\": [\"...\", \"null\"]");
    if (!is_annotation(key) && !is_one_of(kAssertions, key)) {
      return schema_error(at, "the keyword '{}' cannot be enforced; supported are {}", key, kSupported);
    }
  }
  return {};
}

std::optional<std::string> other_assertion(const SchemaJson& schema, std::initializer_list<std::string_view> allowed) {
  for (const auto& [key, value] : schema.items()) {
    if (!is_annotation(key) && std::ranges::find(allowed, key) == allowed.end()) return key;
  }
  return std::nullopt;
}

std::optional<std::string_view> format_pattern(std::string_view name) {
  auto found = std::ranges::find(kFormats, name, &FormatPattern::name);
  return found == kFormats.end() ? std::nullopt : std::optional(found->pattern);
}

Result<std::optional<size_t>> schema_count(const SchemaJson& schema, const std::string& pointer, std::string_view key) {
  if (!schema.contains(key)) return std::optional<size_t>();
  const SchemaJson& value = schema[key];
  double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0) || number != static_cast<double>(static_cast<int64_t>(std::min(number, 1e15)))) {
    return schema_error(pointer_to(pointer, key), "'{}' is a whole number from 0 on", key);
  }
  return std::optional(static_cast<size_t>(number));
}

}  // namespace vernier
