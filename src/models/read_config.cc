#include "models/read_config.h"

#include <cmath>
#include <limits>
#include <utility>

namespace vernier {
namespace {

/// Where it came from, and what only training and memory keeping read.
void ignore_origin(Config& config) {
  config.ignore({"architectures", "model_type", "transformers_version", "_name_or_path", "torch_dtype", "dtype"});
  config.ignore({"auto_map", "attn_implementation", "_attn_implementation", "_attn_implementation_autoset"});
  config.ignore({"transformers.js_config", "unsloth_fixed", "unsloth_version", "is_llama_config"});
  config.ignore({"use_cache", "cache_implementation", "initializer_range", "attention_dropout", "hidden_dropout"});
  config.ignore({"pretraining_tp", "chunk_size_feed_forward", "gradient_checkpointing", "use_bfloat16"});
}

/// Token ids and what classification heads, encoders and output options use.
void ignore_tasks(Config& config) {
  config.ignore({"bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id"});
  config.ignore({"tokenizer_class", "prefix", "task_specific_params", "finetuning_task", "problem_type"});
  config.ignore({"id2label", "label2id", "num_labels", "return_dict", "output_attentions", "output_hidden_states"});
  config.ignore({"torchscript", "tf_legacy_loss", "is_encoder_decoder", "is_decoder", "tie_encoder_decoder"});
}

/// Sampling and search settings that older configurations carry; requests bring their own.
void ignore_generation(Config& config) {
  config.ignore({"max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups"});
  config.ignore({"diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty"});
  config.ignore({"length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids"});
  config.ignore({"num_return_sequences", "output_scores", "return_dict_in_generate", "forced_bos_token_id"});
  config.ignore({"forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty"});
  config.ignore({"suppress_tokens", "begin_suppress_tokens"});
}

}  // namespace

Error config_error(const Config& config, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), config.where()};
}

Result<int64_t> read_size(Config& config, const ConfigSize& size) {
  int64_t value = 0;
  if (size.fallback) {
    TRY_BIND(value, config.integer(size.key, *size.fallback));
  } else {
    TRY_BIND(value, config.integer(size.key));
  }
  if (value < 1 || value > size.most) {
    return config_error(config, fmt::format("'{}' is {}, expected 1 to {}", size.key, value, size.most));
  }
  return value;
}

void ignore_harmless(Config& config) {
  ignore_origin(config);
  ignore_tasks(config);
  ignore_generation(config);
}

Result<DecoderSizes> read_sizes(Config& config, const SizeDefaults& defaults, bool tied_by_default) {
  ignore_harmless(config);
  DecoderSizes sizes;
  DecoderSpec& spec = sizes.spec;
  TRY_BIND(spec.family, config.text("model_type", "?"));
  TRY_BIND(spec.vocab, read_size(config, {"vocab_size", defaults.vocab, kMostColumns}));
  TRY_BIND(spec.hidden, read_size(config, {"hidden_size", defaults.hidden, kMostColumns}));
  TRY_BIND(sizes.ffn, read_size(config, {"intermediate_size", defaults.ffn, kMostColumns}));
  TRY_BIND(sizes.layers, read_size(config, {"num_hidden_layers", defaults.layers, kMostLayers}));
  TRY_BIND(spec.max_positions, read_size(config, {"max_position_embeddings", defaults.max_positions, kMostPositions}));
  TRY_BIND(int64_t heads, read_size(config, {"num_attention_heads", defaults.heads, kMostHeads}));
  int64_t kv_fallback = defaults.kv_heads.value_or(heads);
  TRY_BIND(int64_t kv_heads, read_size(config, {"num_key_value_heads", kv_fallback, kMostHeads}));
  if (heads % kv_heads != 0) {
    return config_error(config, fmt::format("'num_key_value_heads' is {}, expected a divisor of "
                                            "'num_attention_heads', {}",
                                            kv_heads, heads));
  }
  if (!config.has("head_dim") && !defaults.head_dim && spec.hidden % heads != 0) {
    return config_error(config, fmt::format("'hidden_size' {} is no multiple of 'num_attention_heads' {}, and there is "
                                            "no 'head_dim'",
                                            spec.hidden, heads));
  }
  int64_t dim_fallback = defaults.head_dim.value_or(std::max<int64_t>(1, spec.hidden / heads));
  TRY_BIND(int64_t head_dim, read_size(config, {"head_dim", dim_fallback, kMostHeadDim}));
  if (head_dim % 2 != 0) {
    return config_error(config,
                        fmt::format("a head has {} numbers; rope rotates pairs, so expected an even count", head_dim));
  }
  TRY_BIND(double eps, config.number("rms_norm_eps", 1e-6));
  if (eps < 0 || eps > 1) return config_error(config, fmt::format("'rms_norm_eps' is {}, expected 0 to 1", eps));
  spec.norm_eps = static_cast<float>(eps);
  TRY_BIND(spec.tied, config.boolean("tie_word_embeddings", tied_by_default));
  // Pruning removes heads from single layers; the usual value is an empty list.
  if (const auto& pruned = config.raw("pruned_heads"); !pruned.empty()) {
    return config_error(config, "'pruned_heads' is not empty; models with removed heads are not supported");
  }
  sizes.attn.heads = static_cast<int>(heads);
  sizes.attn.kv_heads = static_cast<int>(kv_heads);
  sizes.attn.head_dim = static_cast<int>(head_dim);
  sizes.attn.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
  return sizes;
}

