#include "api/loaded_encoder.h"

#include <algorithm>

#include "api/load_tokenizer.h"
#include "models/registry.h"

namespace vernier {

Result<std::unique_ptr<LoadedEncoder>> LoadedEncoder::load(const std::string& path, const LoadOptions& options) {
  std::unique_ptr<LoadedEncoder> model(new LoadedEncoder);
  TRY_BIND(model->checkpoint_, Checkpoint::open(path));
  TRY_BIND(Config config, model->checkpoint_->config());
  TRY_BIND(EncoderSpec spec, read_encoder(config));
  TRY_BIND(model->tokenizer_, load_tokenizer(model->checkpoint_->tokenizer()));
  TRY_BIND(model->backend_, make_backend(options.backend));
  model->tactics_ = options.tactics;
  TRY_STATUS(model->backend_->use_tactics(options.tactics, options.tactic_use));
  CheckpointBinder binder(*model->checkpoint_, *model->backend_, options.on_progress);
  TRY_STATUS(quantise_while_binding(*model->checkpoint_, options, binder));
  TRY_BIND(model->encoder_, Encoder::bind(std::move(spec), binder));
  TRY_STATUS(binder.finish(Encoder::unneeded_tensors()));
  model->report_ = binder.report();
  return model;
}

int32_t LoadedEncoder::max_tokens() const {
  const auto positions = static_cast<int32_t>(encoder_->spec().max_positions);
  return std::min(checkpoint_->embedding().max_tokens.value_or(positions), positions);
}

Result<Pooling> LoadedEncoder::pooling() const {
  const EmbeddingDefaults& said = checkpoint_->embedding();
  if (said.refusal) return *said.refusal;
  // What published encoders without these files are used with.
  return said.pooling.value_or(Pooling::kMean);
}

Result<bool> is_encoder(const std::string& path) {
  TRY_BIND(std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(path));
  Result<Config> config = checkpoint->config();
  return config.ok() && names_encoder(*config);
}

}  // namespace vernier
