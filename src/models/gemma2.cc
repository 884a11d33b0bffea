#include <cmath>

#include "models/families.h"
#include "models/read_config.h"

namespace vernier {
namespace {

/// Null turns a cap off; an absent key has the family's.
Result<float> read_cap(Config& config, std::string_view key, double fallback) {
  TRY_BIND(double cap, config.number(key, config.contains(key) ? 0 : fallback));
  if (cap < 0) return config_error(config, fmt::format("'{}' is {}, expected 0 or more", key, cap));
  return static_cast<float>(cap);
}

}  // namespace

Result<DecoderSpec> read_gemma2(Config& config) {
  SizeDefaults defaults;
  if (!config.contains("num_key_value_heads")) defaults.kv_heads = 4;
  defaults.head_dim = 256;
  TRY_BIND(DecoderSizes sizes, read_sizes(config, defaults, true));
  DecoderSpec& spec = sizes.spec;
  TRY_BIND(spec.act, read_act(config, "hidden_activation", "gelu_pytorch_tanh"));
  config.ignore({"hidden_act"});  // an older alias that the reference does not read
  spec.norm_rule = NormRule::kOnePlus;
  spec.post_norms = true;
  spec.embed_scale = std::sqrt(static_cast<float>(spec.hidden));
  TRY_BIND(bool attention_bias, config.boolean("attention_bias", false));
  spec.qkv_bias = spec.output_bias = attention_bias ? BiasRule::kRequired : BiasRule::kNone;
  TRY_STATUS(require_false(config, "use_bidirectional_attention", "attention to later tokens"));
  TRY_BIND(spec.final_soft_cap, read_cap(config, "final_logit_softcapping", 30));

  AttnSpec attn = sizes.attn;
  TRY_BIND(attn.soft_cap, read_cap(config, "attn_logit_softcapping", 50));
  TRY_BIND(double scalar, config.number("query_pre_attn_scalar", 256));
  if (!(scalar > 0) || !std::isnormal(static_cast<float>(1.0 / std::sqrt(scalar)))) {
    return config_error(config, fmt::format("'query_pre_attn_scalar' is {}, expected a positive number", scalar));
  }
  attn.scale = static_cast<float>(1.0 / std::sqrt(scalar));
  TRY_BIND(attn.rope, read_rope(config, attn.head_dim, 10000));
  TRY_BIND(auto windows, read_alternating_windows(config, sizes.layers, 4096));
  fill_layers(sizes, attn, windows);
  return spec;
}

}  // namespace vernier
