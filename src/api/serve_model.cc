#include "api/serve_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "api/load_tokenizer.h"
#include "api/template_tokens.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/decoder_step_runner.h"
#include "engine/encoder_step_runner.h"
#include "engine/scripted_step_runner.h"
#include "grammar/grammar_compiler.h"
#include "models/registry.h"
#include "text/vocabulary.h"

namespace vernier {
namespace {

Result<std::shared_ptr<GrammarCompiler>> make_grammars(const Tokenizer& tokenizer, std::vector<int32_t> end_tokens,
                                                       int32_t logits) {
  GrammarVocabularyParts parts;
  parts.logits = logits;
  const size_t count = std::min(tokenizer.vocabulary_size(), static_cast<size_t>(logits));
  parts.token_bytes.resize(count);
  for (size_t id = 0; id < count; ++id) {
    parts.token_bytes[id] = tokenizer.token_bytes(static_cast<int32_t>(id)).value_or("");
  }
  for (const AddedToken& token : tokenizer.added_tokens()) {
    if (token.id >= 0 && static_cast<size_t>(token.id) < count) parts.marker_ids.push_back(token.id);
  }
  std::erase_if(end_tokens, [&](int32_t id) { return id < 0 || static_cast<size_t>(id) >= count; });
  parts.end_ids = std::move(end_tokens);
  TRY_BIND(auto vocabulary, GrammarVocabulary::make(std::move(parts)));
  return std::make_shared<GrammarCompiler>(std::move(vocabulary));
}

SamplingParams advised_sampling(const GenerationDefaults& defaults) {
  SamplingParams sampling;
  auto take = [](const std::optional<double>& advised, float& value) {
    if (advised) value = static_cast<float>(*advised);
  };
  take(defaults.temperature, sampling.temperature);
  take(defaults.top_p, sampling.top_p);
  take(defaults.min_p, sampling.min_p);
  take(defaults.repetition_penalty, sampling.repetition_penalty);
  sampling.top_k = defaults.top_k.value_or(0);
  return sampling;
}

std::string fingerprint(std::string_view parts) {
  return fmt::format("fp_{:016x}", fmix64(hash_text(parts)));
}

int64_t now_unix_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Result<std::shared_ptr<const ChatTemplate>> template_of(const Checkpoint& checkpoint, const ServeOptions& options) {
  const StoredTemplate* stored = checkpoint.chat_template();
  if (!options.chat_template && stored == nullptr) return std::shared_ptr<const ChatTemplate>();
  TRY_BIND(ChatTemplate parsed, ChatTemplate::parse(options.chat_template ? *options.chat_template : stored->text));
  return std::make_shared<const ChatTemplate>(std::move(parsed));
}

RequestKind embedding_kind(Pooling pooling) {
  if (pooling == Pooling::kMean) return RequestKind::kEmbedMean;
  return pooling == Pooling::kFirst ? RequestKind::kEmbedFirst : RequestKind::kEmbedLast;
}

/// What all kinds of model have.
Result<std::shared_ptr<ServedModel>> common_parts(const Checkpoint& checkpoint, const ServeOptions& options) {
  auto served = std::make_shared<ServedModel>();
  served->names = options.names;
  served->created_unix_s = now_unix_s();
  served->parse_reasoning = options.parse_reasoning;
  const EmbeddingDefaults& said = checkpoint.embedding();
  if (said.refusal && !options.pooling) {
    log_warning("embeddings are those of the last token, as the makers' way is not built: {}",
                said.refusal->to_string());
  }
  served->embedding = embedding_kind(options.pooling.value_or(said.pooling.value_or(Pooling::kLast)));
  if (options.deterministic) served->seed = kFixedSeed;
  TRY_BIND(served->chat_template, template_of(checkpoint, options));
  if (options.model_sampling) served->sampling = advised_sampling(checkpoint.generation());
  return served;
}

}  // namespace

Result<std::shared_ptr<const ServedModel>> serve_model(std::shared_ptr<const LoadedModel> model,
                                                       const ServeOptions& options) {
  TRY_BIND(const Tokenizer* tokenizer, model->tokenizer());
  TRY_BIND(auto served, common_parts(model->checkpoint(), options));
  served->keep = model;
  served->tokenizer = std::shared_ptr<const Tokenizer>(model, tokenizer);
  served->special_tokens = template_tokens(model->checkpoint(), *tokenizer);
  served->end_tokens = model->end_tokens();
  const std::string_view source =
      served->chat_template != nullptr ? std::string_view(served->chat_template->source()) : "";
  served->format = options.format.value_or(detect_output_format(*tokenizer, source));
  // A model without calls of its own is asked for them in the commonest form.
  const bool plain = served->format == OutputFormat::kPlain;
  served->tool_format = options.tool_format.value_or(plain ? OutputFormat::kHermes : served->format);
  served->fingerprint = fingerprint(fmt::format("{} {} {}", model->path(), model->weight_bytes(), source));

  if (options.deterministic && options.cache.fresh == FreshRows::kComputed) {
    return invalid_argument(
        "--deterministic with --attention split: a row would depend on which rows share its step; "
        "split-roundtrip and paged repeat");
  }
  TRY_BIND(CachePlan cache, model->plan_cache(options.cache));
  for (const std::string& note : cache.notes) log_warning("{}", note);
  auto runner = std::make_unique<DecoderStepRunner>(model->backend(), model->decoder(), std::move(cache.layers));
  const int32_t logits = runner->shape().vocab;
  TRY_BIND(served->grammars, make_grammars(*tokenizer, served->end_tokens, logits));
  EngineOptions of_engine = options.engine;
  of_engine.known_tokens = static_cast<int32_t>(tokenizer->vocabulary_size());
  TRY_BIND(std::unique_ptr<Engine> engine, Engine::start(std::move(runner), of_engine));
  served->engine = std::move(engine);
  return std::shared_ptr<const ServedModel>(std::move(served));
}

Result<std::shared_ptr<const ServedModel>> serve_encoder(std::shared_ptr<const LoadedEncoder> model,
                                                         const ServeOptions& options) {
  TRY_BIND(const Pooling own, model->pooling());
  ServeOptions resolved = options;
  resolved.pooling = options.pooling.value_or(own);
  TRY_BIND(auto served, common_parts(model->checkpoint(), resolved));
  served->keep = model;
  served->generates = false;
  served->tokenizer = std::shared_ptr<const Tokenizer>(model, &model->tokenizer());
  served->special_tokens = template_tokens(model->checkpoint(), model->tokenizer());
  served->fingerprint = fingerprint(
      fmt::format("{} {} {}", model->path(), model->report().packed_bytes(), static_cast<int>(served->embedding)));
  if (resolved.engine.context_tokens == 0) resolved.engine.context_tokens = model->max_tokens();
  auto runner = std::make_unique<EncoderStepRunner>(model->backend(), model->encoder());
  TRY_BIND(std::unique_ptr<Engine> engine, Engine::start(std::move(runner), resolved.engine));
  served->engine = std::move(engine);
  return std::shared_ptr<const ServedModel>(std::move(served));
}

Result<std::shared_ptr<const ServedModel>> serve_script(const ScriptFile& file, const std::string& tokenizer_path,
                                                        const ServeOptions& options) {
  TRY_BIND(std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(tokenizer_path));
  TRY_BIND(Config config, checkpoint->config());
  TRY_BIND(DecoderSpec spec, read_decoder(config));
  TRY_BIND(Tokenizer base, load_tokenizer(checkpoint->tokenizer()));
  TRY_BIND(ScriptedModel made, ScriptedModel::make(file, base));
  auto script = std::make_shared<const ScriptedModel>(std::move(made));
  TRY_BIND(auto served, common_parts(*checkpoint, options));
  served->script = script;
  served->tokenizer = std::shared_ptr<const Tokenizer>(script, &script->tokenizer());
  served->special_tokens = template_tokens(*checkpoint, base);
  served->end_tokens = script->stop_tokens();
  served->format = options.format.value_or(script->format());
  served->tool_format = options.tool_format.value_or(served->format);
  served->fingerprint = fingerprint(options.names.front());

  const auto vocab = static_cast<int32_t>(script->tokenizer().vocabulary_size());
  auto runner =
      std::make_unique<ScriptedStepRunner>(vocab, static_cast<int32_t>(std::min<int64_t>(spec.max_positions, 1 << 30)));
  TRY_BIND(served->grammars, make_grammars(*served->tokenizer, served->end_tokens, vocab));
  TRY_BIND(std::unique_ptr<Engine> engine, Engine::start(std::move(runner), options.engine));
  served->engine = std::move(engine);
  return std::shared_ptr<const ServedModel>(std::move(served));
}

}  // namespace vernier
