#pragma once

#include "ops/attn_spec.h"
#include "ops/config.h"

namespace vernier {

/// Sizes of attention over compressed rows, under the keys that DeepSeek gave them.
Result<LatentSpec> read_latent(Config& config);
/// Attention over such rows, of as many heads as `attn` has: with rope, of `rope_base` where the configuration names
/// none, and YaRN's growth of scores.
Result<AttnSpec> read_latent_attention(Config& config, AttnSpec attn, const LatentSpec& latent, double rope_base);

}  // namespace vernier
