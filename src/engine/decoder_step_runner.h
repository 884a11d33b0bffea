#pragma once

#include <memory>

#include "engine/step_runner.h"
#include "models/decoder.h"
#include "ops/backend.h"

namespace vernier {

/// Runs steps through a decoder on a backend; both outlive it.
class DecoderStepRunner : public StepRunner {
 public:
  DecoderStepRunner(Backend& backend, const Decoder& decoder, CodecId kv_type);

  const ModelShape& shape() const override { return shape_; }
  Status prepare(std::span<const int32_t> class_blocks, int32_t block_tokens, int32_t max_rows) override;
  Result<StepOutput> run(const StepInput& step) override;

 private:
  Backend& backend_;
  const Decoder& decoder_;
  ModelShape shape_;
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<Ops> ops_;
};

}  // namespace vernier
