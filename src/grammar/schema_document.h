#pragma once

#include <nlohmann/json.hpp>
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

 private:
  SchemaJson root_;
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
