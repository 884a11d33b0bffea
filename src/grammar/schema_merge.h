#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/schema_document.h"

namespace vernier {

/// Whether the schema must be merged before it is written: `allOf` of several, or `$ref`, `allOf`, `anyOf` or `oneOf`
/// with other restrictions beside it.
bool needs_merge(const SchemaJson& schema);

/// One schema for the values that satisfy all of several: what stands beside a `$ref`, the members of `allOf`, the
/// branches of `anyOf` each with what stands beside it. Exact; what cannot be merged so is an error at its pointer.
/// Schemas of properties and items that meet become an `allOf`, merged when its turn comes, so recursion ends.
class SchemaMerge {
 public:
  /// Refuses branches of a `oneOf` that may share a value.
  using CheckApart = std::function<Status(const SchemaJson& branches, const std::string& pointer)>;

  /// `steps` counts the schemas that were looked at, over all merges of a document: their number is bounded.
  SchemaMerge(const SchemaDocument& document, const CheckApart& check_apart, size_t& steps)
      : document_(document), check_apart_(check_apart), steps_(steps) {}

  /// The schema `false` where no value satisfies all.
  Result<SchemaJson> merge(const SchemaJson& schema, const std::string& pointer);

 private:
  static constexpr size_t kMostSteps = 10000;

  struct Part {
    SchemaJson schema;
    std::string pointer;
  };
  struct Choice {
    SchemaJson branches;
    std::string pointer;
  };

  Status add(const SchemaJson& schema, const std::string& pointer);
  Status add_reference(const SchemaJson& schema, const std::string& pointer);
  Result<SchemaJson> combine();
  Result<SchemaJson> distribute(SchemaJson base, const std::string& place);
  Status join(SchemaJson& merged, const Part& part);
  Status join_keyword(SchemaJson& merged, const std::string& key, const SchemaJson& value, const std::string& pointer);
  Status join_objects(SchemaJson& merged, const Part& part);
  Status join_arrays(SchemaJson& merged, const Part& part);

  const SchemaDocument& document_;
  const CheckApart& check_apart_;
  size_t& steps_;
  std::vector<Part> parts_;
  std::vector<Choice> choices_;
  std::vector<std::string> open_;  // the references that are being followed
  SchemaJson unevaluated_;         // unevaluatedProperties of the outermost schema
  bool outermost_ = true;
  bool never_ = false;
  int depth_ = 0;
};

}  // namespace vernier
