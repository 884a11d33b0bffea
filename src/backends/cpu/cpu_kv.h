#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "backends/cpu/kv_view.h"
#include "backends/cpu/packed_bytes.h"
#include "ops/backend.h"

namespace vernier {

/// Cache bytes of all layers in host memory, one pool for each layer: [block, kv_head, token in block, head_dim]. The
/// bytes leave it only as views that hold their stored type and scale. Pages are the system's until they are written;
/// debug builds poison every slot with NaN instead.
class CpuKvStore final : public KvStore {
 public:
  static Result<std::unique_ptr<CpuKvStore>> make(const KvLayout& layout);

  int64_t bytes() const override { return bytes_; }
  const CacheSpec& spec(int layer) const { return layers_[static_cast<size_t>(layer)].spec; }
  int32_t block_tokens() const { return block_tokens_; }
  KvView<KvRole::kKey> keys(int layer) const { return layers_[static_cast<size_t>(layer)].keys; }
  KvView<KvRole::kValue> values(int layer) const { return layers_[static_cast<size_t>(layer)].values; }

  std::vector<int64_t> saturated() const override;
  void add_saturated(int layer, int64_t count) { saturated_[layer].fetch_add(count, std::memory_order_relaxed); }
  /// Whether a NaN was ever written to the layer: until then its readers need not look for codes of NaN.
  bool nan_written(int layer) const { return nan_written_[layer].load(std::memory_order_relaxed); }
  void note_nan(int layer) { nan_written_[layer].store(true, std::memory_order_relaxed); }

 private:
  struct Layer {
    CacheSpec spec;
    KvView<KvRole::kKey> keys;
    KvView<KvRole::kValue> values;
  };

  CpuKvStore(PackedBytes memory, int64_t bytes, int32_t block_tokens)
      : memory_(std::move(memory)), bytes_(bytes), block_tokens_(block_tokens) {}

  PackedBytes memory_;
  int64_t bytes_;
  int32_t block_tokens_;
  std::vector<Layer> layers_;
  std::vector<float> scales_;                          // of each layer [kv_heads] of keys, then of values
  std::unique_ptr<std::atomic<int64_t>[]> saturated_;  // by layer
  std::unique_ptr<std::atomic<bool>[]> nan_written_;   // by layer
};

}  // namespace vernier
