#include <cmath>

#include "models/families.h"
#include "models/read_config.h"
#include "models/read_experts.h"
#include "models/read_latent.h"

namespace vernier {
namespace {

constexpr int64_t kTogether = 2;  // attentions, and dense feed-forward parts, of a stored layer

/// Layers are counted as the checkpoint stores them; `num_hidden_layers` counts either those or attentions.
Result<DecoderSizes> read_longcat_sizes(Config& config) {
  SizeDefaults defaults;
  TRY_BIND(int64_t stored, read_size(config, {"num_layers", std::nullopt, kMostLayers / kTogether}));
  TRY_BIND(defaults.ffn, read_size(config, {"ffn_hidden_size", std::nullopt, kMostColumns}));
  defaults.head_dim = 2;  // latent attention has sizes of its own
  defaults.layers = kTogether * stored;
  TRY_BIND(DecoderSizes sizes, read_sizes(config, defaults, false));
  if (sizes.layers != stored && sizes.layers != kTogether * stored) {
    return config_error(config, fmt::format("'num_hidden_layers' is {}, expected 'num_layers', {}, or the number of "
                                            "attentions, {}",
                                            sizes.layers, stored, kTogether * stored));
  }
  if (sizes.ffn != *defaults.ffn) {
    return config_error(config,
                        fmt::format("'ffn_hidden_size' is {} and 'intermediate_size' is {}; remove the wrong one",
                                    *defaults.ffn, sizes.ffn));
  }
  sizes.layers = kTogether * stored;
  return sizes;
}

/// Queries and compressed rows grow as if their ranks were the model's width.
Result<AttnSpec> read_longcat_attention(Config& config, const DecoderSizes& sizes) {
  TRY_STATUS(require_false(config, "attention_bias", "a bias in latent attention"));
  TRY_BIND(std::string method, config.text("attention_method", "MLA"));
  if (method != "MLA") return config_error(config, fmt::format("'attention_method' is '{}', expected 'MLA'", method));
  TRY_BIND(LatentSpec latent, read_latent(config));
  TRY_BIND(bool grow_queries, config.boolean("mla_scale_q_lora", true));
  TRY_BIND(bool grow_rows, config.boolean("mla_scale_kv_lora", true));
  const auto hidden = static_cast<double>(sizes.spec.hidden);
  if (grow_rows) latent.norm_scale = static_cast<float>(std::sqrt(hidden / latent.rank));
  TRY_BIND(AttnSpec attn, read_latent_attention(config, sizes.attn, latent, 1e7));
  if (grow_queries && latent.q_rank > 0) attn.scale *= static_cast<float>(std::sqrt(hidden / latent.q_rank));
  return attn;
}

/// The last experts of a router are the identity.
Result<ExpertsSpec> read_longcat_experts(Config& config) {
  config.ignore({"params_dtype", "router_dtype", "rounter_params_dtype"});  // precisions of training
  TRY_STATUS(require_false(config, "router_bias", "a bias of the router, on which implementations disagree,"));
  TRY_BIND(int64_t identity, read_at_least(config, "zero_expert_num", std::nullopt, 0));
  TRY_BIND(std::string kind, config.text("zero_expert_type", "identity"));
  if (kind != "identity") {
    return config_error(config, fmt::format("'zero_expert_type' is '{}', expected 'identity'", kind));
  }
  TRY_BIND(int64_t weighted, read_size(config, {"n_routed_experts", std::nullopt, kMostRoutedExperts}));
  TRY_BIND(int64_t chosen, read_at_least(config, "moe_topk", std::nullopt, 1));
  if (identity > kMostRoutedExperts || chosen > weighted + identity) {
    return config_error(config, fmt::format("each row meets {} of {} experts and {} that are the identity; expected no "
                                            "more than there are",
                                            chosen, weighted, identity));
  }
  ExpertsSpec experts;
  experts.experts = static_cast<int>(weighted + identity);
  experts.identity = static_cast<int>(identity);
  experts.chosen = static_cast<int>(chosen);
  TRY_BIND(experts.width, read_at_least(config, "expert_ffn_hidden_size", std::nullopt, 1));
  TRY_BIND(experts.normalize, config.boolean("norm_topk_prob", false));
  TRY_BIND(experts.scale, read_expert_scale(config, std::nullopt));
  return experts;
}

/// `emb_split_num` tables for each length of n-gram from 2 to `emb_neighbor_num`; each has two rows more than the one
/// before, so that no two hash alike.
Status read_ngrams(Config& config, DecoderSpec& spec) {
  TRY_BIND(int64_t longest, read_size(config, {"emb_neighbor_num", std::nullopt, 64}));
  TRY_BIND(int64_t each, read_size(config, {"emb_split_num", std::nullopt, 1024}));
  TRY_BIND(double ratio, config.number("ngram_vocab_size_ratio"));
  TRY_BIND(int64_t end_token, config.integer("eos_token_id"));
  const int64_t tables = each * (longest - 1);
  const double rows = ratio * static_cast<double>(spec.vocab);
  if (tables < 1 || spec.hidden % tables != 0 ||
      !(rows >= 1 && rows + 2.0 * static_cast<double>(tables) < 0x7fffffff) || end_token < 0 ||
      end_token >= spec.vocab) {
    return config_error(config,
                        fmt::format("{} tables of {:.6g} times {} rows for n-grams of up to {} tokens, ended by "
                                    "token {}: expected tables whose number divides 'hidden_size', {}, of at "
                                    "most 2^31 rows, and a token that there is",
                                    tables, ratio, spec.vocab, longest, end_token, spec.hidden));
  }
  for (int64_t i = 0; i < tables; ++i) {
    spec.ngrams.push_back({static_cast<int>(2 + i / each), static_cast<int64_t>(rows) + 2 * i + 1, spec.vocab,
                           static_cast<int32_t>(end_token)});
  }
  return {};
}

}  // namespace

Result<DecoderSpec> read_longcat_flash(Config& config) {
  TRY_BIND(DecoderSizes sizes, read_longcat_sizes(config));
  DecoderSpec& spec = sizes.spec;
  TRY_BIND(spec.act, read_act(config, "hidden_act", "silu"));
  TRY_BIND(AttnSpec attn, read_longcat_attention(config, sizes));
  TRY_BIND(ExpertsSpec experts, read_longcat_experts(config));
  experts.gate.act = spec.act;
  spec.corrects_scores = true;
  ExpertNames names;
  names.router = "router.classifier";
  names.correction = "router.e_score_correction_bias";
  spec.expert_names = {names};
  spec.stored_together = kTogether;
  // Layers that predict further tokens from the last one's output.
  config.ignore({"num_nextn_predict_layers", "nextn_use_scmoe", "mtp_num_layers"});
  spec.unneeded.push_back("model.mtp.");
  for (int64_t layer = 0; layer < sizes.layers; layer += kTogether) {
    LayerSpec first{attn, sizes.ffn, experts};
    first.experts_late = true;
    spec.layers.push_back(std::move(first));
    spec.layers.push_back({attn, sizes.ffn});
  }
  return spec;
}

Result<DecoderSpec> read_longcat_flash_ngram(Config& config) {
  TRY_BIND(DecoderSpec spec, read_longcat_flash(config));
  TRY_STATUS(read_ngrams(config, spec));
  return spec;
}

}  // namespace vernier
