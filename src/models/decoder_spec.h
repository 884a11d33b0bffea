#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/attn_spec.h"
#include "ops/binder.h"
#include "ops/cache_spec.h"
#include "ops/ops.h"

namespace vernier {

/// What may differ from layer to layer.
struct LayerSpec {
  AttnSpec attn;
  int64_t ffn = 0;  ///< columns between the two products of the feed-forward part
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
};

/// One CacheSpec for each layer; layers of equal kind and window share a class. Classes are numbered by first use.
std::vector<CacheSpec> cache_specs(const DecoderSpec& spec, CodecId stored);
/// How many classes those have.
int cache_classes(const std::vector<CacheSpec>& specs);

}  // namespace vernier
