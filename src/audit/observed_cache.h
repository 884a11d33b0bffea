#pragma once

#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/backend.h"

namespace vernier {

/// The largest magnitudes of one layer's keys and values, by KV head, as they would be written to the cache: after norm
/// and rope. Of a compressed row both are the row's.
struct LargestNumbers {
  std::vector<float> k, v;
};

/// Another backend that also looks at what attention writes to its cache: its rows are read back, normed and turned on
/// the host. Slow where a step is short; numbers are those of the inner backend. What it made does not outlive it.
class ObservingBackend final : public Backend {
 public:
  explicit ObservingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  Features features() const override { return inner_->features(); }
  Result<std::shared_ptr<const PackedMatrix>> pack(std::span<const QTensor> segments, PackUse use) override {
    return inner_->pack(segments, use);
  }
  Result<std::shared_ptr<const PackedVector>> upload(std::span<const float> values) override;
  Result<std::unique_ptr<KvStore>> make_kv(const KvLayout& layout) override;
  Result<std::unique_ptr<Ops>> make_ops(KvStore& kv, int64_t max_rows) override;
  std::vector<Choice> explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const override {
    return inner_->explain_linear(matrix, batch_rows);
  }
  Choice explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const override {
    return inner_->explain_attend(spec, cache, batch_rows);
  }

  /// Of a layer that ran.
  const LargestNumbers& largest(int layer) const { return largest_.at(layer); }

  // For the ops that it made.
  void see(const AttnLayer& layer, std::span<const int32_t> positions, std::span<const float> keys_and_values);
  void see(const LatentLayer& layer, std::span<const int32_t> positions, std::span<const float> rows);
  /// Keeps the last 2 x kv_cols of q, k and v.
  Result<Weight<Split::kRows>> key_value_columns(int64_t cols, int64_t kept);

 private:
  const std::vector<float>& numbers(const PackedVector* vector) const;

  std::unique_ptr<Backend> inner_;
  std::unordered_map<const PackedVector*, std::vector<float>> uploaded_;
  std::map<std::pair<int64_t, int64_t>, Weight<Split::kRows>> columns_;  // by columns and kept ones
  std::map<int, LargestNumbers> largest_;                                // by layer
};

}  // namespace vernier
