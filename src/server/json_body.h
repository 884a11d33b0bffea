#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace vernier {

/// A request's JSON. Keys keep their order, since templates print schemas.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t nesting = 200;
  /// Of one object. logit_bias alone may have more: objects keep their order, and what looks into them searches in it.
  size_t members = 10000;
  size_t key_comparisons = size_t{50} << 20;  ///< of all objects, each key with those before it
};

/// The object that a body must be. A refusal names the byte where reading ended, or `where` a member is named twice.
Result<Json> parse_body(std::string_view text, const JsonLimits& limits = {});

}  // namespace vernier
