#pragma once

#include <memory>

#include "engine/saturation_log.h"
#include "engine/step_runner.h"
#include "models/decoder.h"
#include "ops/backend.h"

namespace vernier {

/// Runs steps through a decoder on a backend; both outlive it.
class DecoderStepRunner : public StepRunner {
 public:
  /// `caches` are those of each layer, as plan_cache makes them.
  DecoderStepRunner(Backend& backend, const Decoder& decoder, std::vector<CacheSpec> caches);

  const ModelShape& shape() const override { return shape_; }
  Status prepare(std::span<const int32_t> class_blocks, int32_t block_tokens, int32_t max_rows) override;
  Result<StepOutput> run(const StepInput& step) override;
  std::vector<int64_t> saturated() const override { return kv_ ? kv_->saturated() : std::vector<int64_t>(); }

 private:
  Backend& backend_;
  const Decoder& decoder_;
  ModelShape shape_;
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<Ops> ops_;
  SaturationLog saturation_;
};

}  // namespace vernier