Result<Act> read_act(Config& config, std::string_view key, std::string_view fallback) {
  TRY_BIND(std::string name, config.text(key, std::string(fallback)));
  if (name == "silu") return Act::kSilu;
  if (name == "gelu_pytorch_tanh") return Act::kGeluTanh;
  return config_error(config, fmt::format("'{}' is '{}', expected 'silu' or 'gelu_pytorch_tanh'", key, name));
}

Result<std::vector<bool>> read_layer_types(Config& config, int64_t layers) {
  const nlohmann::json& types = config.raw("layer_types");
  if (types.is_null()) return std::vector<bool>();
  if (!types.is_array() || types.size() != static_cast<size_t>(layers)) {
    return config_error(config, fmt::format("'layer_types' has {} entries, expected one for each of {} layers",
                                            types.is_array() ? types.size() : 0, layers));
  }
  std::vector<bool> slides;
  for (const nlohmann::json& type : types) {
    if (type != "sliding_attention" && type != "full_attention") {
      return config_error(config, fmt::format("'layer_types' names {}, expected \"sliding_attention\" or "
                                              "\"full_attention\"",
                                              type.dump(-1, ' ', true)));
    }
    slides.push_back(type == "sliding_attention");
  }
  return slides;
}

Result<std::optional<int>> read_window(Config& config, std::optional<int64_t> fallback) {
  // Null turns the window off; only a key that is absent takes the family's default.
  bool absent = !config.contains("sliding_window");
  TRY_BIND(std::optional<int64_t> window, config.optional_integer("sliding_window"));
  if (!window && absent) window = fallback;
  if (!window) return std::optional<int>();
  if (*window < 1 || *window > std::numeric_limits<int32_t>::max()) {
    return config_error(config,
                        fmt::format("'sliding_window' is {}, expected a positive number of tokens or null", *window));
  }
  return std::optional<int>(static_cast<int>(*window));
}

Result<std::vector<std::optional<int>>> read_qwen_windows(Config& config, int64_t layers) {
  TRY_BIND(bool use, config.boolean("use_sliding_window", false));
  TRY_BIND(std::optional<int> window, read_window(config, 4096));
  TRY_BIND(int64_t full_layers, config.integer("max_window_layers", 28));
  TRY_BIND(std::vector<bool> types, read_layer_types(config, layers));
  if (!use) window.reset();
  std::vector<std::optional<int>> windows;
  for (int64_t layer = 0; layer < layers; ++layer) {
    bool slides = !types.empty() ? types[static_cast<size_t>(layer)] : window.has_value() && layer >= full_layers;
    if (slides && !window) {
      return config_error(config, fmt::format("layer {} is of type 'sliding_attention', and 'use_sliding_window' and "
                                              "'sliding_window' give no window",
                                              layer));
    }
    windows.push_back(slides ? window : std::nullopt);
  }
  return windows;
}

Result<std::vector<std::optional<int>>> read_alternating_windows(Config& config, int64_t layers, int64_t fallback) {
  TRY_BIND(std::vector<bool> slides, read_layer_types(config, layers));
  TRY_BIND(std::optional<int> window, read_window(config, fallback));
  for (auto layer = static_cast<int64_t>(slides.size()); layer < layers; ++layer) slides.push_back(layer % 2 == 0);
  std::vector<std::optional<int>> windows;
  for (bool sliding : slides) {
    if (sliding && !window) return config_error(config, "layers slide, and 'sliding_window' is null");
    windows.push_back(sliding ? window : std::nullopt);
  }
  return windows;
}

Status require_false(Config& config, std::string_view key, std::string_view why) {
  TRY_BIND(bool value, config.boolean(key, false));
  if (!value) return {};
  return Error{ErrorCode::kUnsupported, fmt::format("'{}' is true: {} is not built yet", key, why), config.where()};
}

void fill_layers(DecoderSizes& sizes, const AttnSpec& attn, const std::vector<std::optional<int>>& windows) {
  for (const std::optional<int>& window : windows) {
    LayerSpec layer{attn, sizes.ffn};
    layer.attn.window = window;
    sizes.spec.layers.push_back(std::move(layer));
  }
}

}  // namespace vernier
