#include "models/families.h"
#include "models/read_config.h"
#include "models/read_experts.h"

namespace vernier {
namespace {

constexpr double kSlope = 1.702;  // of the gate's sigmoid; no configuration has a key for it

Result<ExpertsSpec> read_clamped_experts(Config& config, int64_t width) {
  TRY_BIND(ExpertsSpec experts, read_expert_counts(config, {.experts = 128, .chosen = 4}));
  TRY_BIND(double limit, config.number("swiglu_limit", 7.0));
  if (!(limit > 0)) return config_error(config, fmt::format("'swiglu_limit' is {}, expected above 0", limit));
  experts.width = width;
  experts.normalize = true;  // the softmax is over the chosen alone
  experts.gate = {Act::kSilu, static_cast<float>(limit), static_cast<float>(kSlope), 1};
  return experts;
}

}  // namespace

Result<DecoderSpec> read_gpt_oss(Config& config) {
  SizeDefaults defaults;
  if (!config.contains("num_key_value_heads")) defaults.kv_heads = 8;
  defaults.head_dim = 64;
  TRY_BIND(DecoderSizes sizes, read_sizes(config, defaults, false));
  DecoderSpec& spec = sizes.spec;
  TRY_BIND(spec.act, read_act(config, "hidden_act", "silu"));
  if (spec.act != Act::kSilu)
    return config_error(config, "'hidden_act' is not 'silu', which gpt-oss's gate is made of");
  TRY_BIND(bool attention_bias, config.boolean("attention_bias", true));
  spec.qkv_bias = spec.output_bias = attention_bias ? BiasRule::kRequired : BiasRule::kNone;
  spec.router_bias = spec.experts_bias = BiasRule::kRequired;
  AttnSpec attn = sizes.attn;
  attn.sinks = true;
  TRY_BIND(attn.rope, read_rope(config, attn.head_dim, 150000));
  config.ignore({"initial_context_length"});  // the rope has it, too
  TRY_BIND(auto windows, read_alternating_windows(config, sizes.layers, 128));
  TRY_BIND(ExpertsSpec experts, read_clamped_experts(config, sizes.ffn));
  sizes.ffn = 0;
  fill_layers(sizes, attn, windows);
  for (LayerSpec& layer : spec.layers) layer.experts = experts;
  ExpertNames stacked{
      .router = "router", .gate_up = "gate_up_proj", .halves_alternate = true, .dense_are_transposed = true};
  ExpertNames apart{.router = "router"};  // of GGUF files
  spec.expert_names = {stacked, apart};
  return spec;
}

}  // namespace vernier
