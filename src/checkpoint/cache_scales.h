#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/load_report.h"

namespace vernier {

/// What a tensor's name says of the KV cache, in every spelling that is known: "...self_attn.k_scale",
/// "...self_attn.attn.k_scale", "...k_proj.k_scale", "...k_proj.output_scale", "...qkv_proj.k_scale", "...kv_scale".
struct CacheScaleName {
  int layer = 0;                 ///< as the checkpoint counts
  std::optional<int> attention;  ///< of several in that layer: "layers.3.self_attn.1.k_scale"
  std::string_view of;           ///< "k", "v", "kv" (both), "q", "p" (probabilities)
};
std::optional<CacheScaleName> parse_cache_scale(std::string_view tensor_name);

/// Every cache scale of a checkpoint, in file order, marked in the report. Where its layers hold several attentions
/// each of these is a layer of the cache, and a scale that does not say whose it is, is refused; so is one that is no
/// finite number above 0 (-1 marks a scale that was never set), one of another shape than [], [1] or [heads], and two
/// that disagree.
Status take_cache_scales(const Checkpoint& checkpoint, LoadReport& report);

}  // namespace vernier
