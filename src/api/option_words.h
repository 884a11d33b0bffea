#pragma once

#include <string_view>

#include "base/result.h"
#include "ops/backend.h"
#include "tensor/codec.h"

namespace vernier {

/// The stored type of keys and values: "auto", "f32", "f16", "bf16" and their long names. `option` begins a refusal.
Result<CodecId> parse_cache_type(std::string_view option, std::string_view text);

/// "fast" or "exact".
Result<Numerics> parse_numerics(std::string_view option, std::string_view text);

}  // namespace vernier
