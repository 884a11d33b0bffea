#include "models/families.h"
#include "models/read_config.h"

namespace vernier {

Result<DecoderSpec> read_qwen3(Config& config) {
  SizeDefaults defaults;
  if (!config.contains("num_key_value_heads")) defaults.kv_heads = 32;
  defaults.head_dim = 128;
  TRY_BIND(DecoderSizes sizes, read_sizes(config, defaults, false));
  TRY_BIND(sizes.spec.act, read_act(config, "hidden_act", "silu"));
  TRY_BIND(bool attention_bias, config.boolean("attention_bias", false));
  sizes.spec.qkv_bias = sizes.spec.output_bias = attention_bias ? BiasRule::kRequired : BiasRule::kNone;
  AttnSpec attn = sizes.attn;
  attn.qk_norm = true;
  TRY_BIND(attn.rope, read_rope(config, attn.head_dim, 10000));
  TRY_BIND(auto windows, read_qwen_windows(config, sizes.layers));
  fill_layers(sizes, attn, windows);
  return sizes.spec;
}

}  // namespace vernier
