#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/gbnf_writer.h"
#include "grammar/rule_graph.h"
#include "grammar/schema_document.h"
#include "grammar/text_automaton.h"

namespace vernier {

/// The seven types of JSON schema; kInteger is a part of kNumber.
enum class SchemaType : uint8_t { kNull, kBoolean, kInteger, kNumber, kString, kArray, kObject };
std::optional<SchemaType> parse_schema_type(std::string_view name);

/// Writes a JSON schema as rules. Everything that the rules produce satisfies the schema; the schema may allow more
/// (README: "What is left out"). A keyword that cannot be enforced is an error at its pointer (GRAMMAR-1).
class SchemaWriter {
 public:
  SchemaWriter(SchemaDocument& document, GbnfWriter& writer, size_t most_rules)
      : document_(document), writer_(writer), most_rules_(most_rules) {}

  /// The rule of the whole schema. With `object_only` the answer is an object: the parameters of a function.
  Result<std::string> write(bool object_only = false);
  /// The rule of the part at `pointer`, once `write` has been called for the whole.
  Result<std::string> write_part(const std::string& pointer);

 private:
  using Id = RuleGraph::RuleId;
  struct Body {
    std::string text;
    std::vector<std::vector<Id>> alternatives;  // for the graph
    std::vector<Id> units;
  };
  struct Property {
    std::string key;
    Id value;
    bool required;
  };
  struct Extra {                               // the keys that `properties` does not name
    std::vector<std::vector<Id>> values = {};  // for the graph: one of them; empty: any value
    std::string pair = {};
    size_t most = kUnbounded;
  };
  struct KeyPattern {
    TextAutomaton keys;
    std::string pointer;  // of its schema
  };
  struct KeyRules {
    std::optional<std::vector<std::string>> listed = {};  // propertyNames as a list
    std::optional<TextAutomaton> shape = {};              // propertyNames as texts
    std::vector<KeyPattern> patterns = {};                // patternProperties
    bool allows(const std::string& key) const;
    bool any_shape() const { return !shape && patterns.empty(); }
  };
  struct ArrayItems {
    std::vector<Id> prefix;
    std::optional<Id> rest;  // nothing: any value
    bool closed = false;     // no item after the prefix
  };

  Id rule_of(const std::string& pointer);
  const std::string& name_of(Id id) const { return names_[id]; }
  Status write_waiting();
  Status check_graph() const;
  Status write_rule(Id id);
  Result<Body> body_of(const SchemaJson& schema, const std::string& pointer);

  Result<Body> merged(const SchemaJson& schema, const std::string& pointer);
  /// The rule of a schema that is made of several at `place`.
  Result<Id> made(SchemaJson schema, const std::string& place);
  Result<Body> reference(const SchemaJson& schema, const std::string& pointer);
  /// The values of `enum` and `const` that satisfy what stands beside them; refuses a broken list.
  Result<SchemaJson> listed(const SchemaJson& schema, const std::string& pointer);
  /// All that `schema` and what it refers to say together, in one schema.
  Result<SchemaJson> flat(const SchemaJson& schema, const std::string& pointer);
  Result<Body> values(const SchemaJson& schema, const std::string& pointer);
  Result<Body> branches(const SchemaJson& schema, const std::string& pointer, std::string_view keyword);
  Result<Body> by_types(const SchemaJson& schema, const std::string& pointer);
  Status check_apart(const SchemaJson& branches, const std::string& pointer) const;
  Result<std::vector<SchemaType>> types_of(const SchemaJson& schema, const std::string& pointer) const;

  Result<Body> of_type(SchemaType type, const SchemaJson& schema, const std::string& pointer);
  Result<std::string> number(const SchemaJson& schema, const std::string& pointer, bool integer);
  std::string multiples_of(int64_t n);
  Result<std::string> string(const SchemaJson& schema, const std::string& pointer);
  Result<Body> array(const SchemaJson& schema, const std::string& pointer);
  Result<Body> unique_items(const SchemaJson& schema, const std::string& pointer, const ArrayItems& items, size_t low,
                            size_t high);
  Result<ArrayItems> array_items(const SchemaJson& schema, const std::string& pointer);
  Result<Body> object(const SchemaJson& schema, const std::string& pointer);
  Result<KeyRules> key_rules(const SchemaJson& schema, const std::string& pointer);
  Result<std::vector<Property>> properties(const SchemaJson& schema, const std::string& pointer, const KeyRules& rules);
  /// The rule for the value of one key; nothing where there is none for it.
  Result<std::optional<Id>> value_of_key(const SchemaJson& schema, const std::string& pointer, const KeyRules& rules,
                                         const std::string& key, bool required);
  Result<std::optional<Extra>> extra_keys(const SchemaJson& schema, const std::string& pointer, const KeyRules& rules,
                                          const std::vector<Property>& declared);
  Status shaped_keys(const KeyRules& rules, const std::vector<std::string>& taken, const std::string& pointer,
                     const std::optional<std::string>& others, Extra& extra);
  void add_extra(Extra& extra, const std::string& key, const std::optional<std::string>& value_pointer);
  /// Automata take time to make: a schema has at most so many.
  Status count_automata(size_t more, const std::string& pointer);
  std::string other_key(const std::vector<std::string>& keys);

  SchemaDocument& document_;
  GbnfWriter& writer_;
  size_t most_rules_;
  RuleGraph graph_;
  std::vector<std::string> names_;     // of the rules, by id
  std::vector<std::string> pointers_;  // of the schemas, by id
  std::unordered_map<std::string, Id> by_pointer_;
  std::vector<Id> waiting_;
  std::unordered_map<std::string, std::string> made_;         // pointers, by the text of the schema
  std::unordered_map<std::string, std::string> small_texts_;  // rules, by pattern and format; empty: not so small
  size_t merge_steps_ = 0;
  size_t automata_ = 0;
};

/// A count such as minItems: a whole number from 0 on.
Result<std::optional<size_t>> schema_count(const SchemaJson& schema, const std::string& pointer, std::string_view key);
/// Refuses keywords that cannot be enforced, and names that are no keyword at all.
Status check_keywords(const SchemaJson& schema, const std::string& pointer, bool is_root);
/// A property of which each branch lists values, no two the same one.
std::optional<std::string> telling_key(const SchemaDocument& document, const SchemaJson& branches);
/// Says nothing about which values are valid.
bool is_annotation(std::string_view key);
bool is_one_of(std::span<const std::string_view> names, std::string_view name);
/// The texts that `pattern`, `format`, `minLength` and `maxLength` allow together; nothing where they allow every one.
Result<std::optional<TextAutomaton>> allowed_texts(const SchemaJson& schema, const std::string& pointer);
/// Whether a listed value satisfies what stands beside its list, `texts` for those; an error where that cannot be said.
Result<bool> listed_value_fits(const SchemaJson& value, const SchemaJson& schema,
                               const std::optional<TextAutomaton>& texts, const std::string& pointer);
/// Whether the schema holds a keyword that restricts, other than `allowed`; the first such.
std::optional<std::string> other_assertion(const SchemaJson& schema, std::initializer_list<std::string_view> allowed);
/// The text of a `format` as a regular expression, nothing for a name that is not supported.
std::optional<std::string_view> format_pattern(std::string_view name);

}  // namespace vernier
