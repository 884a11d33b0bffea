#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace vernier {

/// JSON from an untrusted file. Refuses what does not parse, anything after the value, a key that stands twice in one
/// object (whichever is meant, one of the two would be ignored) and nesting deeper than 64.
Result<nlohmann::json> parse_strict_json(std::string_view text);

/// A whole file of it; the path is the error's place.
Result<nlohmann::json> read_strict_json(const std::string& path);

}  // namespace vernier
