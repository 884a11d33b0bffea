#pragma once

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace vernier {

using SchemaJson = nlohmann::ordered_json;

/// A JSON schema as it was sent, and where its parts lie. Owns the JSON; the writer walks it.
class SchemaDocument {
 public:
  /// Refuses what is not JSON, nests deeper than `nesting`, or repeats a key (which of the two holds is anyone's
  /// guess).
  static Result<SchemaDocument> parse(std::string_view text, size_t nesting);

  const SchemaJson& root() const { return root_; }
  /// The part that a JSON pointer names, or null.
  const SchemaJson* find(std::string_view pointer) const;
  /// The pointer that a `$ref` means; refuses those that leave the document.
  Result<std::string> resolve(std::string_view reference) const;

  /// A schema made of several that stand at `place`, under a pointer of its own; nothing where all such together are
  /// too large.
  std::optional<std::string> add(SchemaJson schema, std::string place);
  static bool is_made(std::string_view pointer);
  /// The error at the place that the caller wrote.
  Error placed(Error error) const;

 private:
  struct Made {
    SchemaJson schema;
    std::string place;
  };

  SchemaJson root_;
  std::deque<Made> made_;  // stay where they are: the writer holds references
  size_t made_bytes_ = 0;
};

/// pointer + "/" + key, with ~ and / escaped.
std::string pointer_to(std::string_view pointer, std::string_view key);
std::string pointer_to(std::string_view pointer, size_t index);

/// An error whose `where` is the place; "#" for the whole document.
template <class... Args>
Error schema_error(std::string_view pointer, fmt::format_string<Args...> format, Args&&... args) {
  Error error = invalid_argument(format, std::forward<Args>(args)...);
  error.where = "#" + std::string(pointer);
  return error;
}

}  // namespace vernier
