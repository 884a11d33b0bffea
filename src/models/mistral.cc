#include "models/families.h"
#include "models/read_config.h"

namespace vernier {

Result<DecoderSpec> read_mistral(Config& config) {
  SizeDefaults defaults;
  if (!config.contains("num_key_value_heads")) defaults.kv_heads = 8;
  TRY_BIND(DecoderSizes sizes, read_sizes(config, defaults, false));
  TRY_BIND(sizes.spec.act, read_act(config, "hidden_act", "silu"));
  TRY_STATUS(require_false(config, "attention_bias", "a bias in Mistral's attention"));
  AttnSpec attn = sizes.attn;
  TRY_BIND(attn.rope, read_rope(config, attn.head_dim, 10000));
  TRY_BIND(std::optional<int> window, read_window(config, 4096));
  fill_layers(sizes, attn, std::vector(static_cast<size_t>(sizes.layers), window));
  return sizes.spec;
}

}  // namespace vernier
