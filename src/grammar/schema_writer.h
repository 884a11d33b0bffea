#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/gbnf_writer.h"
#include "grammar/rule_graph.h"
#include "grammar/schema_document.h"

namespace vernier {

/// The seven types of JSON schema; kInteger is a part of kNumber.
enum class SchemaType : uint8_t { kNull, kBoolean, kInteger, kNumber, kString, kArray, kObject };
std::optional<SchemaType> parse_schema_type(std::string_view name);

/// Writes a JSON schema as rules. Everything that the rules produce satisfies the schema; the schema may allow more
/// (README: "What is left out"). A keyword that cannot be enforced is an error at its pointer (GRAMMAR-1).
class SchemaWriter {
 public:
  SchemaWriter(const SchemaDocument& document, GbnfWriter& writer, size_t most_rules)
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
  struct Extra {              // the keys that `properties` does not name
    std::optional<Id> value;  // nothing: any value
    std::string pair;
    size_t most = kUnbounded;
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

  Result<Body> reference(const SchemaJson& schema, const std::string& pointer);
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
  Result<ArrayItems> array_items(const SchemaJson& schema, const std::string& pointer);
  Result<Body> object(const SchemaJson& schema, const std::string& pointer);
  Result<std::vector<Property>> properties(const SchemaJson& schema, const std::string& pointer);
  Result<std::optional<Extra>> extra_keys(const SchemaJson& schema, const std::string& pointer,
                                          const std::vector<Property>& declared);
  std::string other_key(const std::vector<std::string>& keys);

  const SchemaDocument& document_;
  GbnfWriter& writer_;
  size_t most_rules_;
  RuleGraph graph_;
  std::vector<std::string> names_;     // of the rules, by id
  std::vector<std::string> pointers_;  // of the schemas, by id
  std::unordered_map<std::string, Id> by_pointer_;
  std::vector<Id> waiting_;
};

/// A count such as minItems: a whole number from 0 on.
Result<std::optional<size_t>> schema_count(const SchemaJson& schema, const std::string& pointer, std::string_view key);
/// Refuses keywords that cannot be enforced, and names that are no keyword at all.
Status check_keywords(const SchemaJson& schema, const std::string& pointer, bool is_root);
/// Whether the schema holds a keyword that restricts, other than `allowed`; the first such.
std::optional<std::string> other_assertion(const SchemaJson& schema, std::initializer_list<std::string_view> allowed);
/// The text of a `format` as a regular expression, nothing for a name that is not supported.
std::optional<std::string_view> format_pattern(std::string_view name);

}  // namespace vernier
