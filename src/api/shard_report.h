#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/layer_cuts.h"
#include "base/result.h"
#include "models/decoder.h"
#include "tune/device_features.h"

namespace vernier {

/// What one rank of several has of a model, and what its kernels' padding costs.
struct RankShare {
  int64_t heads = 0;         ///< of the first layer
  int64_t kv_heads = 0;      ///< of the first layer
  int64_t feed_forward = 0;  ///< columns, of the first layer that has such a part; 0: none
  int64_t experts = 0;       ///< of each layer of experts
  int64_t expert_width = 0;  ///< columns of each
  int64_t weight_bytes = 0;  ///< codes and scales, without padding
  int64_t padding_bytes = 0;
  int64_t repeated_bytes = 0;  ///< of weight_bytes, those of key-value heads that a rank before it has, too
  double flops = 0;            ///< of products, for each token, if experts are chosen evenly; without padding
  double padding_flops = 0;
  double repeated_flops = 0;  ///< of flops, those of such heads
};

struct ShardReport {
  std::vector<RankShare> ranks;
  bool kv_heads_repeat = false;  ///< more ranks than key-value heads
  double cache_copies = 1;       ///< of keys and values, in the mean over key-value heads of the first layer
  int ranks_without_heads = 0;   ///< more ranks than query heads

  int64_t padding_bytes() const;
  int64_t repeated_bytes() const;
  double padding_share() const;   ///< of FLOPs, all ranks together
  double repeated_share() const;  ///< the same of what several ranks compute alike
};

/// Cuts a model, bound to a PlannedBackend, for so many ranks. Refuses a number of ranks that its heads cannot be cut
/// for.
Result<ShardReport> plan_shards(const Decoder& decoder, const DeviceFeatures& device, int ranks, ExpertCut cut);

/// Numbers of ranks next to `ranks`, at most 4 times as many, for which nothing is padded and each has heads; best
/// first, at most two.
std::vector<int> ranks_without_padding(const Decoder& decoder, const DeviceFeatures& device, int ranks, ExpertCut cut);

}  // namespace vernier
