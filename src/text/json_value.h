#pragma once

#include <simdjson.h>

#include <optional>
#include <string_view>

#include "base/result.h"

namespace vernier::json {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

/// The member, or nothing where it is absent or null.
inline std::optional<element> member(element value, std::string_view key) {
  element found;
  if (!value.is_object() || value[key].get(found) != simdjson::SUCCESS || found.is_null()) return std::nullopt;
  return found;
}

Result<std::string_view> text(element value, std::string_view key);
Result<std::string_view> text_or(element value, std::string_view key, std::string_view otherwise);
Result<bool> flag(element value, std::string_view key, bool otherwise);
Result<int64_t> integer(element value, std::string_view key, int64_t otherwise);
Result<array> list(element value, std::string_view key);

}  // namespace vernier::json
