#include "models/families.h"
#include "models/read_config.h"

namespace vernier {

Result<DecoderSpec> read_qwen2(Config& config) {
  SizeDefaults defaults;
  if (!config.contains("num_key_value_heads")) defaults.kv_heads = 32;
  TRY_BIND(DecoderSizes sizes, read_sizes(config, defaults, false));
  TRY_BIND(sizes.spec.act, read_act(config, "hidden_act", "silu"));
  sizes.spec.qkv_bias = BiasRule::kRequired;
  TRY_STATUS(require_false(config, "use_mrope", "rope over several axes"));
  AttnSpec attn = sizes.attn;
  TRY_BIND(attn.rope, read_rope(config, attn.head_dim, 10000));
  TRY_BIND(auto windows, read_qwen_windows(config, sizes.layers));
  fill_layers(sizes, attn, windows);
  return sizes.spec;
}

}  // namespace vernier
