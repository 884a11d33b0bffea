#include <algorithm>

#include "models/families.h"
#include "models/read_config.h"
#include "models/read_experts.h"

namespace vernier {
namespace {

/// Which layers have experts: each `decoder_sparse_step`-th but for those of `mlp_only_layers`.
Result<std::vector<bool>> read_sparse_layers(Config& config, int64_t layers) {
  TRY_BIND(int64_t step, read_at_least(config, "decoder_sparse_step", 1, 1));
  std::vector<bool> sparse;
  for (int64_t layer = 0; layer < layers; ++layer) sparse.push_back((layer + 1) % step == 0);
  const nlohmann::json& dense = config.raw("mlp_only_layers");
  if (dense.is_null()) return sparse;
  if (!dense.is_array()) return config_error(config, "'mlp_only_layers' is no list of layers");
  for (const nlohmann::json& layer : dense) {
    const int64_t index = layer.is_number_integer() ? layer.get<int64_t>() : -1;
    if (index < 0 || index >= layers) {
      return config_error(config, fmt::format("'mlp_only_layers' names {}, expected layers 0 to {}",
                                              layer.dump(-1, ' ', true), layers - 1));
    }
    sparse[static_cast<size_t>(index)] = false;
  }
  return sparse;
}

}  // namespace

Result<DecoderSpec> read_qwen3_moe(Config& config) {
  SizeDefaults defaults;
  if (!config.contains("num_key_value_heads")) defaults.kv_heads = 4;
  TRY_BIND(DecoderSizes sizes, read_sizes(config, defaults, false));
  DecoderSpec& spec = sizes.spec;
  TRY_BIND(spec.act, read_act(config, "hidden_act", "silu"));
  TRY_BIND(bool attention_bias, config.boolean("attention_bias", false));
  spec.qkv_bias = spec.output_bias = attention_bias ? BiasRule::kRequired : BiasRule::kNone;
  AttnSpec attn = sizes.attn;
  attn.qk_norm = true;
  TRY_BIND(attn.rope, read_rope(config, attn.head_dim, 10000));
  TRY_BIND(auto windows, read_qwen_windows(config, sizes.layers));
  TRY_BIND(ExpertsSpec experts, read_expert_counts(config, {.experts = 128, .chosen = 8}));
  TRY_BIND(experts.width, read_at_least(config, "moe_intermediate_size", 768, 1));
  TRY_BIND(experts.normalize, config.boolean("norm_topk_prob", false));
  experts.gate.act = spec.act;
  TRY_BIND(std::vector<bool> sparse, read_sparse_layers(config, sizes.layers));
  fill_layers(sizes, attn, windows);
  for (size_t layer = 0; layer < sparse.size(); ++layer) {
    if (!sparse[layer]) continue;
    spec.layers[layer].experts = experts;
    spec.layers[layer].ffn = 0;
  }
  spec.expert_names = usual_expert_names();
  return spec;
}

}  // namespace vernier
