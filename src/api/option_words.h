#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "engine/cache_plan.h"
#include "ops/backend.h"
#include "tensor/codec.h"

namespace vernier {

/// The stored type of keys and values: "auto" (nothing: what the checkpoint says), "f32", "f16", "bf16", "fp8",
/// "fp8_e4m3", "fp8_e5m2" and their other names. `option` begins a refusal.
Result<std::optional<CodecId>> parse_cache_type(std::string_view option, std::string_view text);

/// "paged", "split" or "split-roundtrip".
Result<FreshRows> parse_fresh_rows(std::string_view option, std::string_view text);

/// "error", "warn" or "one".
Result<MissingScale> parse_missing_scale(std::string_view option, std::string_view text);

/// "fast" or "exact".
Result<Numerics> parse_numerics(std::string_view option, std::string_view text);

}  // namespace vernier
