#include "audit/verify_numerics.h"

#include "audit/judged_backend.h"
#include "base/progress.h"
#include "checkpoint/checkpoint_binder.h"
#include "models/registry.h"

namespace vernier {

Result<NumericsReport> verify_numerics(const Checkpoint& checkpoint, const NumericsRequest& request) {
  if (request.prompt.empty()) return invalid_argument("the prompt holds no token; give text to --prompt");
  TRY_BIND(Config config, checkpoint.config());
  TRY_BIND(DecoderSpec spec, read_decoder(config));
  NumericsReport report;
  report.model = checkpoint.path();
  report.tokens = static_cast<int64_t>(request.prompt.size());
  const Features features = request.tested.features();
  report.backend = fmt::format(
      "{} {}, {} numerics, cache of {}", request.tested.name(), features.isa,
      features.numerics == Numerics::kFast ? "fast" : "exact",
      cache_type_name(request.runner.caches.empty() ? request.runner.kv_type : request.runner.caches.front().stored));
  JudgedBackend judged(request.tested, request.unquantised, report);
  const auto layers = static_cast<int64_t>(spec.layers.size());
  const int64_t chunks = (report.tokens + request.runner.chunk_rows - 1) / request.runner.chunk_rows;
  Progress progress("verifying", layers * chunks, ProgressUnit::kCount);
  judged.on_layer = [&](int layer) {
    if (layer >= 0) progress.add(1);
  };
  CheckpointBinder binder(checkpoint, judged);
  TRY_BIND(Decoder decoder, Decoder::bind(std::move(spec), binder));
  TRY_STATUS(binder.finish(decoder.spec().unneeded));
  TRY_BIND(auto runner, SequenceRunner::make(judged, decoder, request.runner));
  TRY_STATUS(runner->feed_for_logits(request.prompt, [](std::span<const float>) {}));
  progress.finish();
  return report;
}

}  // namespace vernier
