#include "engine/decoder_step_runner.h"

#include <utility>

#include "engine/mask_filler.h"

namespace vernier {

DecoderStepRunner::DecoderStepRunner(Backend& backend, const Decoder& decoder, std::vector<CacheSpec> caches)
    : backend_(backend), decoder_(decoder) {
  const DecoderSpec& spec = decoder.spec();
  shape_ = {static_cast<int32_t>(spec.vocab), static_cast<int32_t>(spec.hidden),
            static_cast<int32_t>(spec.max_positions), std::move(caches)};
}

Status DecoderStepRunner::prepare(std::span<const int32_t> class_blocks, int32_t block_tokens, int32_t max_rows) {
  KvLayout layout{shape_.layers, {class_blocks.begin(), class_blocks.end()}, block_tokens};
  TRY_BIND(kv_, backend_.make_kv(layout));
  TRY_BIND(ops_, backend_.make_ops(*kv_, max_rows));
  return {};
}

Result<StepOutput> DecoderStepRunner::run(const StepInput& step) {
  StepOutput output;
  ops_->begin(step.view);
  const Value states = decoder_.forward(*ops_);
  saturation_.look(*kv_, shape_.layers);
  if (step.hidden) {
    TRY_BIND(output.hidden, ops_->read(decoder_.normed(*ops_, states)));
  }
  if (step.view.sampled_rows.empty()) return output;
  const Value logits = decoder_.head(*ops_, states);
  if (step.masks != nullptr) step.masks->wait();
  TRY_BIND(output.sampled, ops_->sample(logits, step.specs));
  return output;
}

}  // namespace vernier
