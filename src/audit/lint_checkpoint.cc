#include "audit/lint_binder.h"
#include "audit/lint_parts.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/registry.h"

namespace vernier {

namespace {

/// What the configuration describes, one of both or none.
struct LintModel {
  std::optional<DecoderSpec> decoder;
  std::optional<EncoderSpec> encoder;

  int64_t vocab() const { return decoder ? decoder->vocab : encoder ? encoder->vocab : 0; }
};

LintModel read_model(const Checkpoint& checkpoint, LintReport& report) {
  LintModel model;
  Result<Config> config = checkpoint.config();
  if (!config.ok()) return model;  // known already
  if (names_encoder(*config)) {
    Result<Config> again = checkpoint.config();
    Result<EncoderSpec> encoder = read_encoder(*again);
    if (encoder.ok()) {
      model.encoder = *std::move(encoder);
      return model;
    }
    report.add(lint_checks::kConfig, encoder.error());
    return model;
  }
  Result<Config> again = checkpoint.config();
  Result<DecoderSpec> decoder = read_decoder(*again);
  if (decoder.ok()) {
    model.decoder = *std::move(decoder);
  } else {
    report.add(lint_checks::kConfig, decoder.error());
  }
  return model;
}

}  // namespace

void lint_checkpoint(const Checkpoint& checkpoint, const LintDepth& depth, const LintOptions& options,
                     LintReport& report) {
  const LintModel model = read_model(checkpoint, report);
  NullBackend backend;
  LintBinder binder(checkpoint, backend, !depth.weights_complete, report);
  if (depth.plan_known && (model.decoder || model.encoder)) {
    // What the binder could not bind is in the report; a model that refuses all the same says why.
    Status bound;
    if (model.decoder) {
      if (auto decoder = Decoder::bind(*model.decoder, binder); !decoder.ok()) bound = decoder.error();
    } else if (auto encoder = Encoder::bind(*model.encoder, binder); !encoder.ok()) {
      bound = encoder.error();
    }
    if (!bound.ok()) report.add(lint_checks::kConfig, bound.error());
    if (bound.ok()) {
      binder.lint_left_over(model.encoder ? Encoder::unneeded_tensors()
                                          : std::span<const std::string>(model.decoder->unneeded));
    }
  }
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (!binder.examined().contains(&tensor)) lint_tensor(tensor, report);
  }
  if (!binder.cache_scales().ok()) report.add(lint_checks::kCacheScale, binder.cache_scales().error());
  if (model.decoder) {
    if (binder.cache_scales().ok()) lint_cache_scales(binder.report(), checkpoint.plan(), *model.decoder, report);
    lint_settings(checkpoint, *model.decoder, report);
  }
  lint_text(checkpoint, model.vocab(), options, report);
}

}  // namespace vernier
