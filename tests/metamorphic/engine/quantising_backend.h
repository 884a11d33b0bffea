#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ops/backend.h"

namespace vernier::testing {

/// A backend that is handed every matrix in another codec, so that a dense checkpoint runs as a quantised one.
class QuantisingBackend final : public Backend {
 public:
  QuantisingBackend(std::unique_ptr<Backend> inner, CodecId id) : inner_(std::move(inner)), codec_(codec(id)) {}

  std::string_view name() const override { return inner_->name(); }
  Features features() const override { return inner_->features(); }
  Result<std::shared_ptr<const PackedMatrix>> pack(std::span<const QTensor> segments, PackUse use) override {
    std::vector<QTensor> encoded;
    for (const QTensor& segment : segments) {
      TRY_BIND(QTensor tensor, encode(codec_, segment.rows(), segment.cols(), segment.decode()));
      encoded.push_back(std::move(tensor));
    }
    return inner_->pack(encoded, use);
  }
  Result<std::shared_ptr<const PackedVector>> upload(std::span<const float> values) override {
    return inner_->upload(values);
  }
  Result<std::unique_ptr<KvStore>> make_kv(const KvLayout& layout) override { return inner_->make_kv(layout); }
  Result<std::unique_ptr<Ops>> make_ops(KvStore& kv, int64_t max_rows) override {
    return inner_->make_ops(kv, max_rows);
  }
  std::vector<Choice> explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const override {
    return inner_->explain_linear(matrix, batch_rows);
  }
  Choice explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const override {
    return inner_->explain_attend(spec, cache, batch_rows);
  }

 private:
  std::unique_ptr<Backend> inner_;
  const Codec& codec_;
};

}  // namespace vernier::testing
