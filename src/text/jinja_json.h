#pragma once

#include <nlohmann/json.hpp>

#include "text/jinja_strings.h"

namespace vernier::jinja {

/// The value of parsed JSON. `marked`: its texts, keys too, came from a caller.
Value from_json(Heap& heap, const nlohmann::ordered_json& json, bool marked, uint32_t depth = 0);

}  // namespace vernier::jinja
