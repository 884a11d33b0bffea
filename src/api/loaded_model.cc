#include "api/loaded_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "api/load_tokenizer.h"
#include "api/template_tokens.h"
#include "models/registry.h"

namespace vernier {

Status quantise_while_binding(const Checkpoint& checkpoint, const LoadOptions& options, CheckpointBinder& binder) {
  if (!options.quantise) return {};
  TRY_BIND(WeightQuantiser quantiser, WeightQuantiser::make(checkpoint, *options.quantise));
  binder.rewrite_with([quantiser = std::move(quantiser)](std::span<const WeightPart> parts, PackUse use,
                                                         std::vector<QTensor>& segments) {
    return quantiser.apply(parts, use, segments);
  });
  return {};
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(const std::string& path, const LoadOptions& options) {
  std::unique_ptr<LoadedModel> model(new LoadedModel);
  TRY_BIND(model->checkpoint_, Checkpoint::open(path));
  TRY_BIND(Config config, model->checkpoint_->config());
  TRY_BIND(DecoderSpec spec, read_decoder(config));

  // The vocabulary is read beside the weights: neither waits for the other.
  std::jthread text([&loading = *model] {
    loading.tokenizer_.emplace(load_tokenizer(loading.checkpoint_->tokenizer()));
    if (const auto* stored = loading.checkpoint_->chat_template()) {
      loading.chat_template_.emplace(ChatTemplate::parse(stored->text));
    }
  });
  TRY_BIND(model->backend_, make_backend(options.backend));
  model->tactics_ = options.tactics;
  TRY_STATUS(model->backend_->use_tactics(options.tactics, options.tactic_use));
  CheckpointBinder binder(*model->checkpoint_, *model->backend_, options.on_progress);
  TRY_STATUS(quantise_while_binding(*model->checkpoint_, options, binder));
  TRY_BIND(model->decoder_, Decoder::bind(std::move(spec), binder));
  TRY_STATUS(binder.finish(model->decoder_->spec().unneeded));
  model->report_ = binder.report();
  text.join();
  return model;
}

Result<const Tokenizer*> LoadedModel::tokenizer() const {
  if (!tokenizer_->ok()) return tokenizer_->error();
  return &tokenizer_->value();
}

Result<const ChatTemplate*> LoadedModel::chat_template() const {
  if (!chat_template_) return static_cast<const ChatTemplate*>(nullptr);
  if (!chat_template_->ok()) return chat_template_->error();
  return &chat_template_->value();
}

Result<std::vector<int32_t>> LoadedModel::encode_chat(const nlohmann::ordered_json& messages) const {
  TRY_BIND(const Tokenizer* tokenizer, this->tokenizer());
  TRY_BIND(const ChatTemplate* chat_template, this->chat_template());
  if (chat_template == nullptr) {
    return unsupported("{} has no chat template; give it plain text to continue (vernier run --raw)", path());
  }
  ChatInput input;
  input.messages = messages;
  input.add_generation_prompt = true;
  input.special_tokens = template_tokens(*checkpoint_, *tokenizer);
  TRY_BIND(Rendered rendered, chat_template->render(input));
  return tokenizer->encode(rendered.text,
                           {.add_special = false, .parse_special = true, .caller_ranges = rendered.caller_ranges});
}

std::vector<int32_t> LoadedModel::end_tokens() const {
  const GenerationDefaults& defaults = checkpoint_->generation();
  std::set<int32_t> ids(defaults.eos_ids.begin(), defaults.eos_ids.end());
  if (tokenizer_->ok()) {
    for (const std::string& token : defaults.eos_tokens) {
      if (auto id = tokenizer_->value().find_token(token)) ids.insert(*id);
    }
  }
  return {ids.begin(), ids.end()};
}

Result<CachePlan> LoadedModel::plan_cache(const CacheOptions& options) const {
  const QuantPlan& quant = checkpoint_->plan();
  return vernier::plan_cache(decoder_->spec(), options, {quant.cache, quant.origin, report_.cache_scales});
}

int64_t LoadedModel::weight_bytes() const {
  std::set<const PackedMatrix*> matrices;
  int64_t bytes = 0;
  for (const DecoderPart& part : decoder_->parts()) {
    if (part.matrix != nullptr && matrices.insert(part.matrix).second) bytes += part.alike * part.matrix->info().bytes;
  }
  return bytes;
}

int64_t LoadedModel::bytes_read_per_token() const {
  double bytes = 0;
  for (const DecoderPart& part : decoder_->parts()) {
    if (part.matrix == nullptr || part.op == "embed") continue;
    bytes += part.matrices_of_row() * static_cast<double>(part.matrix->info().bytes);
  }
  return static_cast<int64_t>(bytes);
}

int64_t LoadedModel::product_parameters() const {
  double parameters = 0;
  for (const DecoderPart& part : decoder_->parts()) {
    if (part.matrix == nullptr || part.op == "embed" || part.op == "head") continue;
    parameters += part.matrices_of_row() * static_cast<double>(part.matrix->rows() * part.matrix->cols());
  }
  return static_cast<int64_t>(parameters);
}

}  // namespace vernier
