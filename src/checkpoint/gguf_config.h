#pragma once

#include <nlohmann/json.hpp>

#include "checkpoint/gguf_names.h"
#include "checkpoint/gguf_parts.h"

namespace vernier {

/// The Hugging Face configuration that a GGUF model's metadata stand for. What the file leaves out is filled in where
/// its makers' converter fixes it (Gemma 3: the base of local rope, five local layers to a global one) and is an error
/// elsewhere. A key of the architecture that nobody reads is an error that names it; so are a size that the tensors
/// contradict and an architecture that is not understood.
Result<nlohmann::json> gguf_config(const GgufParts& parts);

/// The per-pair divisors of rope frequencies; a tensor that belongs to the configuration.
inline constexpr std::string_view kRopeFactorsTensor = "rope_freqs.weight";

}  // namespace vernier
