#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/attn_spec.h"
#include "ops/binder.h"
#include "ops/cache_spec.h"
#include "ops/experts_spec.h"
#include "ops/ngram_spec.h"
#include "ops/ops.h"

namespace vernier {

/// What may differ from layer to layer.
struct LayerSpec {
  AttnSpec attn;
  int64_t ffn = 0;  ///< columns between the two products of the feed-forward part; 0 where experts are in its place
  std::optional<ExpertsSpec> experts = {};
  int64_t shared_ffn = 0;     ///< of the experts that every row meets; 0: none
  bool experts_late = false;  ///< their answers join the residual at the end of the next layer, which has no experts
};

/// What a checkpoint calls the parts of a layer of experts: "model.layers.0." + block + "." + router, and so on.
struct ExpertNames {
  std::string block = "mlp";
  std::string router = "gate";
  std::string correction = "gate.e_score_correction_bias";
  std::string gate = "gate_proj";
  std::string up = "up_proj";
  std::string down = "down_proj";
  std::string gate_up = {};           ///< one matrix in place of gate and up; empty: two
  bool halves_alternate = false;      ///< rows of gate and up take turns in it
  bool dense_are_transposed = false;  ///< plain numbers are stored as [inputs, outputs]
};

/// A dense decoder as data: everything a family's configuration decides, and nothing else. Differences between layers
/// are fields here, never tests of a model's name.
struct DecoderSpec {
  std::string family;              ///< model_type, for reports
  std::string prefix = "model.";   ///< of every weight but the head
  std::string head = "lm_head";    ///< used where `tied` is false, or where the checkpoint stores it all the same
  std::vector<std::string> other;  ///< further prefixes that some checkpoints use in place of `prefix`
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t max_positions = 0;  ///< what the model was made for; a longer context needs another rope
  std::vector<LayerSpec> layers;
  /// So many layers make one of the checkpoint's, which numbers their modules: "layers.0.self_attn.1".
  int64_t stored_together = 1;
  /// A table each. The mean of their embeddings, each projected, and the word's is a token's.
  std::vector<NgramSpec> ngrams = {};

  float norm_eps = 1e-6f;
  NormRule norm_rule = NormRule::kPlain;
  bool post_norms = false;  ///< each branch is normed once more before it joins the residual
  Act act = Act::kSilu;
  float embed_scale = 1;
  float final_soft_cap = 0;  ///< 0: none
  bool tied = false;         ///< the embedding table is the head

  BiasRule qkv_bias = BiasRule::kNone;
  BiasRule output_bias = BiasRule::kNone;  ///< of attention's output projection
  BiasRule ffn_bias = BiasRule::kNone;
  BiasRule router_bias = BiasRule::kNone;
  BiasRule experts_bias = BiasRule::kNone;
  bool corrects_scores = false;  ///< a number for each expert joins its score for the choice alone
  /// Ends of names of tensors that checkpoints hold and no logit depends on; modules end in a dot.
  std::vector<std::string> unneeded = {".rotary_emb.inv_freq"};
  std::vector<ExpertNames> expert_names;  ///< spellings, tried in order; the first is what errors name
};

/// One CacheSpec for each layer; layers of equal kind and window share a class. Classes are numbered by first use.
std::vector<CacheSpec> cache_specs(const DecoderSpec& spec, CodecId stored);
/// How many classes those have.
int cache_classes(const std::vector<CacheSpec>& specs);

}  // namespace vernier
