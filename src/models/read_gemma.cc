#include "models/read_gemma.h"

#include <cmath>

namespace vernier {

Status read_gemma_parts(Config& config, DecoderSpec& spec) {
  TRY_BIND(spec.act, read_act(config, "hidden_activation", "gelu_pytorch_tanh"));
  config.ignore({"hidden_act"});  // an older alias that the reference does not read
  spec.norm_rule = NormRule::kOnePlus;
  spec.post_norms = true;
  spec.embed_scale = std::sqrt(static_cast<float>(spec.hidden));
  TRY_BIND(bool attention_bias, config.boolean("attention_bias", false));
  spec.qkv_bias = spec.output_bias = attention_bias ? BiasRule::kRequired : BiasRule::kNone;
  return require_false(config, "use_bidirectional_attention", "attention to later tokens");
}

Result<float> read_gemma_scale(Config& config) {
  TRY_BIND(double scalar, config.number("query_pre_attn_scalar", 256));
  if (!(scalar > 0) || !std::isnormal(static_cast<float>(1.0 / std::sqrt(scalar)))) {
    return config_error(config, fmt::format("'query_pre_attn_scalar' is {}, expected a positive number", scalar));
  }
  return static_cast<float>(1.0 / std::sqrt(scalar));
}

}  // namespace vernier
