#pragma once

#include "engine/step_runner.h"

namespace vernier {

/// Answers what each request's script says, one step for each token, with probability 1. Only the forward pass and the
/// sampler are replaced: planning, blocks, limits and delivery are the real ones.
class ScriptedStepRunner : public StepRunner {
 public:
  /// `vocab` counts the scripts' own tokens too.
  ScriptedStepRunner(int32_t vocab, int32_t max_positions);

  const ModelShape& shape() const override { return shape_; }
  Status prepare(std::span<const int32_t> class_blocks, int32_t block_tokens, int32_t max_rows) override;
  Result<StepOutput> run(const StepInput& step) override;

 private:
  ModelShape shape_;
};

}  // namespace vernier
