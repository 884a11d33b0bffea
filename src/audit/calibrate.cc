#include "audit/calibrate.h"

#include <algorithm>
#include <cmath>

#include "audit/observed_cache.h"
#include "checkpoint/checkpoint_binder.h"
#include "engine/sequence_runner.h"
#include "models/registry.h"

namespace vernier {

namespace {

constexpr int32_t kChunkRows = 256;

/// The largest numbers of the types with scales.
double largest_code(CodecId stored) {
  return stored == CodecId::kE4M3Tensor ? 448 : 57344;
}

/// The smallest power of two that is at least `x`.
float power_of_two_above(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);  // in [0.5, 1)
  return static_cast<float>(std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent));
}

/// Joins the heads unless each has a scale of its own.
std::vector<float> joined(const std::vector<float>& largest, bool per_head) {
  if (per_head) return largest;
  return {*std::ranges::max_element(largest)};
}

/// The scales of one layer's keys or values.
Result<std::vector<float>> scales_of(const std::vector<float>& largest, const CalibrateOptions& options, int layer) {
  std::vector<float> scales;
  for (float number : largest) {
    if (!std::isfinite(number)) {
      return corrupt("layer {} computes numbers that are not finite; no scale can hold them", layer);
    }
    float scale = number == 0 ? 1 : power_of_two_above(number * options.margin / largest_code(options.stored));
    if (!std::isnormal(scale)) scale = 1;  // nothing that small matters beside another number
    scales.push_back(scale);
  }
  return scales;
}

/// Feeds the text in sequences, each begun by the prefix.
Status run_text(SequenceRunner& runner, std::span<const int32_t> tokens, const CalibrateOptions& options) {
  const size_t own = static_cast<size_t>(runner.context_tokens()) - options.prefix.size();
  for (size_t at = 0; at < tokens.size(); at += own) {
    const auto part = tokens.subspan(at, std::min(own, tokens.size() - at));
    std::vector<int32_t> sequence = options.prefix;
    sequence.insert(sequence.end(), part.begin(), part.end());
    runner.reset();
    TRY_STATUS(runner.feed(sequence));
    if (options.on_progress) options.on_progress(static_cast<int64_t>(at + part.size()));
  }
  return {};
}

Status check(std::span<const int32_t> tokens, const CalibrateOptions& options) {
  if (tokens.empty()) return invalid_argument("the text has no token; scales come from real numbers only");
  if (!(options.margin >= 1) || !std::isfinite(options.margin)) {
    return invalid_argument("a margin of {}: expected 1 or more, as nothing that was seen may be clipped",
                            options.margin);
  }
  CHECK(has_cache_scale(options.stored), "scales for a cache without any");
  return {};
}

}  // namespace

Result<Calibration> calibrate_cache(const Checkpoint& checkpoint, std::unique_ptr<Backend> backend,
                                    std::span<const int32_t> tokens, const CalibrateOptions& options) {
  TRY_STATUS(check(tokens, options));
  TRY_BIND(Config config, checkpoint.config());
  if (names_encoder(config)) return unsupported("{} is an encoder: it has no cache to scale", checkpoint.path());
  TRY_BIND(DecoderSpec spec, read_decoder(config));
  ObservingBackend observing(std::move(backend));
  CheckpointBinder binder(checkpoint, observing);
  TRY_BIND(const Decoder decoder, Decoder::bind(std::move(spec), binder));
  TRY_STATUS(binder.finish(decoder.spec().unneeded));

  RunnerOptions of_runner;
  of_runner.kv_type = CodecId::kF32;
  of_runner.chunk_rows = kChunkRows;
  of_runner.context_tokens = static_cast<int32_t>(std::min<int64_t>(options.window, decoder.spec().max_positions));
  if (of_runner.context_tokens <= std::ssize(options.prefix)) {
    return invalid_argument("a window of {} tokens, of which {} only begin it: none is left for the text",
                            of_runner.context_tokens, options.prefix.size());
  }
  TRY_BIND(auto runner, SequenceRunner::make(observing, decoder, of_runner));
  TRY_STATUS(run_text(*runner, tokens, options));

  Calibration made;
  made.file.model_type = decoder.spec().family;
  made.file.stored = options.stored;
  for (const CacheSpec& cache : runner->caches()) {
    const LargestNumbers& seen = observing.largest(cache.layer);
    CalibratedLayer layer{cache.layer, cache.kind == CacheKind::kLatent, joined(seen.k, options.per_head),
                          joined(seen.v, options.per_head)};
    CacheScaleFile::Scales& scales = made.file.layers[cache.layer];
    TRY_BIND(scales.k, scales_of(layer.k_largest, options, cache.layer));
    TRY_BIND(scales.v, scales_of(layer.v_largest, options, cache.layer));
    made.layers.push_back(std::move(layer));
  }
  return made;
}

}  // namespace vernier
