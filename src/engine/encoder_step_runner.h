#pragma once

#include <memory>

#include "engine/step_runner.h"
#include "models/encoder.h"
#include "ops/backend.h"

namespace vernier {

/// Runs steps of whole texts through an encoder on a backend; both outlive it. It draws no token.
class EncoderStepRunner : public StepRunner {
 public:
  EncoderStepRunner(Backend& backend, const Encoder& encoder);

  const ModelShape& shape() const override { return shape_; }
  Status prepare(std::span<const int32_t> class_blocks, int32_t block_tokens, int32_t max_rows) override;
  Result<StepOutput> run(const StepInput& step) override;

 private:
  Backend& backend_;
  const Encoder& encoder_;
  ModelShape shape_;
  std::unique_ptr<KvStore> nothing_kept_;
  std::unique_ptr<Ops> ops_;
};

}  // namespace vernier
