#include "text/json_value.h"

#include "text/utf8.h"

namespace vernier::json {

Result<std::string_view> text(element value, std::string_view key) {
  std::optional<element> found = member(value, key);
  std::string_view result;
  if (!found || found->get(result) != simdjson::SUCCESS) return corrupt("'{}' is missing or is not text", key);
  // An escaped half of a surrogate pair is valid JSON and no valid text.
  if (!is_valid_utf8(result)) return corrupt("'{}' is not valid UTF-8", key);
  return result;
}

Result<std::string_view> text_or(element value, std::string_view key, std::string_view otherwise) {
  if (!member(value, key)) return otherwise;
  return text(value, key);
}

Result<bool> flag(element value, std::string_view key, bool otherwise) {
  std::optional<element> found = member(value, key);
  if (!found) return otherwise;
  bool result = false;
  if (found->get(result) != simdjson::SUCCESS) return corrupt("'{}' is neither true nor false", key);
  return result;
}

Result<int64_t> integer(element value, std::string_view key, int64_t otherwise) {
  std::optional<element> found = member(value, key);
  if (!found) return otherwise;
  int64_t result = 0;
  if (found->get(result) != simdjson::SUCCESS) return corrupt("'{}' is not a whole number", key);
  return result;
}

Result<array> list(element value, std::string_view key) {
  std::optional<element> found = member(value, key);
  array result;
  if (!found || found->get(result) != simdjson::SUCCESS) return corrupt("'{}' is missing or is not a list", key);
  return result;
}

}  // namespace vernier::json
