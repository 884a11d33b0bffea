#include <cmath>

#include "models/families.h"
#include "models/read_config.h"

namespace vernier {
namespace {

/// A head's numbers lie on the stack of the kernels that read them.
constexpr int64_t kMostHeadNumbers = 1024;

Result<Act> read_bert_act(Config& config) {
  TRY_BIND(std::string name, config.text("hidden_act", "gelu"));
  if (name == "gelu") return Act::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Act::kGeluTanh;
  if (name == "silu" || name == "swish") return Act::kSilu;
  return config_error(config,
                      fmt::format("'hidden_act' is '{}', expected gelu, gelu_new, gelu_pytorch_tanh or silu", name));
}

/// What makes another model of it than an encoder with a table of positions.
Status refuse_variants(Config& config) {
  TRY_STATUS(require_false(config, "is_decoder", "BERT as a decoder"));
  TRY_STATUS(require_false(config, "add_cross_attention", "cross attention"));
  TRY_BIND(std::string positions, config.text("position_embedding_type", "absolute"));
  if (positions == "absolute") return {};
  return Error{ErrorCode::kUnsupported,
               fmt::format("'position_embedding_type' is '{}', expected 'absolute'", positions), config.where()};
}

}  // namespace

Result<EncoderSpec> read_bert(Config& config) {
  TRY_STATUS(refuse_variants(config));
  ignore_harmless(config);
  // Dropout acts in training; the pooler is not run.
  config.ignore({"attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout", "tie_word_embeddings"});
  config.ignore({"pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head"});
  config.ignore({"pooler_type", "directionality", "gradient_checkpointing", "encoder_width"});
  EncoderSpec spec;
  TRY_BIND(spec.vocab, read_size(config, {"vocab_size", 30522, kMostColumns}));
  TRY_BIND(spec.hidden, read_size(config, {"hidden_size", 768, kMostColumns}));
  TRY_BIND(spec.ffn, read_size(config, {"intermediate_size", 3072, kMostColumns}));
  TRY_BIND(spec.layers, read_size(config, {"num_hidden_layers", 12, kMostLayers}));
  TRY_BIND(spec.max_positions, read_size(config, {"max_position_embeddings", 512, kMostColumns}));
  TRY_BIND(spec.token_types, read_size(config, {"type_vocab_size", 2, kMostColumns}));
  TRY_BIND(int64_t heads, read_size(config, {"num_attention_heads", 12, kMostHeads}));
  if (spec.hidden % heads != 0 || spec.hidden / heads > kMostHeadNumbers) {
    return config_error(config, fmt::format("'hidden_size' {} over 'num_attention_heads' {}: expected a multiple, and "
                                            "at most {} numbers in a head",
                                            spec.hidden, heads, kMostHeadNumbers));
  }
  TRY_BIND(double eps, config.number("layer_norm_eps", 1e-12));
  if (eps < 0 || eps > 1) return config_error(config, fmt::format("'layer_norm_eps' is {}, expected 0 to 1", eps));
  spec.norm_eps = static_cast<float>(eps);
  TRY_BIND(spec.act, read_bert_act(config));
  spec.attn.heads = spec.attn.kv_heads = static_cast<int>(heads);
  spec.attn.head_dim = static_cast<int>(spec.hidden / heads);
  spec.attn.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.attn.head_dim)));
  spec.attn.causal = false;
  return spec;
}

}  // namespace vernier
