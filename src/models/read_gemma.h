#pragma once

#include "models/read_config.h"

namespace vernier {

/// What every Gemma has: its activation, norms of 1 + w before and after each branch, scaled embeddings, optional
/// biases.
Status read_gemma_parts(Config& config, DecoderSpec& spec);
/// 1 / sqrt(query_pre_attn_scalar).
Result<float> read_gemma_scale(Config& config);

}  // namespace vernier
