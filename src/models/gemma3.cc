#include <cmath>
#include <string>
#include <utility>

#include "models/families.h"
#include "models/read_config.h"
#include "models/read_gemma.h"

namespace vernier {
namespace {

using Json = nlohmann::json;

constexpr double kFullBase = 1e6;
constexpr double kSlidingBase = 1e4;

struct RopePair {
  RopeSpec full, sliding;
};

/// The newer spelling has settings for each layer type; the older has `rope_theta` with `rope_scaling` for full layers
/// and `rope_local_base_freq`, never scaled, for sliding ones. A flat `rope_parameters` is about full layers, too.
Result<RopePair> read_ropes(Config& config, int head_dim) {
  TRY_BIND(double local_base, config.number("rope_local_base_freq", kSlidingBase));
  if (!(local_base > 0) || !std::isnormal(static_cast<float>(local_base))) {
    return config_error(config, fmt::format("'rope_local_base_freq' is {}, expected a positive number", local_base));
  }
  RopePair ropes;
  ropes.sliding.base = local_base;
  ropes.sliding.dim = head_dim;
  const Json& parameters = config.raw("rope_parameters");
  if (!parameters.is_object() ||
      (!parameters.contains("full_attention") && !parameters.contains("sliding_attention"))) {
    TRY_BIND(ropes.full, read_rope(config, head_dim, kFullBase));
    return ropes;
  }
  const std::string where = config.where() + ": rope_parameters";
  Config by_type(parameters, where);
  TRY_BIND(double max_positions, config.number("max_position_embeddings", 0));
  TRY_BIND(ropes.full,
           parse_rope(by_type.raw("full_attention"), where + ": full_attention", {head_dim, kFullBase, max_positions}));
  TRY_BIND(ropes.sliding, parse_rope(by_type.raw("sliding_attention"), where + ": sliding_attention",
                                     {head_dim, local_base, max_positions}));
  TRY_STATUS(by_type.finish());
  auto conflict = [&](const char* key, const RopeSpec& rope) {
    return config_error(config, fmt::format("'{}' disagrees with 'rope_parameters', which asks for {}; remove the "
                                            "wrong one",
                                            key, rope.to_string()));
  };
  if (config.has("rope_local_base_freq") && ropes.sliding.base != local_base) {
    return conflict("rope_local_base_freq", ropes.sliding);
  }
  if (config.has("rope_theta")) {
    TRY_BIND(double base, config.number("rope_theta"));
    if (base != ropes.full.base) return conflict("rope_theta", ropes.full);
  }
  if (config.has("rope_scaling")) {
    TRY_BIND(RopeSpec older, parse_rope(config.raw("rope_scaling"), config.where() + ": rope_scaling",
                                        {head_dim, ropes.full.base, max_positions}));
    if (older.frequencies() != ropes.full.frequencies() || older.magnitude() != ropes.full.magnitude())
      return conflict("rope_scaling", ropes.full);
  }
  config.ignore({"rope_theta", "rope_scaling"});
  return ropes;
}

/// One full layer after each `pattern - 1` sliding ones, unless `layer_types` says otherwise.
Result<std::vector<bool>> read_sliding_layers(Config& config, int64_t layers) {
  TRY_BIND(std::vector<bool> types, read_layer_types(config, layers));
  const char* key = config.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  TRY_BIND(int64_t pattern, config.integer(key, 6));
  config.ignore({"sliding_window_pattern", "_sliding_window_pattern"});
  if (pattern < 1) return config_error(config, fmt::format("'{}' is {}, expected 1 or more", key, pattern));
  if (!types.empty()) return types;
  std::vector<bool> slides;
  for (int64_t layer = 0; layer < layers; ++layer) slides.push_back((layer + 1) % pattern != 0);
  return slides;
}

Result<DecoderSpec> read_text(Config& config) {
  SizeDefaults defaults;
  defaults.vocab = 262208;
  defaults.hidden = 2304;
  defaults.ffn = 9216;
  defaults.layers = 26;
  defaults.heads = 8;
  if (!config.contains("num_key_value_heads")) defaults.kv_heads = 4;
  defaults.head_dim = 256;
  defaults.max_positions = 131072;
  TRY_BIND(DecoderSizes sizes, read_sizes(config, defaults, true));
  DecoderSpec& spec = sizes.spec;
  TRY_STATUS(read_gemma_parts(config, spec));
  if (config.has("attn_logit_softcapping")) {
    return config_error(config, "'attn_logit_softcapping' is set; Gemma 3 has none, remove it or name the right model");
  }
  config.ignore({"attn_logit_softcapping"});
  TRY_BIND(double cap, config.number("final_logit_softcapping", 0));
  if (cap < 0) return config_error(config, fmt::format("'final_logit_softcapping' is {}, expected above 0", cap));
  spec.final_soft_cap = static_cast<float>(cap);

  AttnSpec attn = sizes.attn;
  attn.qk_norm = true;
  TRY_BIND(attn.scale, read_gemma_scale(config));
  TRY_BIND(RopePair ropes, read_ropes(config, attn.head_dim));
  TRY_BIND(std::vector<bool> slides, read_sliding_layers(config, sizes.layers));
  TRY_BIND(std::optional<int> window, read_window(config, 4096));
  for (bool sliding : slides) {
    if (sliding && !window) return config_error(config, "layers slide, and 'sliding_window' is null");
    LayerSpec layer{attn, sizes.ffn};
    layer.attn.rope = sliding ? ropes.sliding : ropes.full;
    if (sliding) layer.attn.window = window;
    spec.layers.push_back(std::move(layer));
  }
  return spec;
}

/// Fine-tuning tools write text keys on both levels: what the nested one leaves out, or has as null, is the outer
/// one's. Two that disagree stop the load, but for how numbers were stored.
Status merge_levels(Config& config, Json& text) {
  for (const char* key : {"tie_word_embeddings",
                          "vocab_size",
                          "torch_dtype",
                          "dtype",
                          "hidden_size",
                          "intermediate_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "num_key_value_heads",
                          "head_dim",
                          "max_position_embeddings",
                          "rms_norm_eps",
                          "rope_theta",
                          "rope_local_base_freq",
                          "rope_scaling",
                          "rope_parameters",
                          "sliding_window",
                          "sliding_window_pattern",
                          "layer_types",
                          "query_pre_attn_scalar",
                          "hidden_activation",
                          "attention_bias",
                          "final_logit_softcapping",
                          "attn_logit_softcapping"}) {
    const Json& outer = config.raw(key);  // which is read by that, whoever wins
    if (outer.is_null()) continue;
    Json& own = text[key];
    if (own.is_null()) own = outer;
    const bool tells_arithmetic = std::string_view(key).find("dtype") == std::string_view::npos;
    if (own == outer || !tells_arithmetic) continue;
    return config_error(config, fmt::format("'{}' is {}, and {} in 'text_config'; remove the wrong one", key,
                                            outer.dump(-1, ' ', true), own.dump(-1, ' ', true)));
  }
  return {};
}

}  // namespace

Result<DecoderSpec> read_gemma3_text(Config& config) {
  return read_text(config);
}

Result<DecoderSpec> read_gemma3(Config& config) {
  Json text = config.raw("text_config");
  if (!text.is_object()) {
    return config_error(config, "'text_config' is missing; the text model of Gemma 3 is described there");
  }
  TRY_STATUS(merge_levels(config, text));
  // The picture side: text alone is served, and its weights are left where they are.
  config.ignore({"architectures",     "model_type",           "vision_config",     "mm_tokens_per_image",
                 "image_token_index", "image_token_id",       "boi_token_index",   "eoi_token_index",
                 "boi_token_id",      "eoi_token_id",         "bos_token_id",      "eos_token_id",
                 "pad_token_id",      "transformers_version", "initializer_range", "_name_or_path",
                 "unsloth_fixed",     "unsloth_version",      "use_cache",         "auto_map"});
  Config nested(std::move(text), config.where() + ": text_config");
  TRY_BIND(DecoderSpec spec, read_text(nested));
  TRY_STATUS(nested.finish());
  spec.prefix = "model.language_model.";
  spec.other = {"language_model.model.", "model."};
  return spec;
}

}  // namespace vernier
