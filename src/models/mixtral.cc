#include "models/families.h"
#include "models/read_config.h"
#include "models/read_experts.h"

namespace vernier {

Result<DecoderSpec> read_mixtral(Config& config) {
  SizeDefaults defaults;
  if (!config.contains("num_key_value_heads")) defaults.kv_heads = 8;
  TRY_BIND(DecoderSizes sizes, read_sizes(config, defaults, false));
  DecoderSpec& spec = sizes.spec;
  TRY_BIND(spec.act, read_act(config, "hidden_act", "silu"));
  TRY_STATUS(require_false(config, "attention_bias", "a bias in Mixtral's attention"));
  AttnSpec attn = sizes.attn;
  TRY_BIND(attn.rope, read_rope(config, attn.head_dim, 1e6));
  TRY_BIND(attn.window, read_window(config, std::nullopt));
  TRY_BIND(ExpertsSpec experts, read_expert_counts(config, {.experts = 8, .chosen = 2}));
  experts.width = sizes.ffn;
  experts.normalize = true;
  experts.gate.act = spec.act;
  ExpertNames first{.block = "block_sparse_moe", .gate = "w1", .up = "w3", .down = "w2"};
  spec.expert_names = usual_expert_names();
  spec.expert_names.insert(spec.expert_names.begin(), first);
  spec.layers.assign(static_cast<size_t>(sizes.layers), LayerSpec{attn, 0, experts});
  return spec;
}

}  // namespace vernier
