#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace vernier::testing {

/// Why the value does not satisfy the schema; empty if it does. Written from the specification (draft 2020-12), for the
/// keywords that the grammar room supports, and from nothing of that room.
std::string validate(const nlohmann::ordered_json& schema, const nlohmann::json& value,
                     const nlohmann::ordered_json& root);

}  // namespace vernier::testing
