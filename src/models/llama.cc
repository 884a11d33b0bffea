#include "models/families.h"
#include "models/read_config.h"

namespace vernier {

Result<DecoderSpec> read_llama(Config& config) {
  TRY_BIND(DecoderSizes sizes, read_sizes(config, {}, false));
  TRY_BIND(sizes.spec.act, read_act(config, "hidden_act", "silu"));
  TRY_BIND(bool attention_bias, config.boolean("attention_bias", false));
  TRY_BIND(bool ffn_bias, config.boolean("mlp_bias", false));
  sizes.spec.qkv_bias = sizes.spec.output_bias = attention_bias ? BiasRule::kRequired : BiasRule::kNone;
  sizes.spec.ffn_bias = ffn_bias ? BiasRule::kRequired : BiasRule::kNone;
  TRY_STATUS(require_false(config, "rope_interleaved", "rope over neighbouring numbers"));
  AttnSpec attn = sizes.attn;
  TRY_BIND(attn.rope, read_rope(config, attn.head_dim, 10000));
  fill_layers(sizes, attn, std::vector<std::optional<int>>(static_cast<size_t>(sizes.layers)));
  return sizes.spec;
}

}  // namespace vernier
