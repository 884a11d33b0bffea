#include "engine/encoder_step_runner.h"

namespace vernier {

EncoderStepRunner::EncoderStepRunner(Backend& backend, const Encoder& encoder) : backend_(backend), encoder_(encoder) {
  const EncoderSpec& spec = encoder.spec();
  shape_ = {static_cast<int32_t>(spec.vocab),
            static_cast<int32_t>(spec.hidden),
            static_cast<int32_t>(spec.max_positions),
            {}};
  // Blocks are counted, as every model's are, and hold nothing.
  shape_.layers.emplace_back();
  shape_.whole_prompts = true;
}

Status EncoderStepRunner::prepare(std::span<const int32_t>, int32_t block_tokens, int32_t max_rows) {
  TRY_BIND(nothing_kept_, backend_.make_kv({{}, {}, block_tokens}));
  TRY_BIND(ops_, backend_.make_ops(*nothing_kept_, max_rows));
  return {};
}

Result<StepOutput> EncoderStepRunner::run(const StepInput& step) {
  if (!step.view.sampled_rows.empty()) return unsupported("an encoder generates no text; ask it for embeddings");
  StepOutput output;
  ops_->begin(step.view);
  TRY_BIND(output.hidden, ops_->read(encoder_.forward(*ops_)));
  return output;
}

}  // namespace vernier
