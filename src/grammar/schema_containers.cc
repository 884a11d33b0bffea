#include <algorithm>
#include <array>
#include <utility>

#include "grammar/schema_writer.h"

namespace vernier {
namespace {

constexpr size_t kMostUnique = 4096;

/// What an object needs to end: its required properties, or where it may not be empty one of the others.
template <class Properties, class Id>
std::vector<std::vector<Id>> needs_of(const Properties& declared, bool not_empty,
                                      const std::vector<std::vector<Id>>* extra) {
  std::vector<std::vector<Id>> needs(1);
  for (const auto& property : declared) {
    if (property.required) needs[0].push_back(property.value);
  }
  if (!needs[0].empty() || !not_empty) return needs;
  needs.clear();
  for (const auto& property : declared) needs.push_back({property.value});
  if (extra != nullptr) needs.insert(needs.end(), extra->begin(), extra->end());
  return needs;
}

std::string json_text(std::string_view text) {
  return SchemaJson(text).dump(-1, ' ', false, SchemaJson::error_handler_t::replace);
}

/// Writes the pairs of an object in the order of the schema, the last of them first; `first` and `rest` are what may
/// stand at a property before and after the first pair. Any of those that may be left out may come next, and thousands
/// of ways would each be followed; so their keys stand in blocks of 8, 64 and so on as well, whose texts the library
/// joins.
class PairWriter {
 public:
  PairWriter(GbnfWriter& writer, std::string first, std::string rest)
      : writer_(writer), space_(writer.space()), first_(std::move(first)), rest_(std::move(rest)) {}

  /// Before those that are written; `index` is its place among all.
  void put(size_t index, const std::string& key, const std::string& value, bool required) {
    const std::string after = writer_.rule(rest_);
    const std::string tail = writer_.rule(fmt::format("{0} \":\" {0} {1} {2}", space_, value, after));
    const std::string pair = gbnf_literal(json_text(key)) + " " + tail;
    if (required) {
      end_ = index;
      pairs_.clear();
      first_ = pair;
      rest_ = fmt::format("{0} \",\" {0} {1}", space_, pair);
      return;
    }
    if (pairs_.empty()) {
      end_ = index + 1;
      leave_ = after;
      leave_first_ = first_.empty() ? "" : writer_.rule(first_);
    }
    pairs_.push_back(pair);
    const std::string next = index + 1 == end_ ? "" : (index + 1) % kBlock == 0 ? blocks_[1] : blocks_[0];
    blocks_[0] = writer_.rule(joined(pair, next));
    for (size_t level = 1, size = kBlock; level + 1 < blocks_.size() && index % size == 0; ++level, size *= kBlock) {
      put_block(index, level, size);
    }
    first_ = joined(blocks_[0], leave_first_);
    rest_ = joined(fmt::format("{0} \",\" {0} {1}", space_, blocks_[0]), leave_);
  }
  const std::string& first() const { return first_; }

 private:
  static constexpr size_t kBlock = 8;

  static std::string joined(const std::string& one, const std::string& other) {
    return other.empty() ? one : one + " | " + other;
  }

  /// The block that begins at `index`, and those after it.
  void put_block(size_t index, size_t level, size_t size) {
    const size_t end = std::min(index + size, end_);
    if (level > 1 && end - index <= size / kBlock) {
      blocks_[level] = blocks_[level - 1];
      return;
    }
    std::string keys;
    for (size_t i = end; i-- > index;) keys += (keys.empty() ? "" : " | ") + pairs_[end_ - 1 - i];
    const std::string next = end == end_ ? "" : end / size % kBlock == 0 ? blocks_[level + 1] : blocks_[level];
    blocks_[level] = writer_.rule(joined(writer_.rule(keys), next));
  }

  GbnfWriter& writer_;
  std::string space_;
  std::string first_, rest_;
  // Of those in a row that may be left out:
  size_t end_ = 0;                          // the place of the last, and one
  std::vector<std::string> pairs_;          // from the last on
  std::string leave_first_, leave_;         // what may stand where none of them is taken
  std::array<std::string, 7> blocks_ = {};  // by level: any of them from the place on
};

}  // namespace

Result<SchemaWriter::Body> SchemaWriter::object(const SchemaJson& schema, const std::string& pointer) {
  TRY_BIND(const KeyRules rules, key_rules(schema, pointer));
  TRY_BIND(std::vector<Property> declared, properties(schema, pointer, rules));
  TRY_BIND(std::optional<size_t> least, schema_count(schema, pointer, "minProperties"));
  TRY_BIND(std::optional<size_t> most, schema_count(schema, pointer, "maxProperties"));
  TRY_BIND(std::optional<Extra> extra, extra_keys(schema, pointer, rules, declared));
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
  PairWriter pairs(writer_, std::move(first), std::move(rest));
  for (size_t i = declared.size(); i-- > 0;) {
    pairs.put(i, declared[i].key, name_of(declared[i].value), declared[i].required);
  }
  Body body;
  body.alternatives = needs_of(declared, low > 0, extra ? &extra->values : nullptr);
  body.text = fmt::format("\"{{\" {} ({})", s, pairs.first());
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
    return unique_items(schema, pointer, items, low, high);
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

/// Of listed values, in the order of their list: what may stand once `taken` are written and those from `next` on are
/// left is a rule.
Result<SchemaWriter::Body> SchemaWriter::unique_items(const SchemaJson& schema, const std::string& pointer,
                                                      const ArrayItems& items, size_t low, size_t high) {
  const std::string at = pointer_to(pointer, "uniqueItems");
  SchemaJson values = SchemaJson::array();
  TRY_BIND(SchemaJson item, flat(schema.contains("items") ? schema["items"] : SchemaJson(true), pointer));
  if (item.is_object() && item.contains("type") && item["type"] == "boolean") item["enum"] = {false, true};
  if (!items.prefix.empty() || !item.is_object() || !(item.contains("enum") || item.contains("const"))) {
    return schema_error(at, "supported where the items are listed by enum or const; leave it out, or allow one item");
  }
  TRY_BIND(const SchemaJson all, listed(item, pointer_to(pointer, "items")));
  for (const SchemaJson& value : all) {
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  const size_t count = values.size();
  high = std::min(high, count);
  if (low > high) return schema_error(pointer_to(pointer, "minItems"), "more items than there are different values");
  if (count * high > kMostUnique) return schema_error(at, "more than {} values times items", kMostUnique);
  const std::string s = writer_.space();
  const std::string close = s + " \"]\"";
  std::vector<std::string> after(high + 1);  // by how many are taken, for the values from `next` on
  for (size_t taken = low; taken <= high; ++taken) after[taken] = close;
  std::string first;
  for (size_t next = count; next-- > 0;) {
    const std::string value = gbnf_literal(values[next].dump(-1, ' ', false, SchemaJson::error_handler_t::replace));
    if (!after[1].empty()) first = value + " " + writer_.rule(after[1]) + (first.empty() ? "" : " | " + first);
    for (size_t taken = 1; taken < high; ++taken) {
      if (after[taken + 1].empty()) continue;
      const std::string more = fmt::format("{} \",\" {} {} {}", s, s, value, writer_.rule(after[taken + 1]));
      after[taken] = more + (after[taken].empty() ? "" : " | " + writer_.rule(after[taken]));
    }
  }
  if (low == 0) first += std::string(first.empty() ? "" : " | ") + "\"]\"";
  return Body{fmt::format("\"[\" {} ({})", s, first), {{}}, {}};
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
