#include "models/families.h"
#include "models/read_config.h"
#include "models/read_experts.h"
#include "models/read_latent.h"

namespace vernier {
namespace {

/// Where generations differ.
struct Generation {
  RouterScore score;
  bool normalize;       ///< where the configuration does not say
  const char* scoring;  ///< what `scoring_func` must be
  bool corrects_scores;
};

constexpr Generation kSecond{RouterScore::kSoftmax, false, "softmax", false};
constexpr Generation kThird{RouterScore::kSigmoid, true, "sigmoid", true};

/// Groups of experts, of which the best may be chosen from.
Status read_groups(Config& config, const Generation& of, ExpertsSpec& experts) {
  TRY_BIND(std::string method, config.text("topk_method", of.corrects_scores ? "noaux_tc" : "greedy"));
  TRY_BIND(int64_t groups, read_at_least(config, "n_group", 1, 1));
  TRY_BIND(int64_t chosen_groups, read_at_least(config, "topk_group", 1, 1));
  if (method == "greedy" && !of.corrects_scores) return {};
  if (method != (of.corrects_scores ? "noaux_tc" : "group_limited_greedy")) {
    return config_error(config, fmt::format("'topk_method' is '{}', expected {}", method,
                                            of.corrects_scores ? "noaux_tc" : "greedy or group_limited_greedy"));
  }
  if (groups > experts.experts || experts.experts % groups != 0 || chosen_groups > groups ||
      experts.chosen > experts.experts / groups * chosen_groups) {
    return config_error(config, fmt::format("{} of {} groups of {} experts in all, of which a row meets {}: expected "
                                            "groups of equal size, with enough experts in those that are chosen",
                                            chosen_groups, groups, experts.experts, experts.chosen));
  }
  experts.groups = static_cast<int>(groups);
  experts.chosen_groups = static_cast<int>(chosen_groups);
  experts.group_score = of.corrects_scores ? GroupScore::kBestTwo : GroupScore::kBest;
  return {};
}

Result<ExpertsSpec> read_routed(Config& config, const Generation& of) {
  TRY_BIND(ExpertsSpec experts, read_expert_counts(config, {"n_routed_experts", "num_local_experts"}, {}));
  TRY_BIND(std::string scoring, config.text("scoring_func", of.scoring));
  if (scoring != of.scoring) {
    return config_error(config, fmt::format("'scoring_func' is '{}', expected '{}'", scoring, of.scoring));
  }
  experts.score = of.score;
  TRY_BIND(experts.width, read_at_least(config, "moe_intermediate_size", std::nullopt, 1));
  TRY_BIND(experts.normalize, config.boolean("norm_topk_prob", of.normalize));
  TRY_BIND(experts.scale, read_expert_scale(config, 1));
  TRY_STATUS(read_groups(config, of, experts));
  return experts;
}

Result<DecoderSpec> read_deepseek(Config& config, const Generation& of) {
  TRY_BIND(DecoderSizes sizes, read_sizes(config, {}, false));
  DecoderSpec& spec = sizes.spec;
  TRY_BIND(spec.act, read_act(config, "hidden_act", "silu"));
  TRY_STATUS(require_false(config, "attention_bias", "a bias in latent attention"));
  TRY_STATUS(require_false(config, "mlp_bias", "a bias in DeepSeek's feed-forward parts"));
  config.ignore({"ep_size", "aux_loss_alpha", "seq_aux"});
  // Layers behind the last one predict further tokens from its output; their numbers follow on.
  TRY_BIND(int64_t predicting, read_at_least(config, "num_nextn_predict_layers", 0, 0));
  for (int64_t i = 0; i < predicting; ++i) spec.unneeded.push_back(fmt::format(".layers.{}.", sizes.layers + i));
  TRY_BIND(LatentSpec latent, read_latent(config));
  TRY_BIND(latent.neighbours, config.boolean("rope_interleave", true));
  TRY_BIND(AttnSpec attn, read_latent_attention(config, sizes.attn, latent, 10000));

  TRY_BIND(ExpertsSpec experts, read_routed(config, of));
  experts.gate.act = spec.act;
  TRY_BIND(int64_t shared, read_at_least(config, "n_shared_experts", 0, 0));
  TRY_BIND(int64_t dense, read_at_least(config, "first_k_dense_replace", 0, 0));
  TRY_BIND(int64_t every, read_at_least(config, "moe_layer_freq", 1, 1));
  spec.corrects_scores = of.corrects_scores;
  spec.expert_names = usual_expert_names();
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    const bool has_experts = layer >= dense && layer % every == 0;
    spec.layers.push_back(has_experts ? LayerSpec{attn, 0, experts, shared * experts.width}
                                      : LayerSpec{attn, sizes.ffn});
  }
  return spec;
}

}  // namespace

Result<DecoderSpec> read_deepseek_v2(Config& config) {
  return read_deepseek(config, kSecond);
}

Result<DecoderSpec> read_deepseek_v3(Config& config) {
  return read_deepseek(config, kThird);
}

}  // namespace vernier
