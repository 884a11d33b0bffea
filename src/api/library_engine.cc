#include "api/library_engine.h"

#include "api/c_text.h"
#include "api/library_tactics.h"
#include "api/library_work.h"
#include "api/option_words.h"
#include "api/serve_model.h"
#include "text/utf8.h"

namespace vernier {
namespace {

std::string word_or(const char* given, const char* otherwise) {
  return given == nullptr || *given == '\0' ? otherwise : given;
}

Status take_count(const char* name, int64_t given, int64_t most, auto& value) {
  if (given < 0 || given > most) return invalid_argument("{} is {}, expected 0 to {}", name, given, most);
  if (given > 0) value = static_cast<std::decay_t<decltype(value)>>(given);
  return {};
}

Result<EngineOptions> read_engine_options(const vernier_engine_options& options) {
  constexpr int64_t kMostCount = 1 << 20;
  EngineOptions engine;
  TRY_STATUS(take_count("context_tokens", options.context_tokens, INT32_MAX, engine.context_tokens));
  TRY_STATUS(take_count("max_sequences", options.max_sequences, 65536, engine.max_sequences));
  TRY_STATUS(take_count("max_step_rows", options.max_step_rows, kMostCount, engine.max_step_rows));
  TRY_STATUS(take_count("cache_bytes", options.cache_bytes, INT64_MAX, engine.cache_bytes));
  if (options.max_queue == -1) {
    engine.max_queue = 0;
  } else {
    TRY_STATUS(take_count("max_queue", options.max_queue, kMostCount, engine.max_queue));
  }
  engine.prefix_cache = options.no_prefix_cache == 0;
  return engine;
}

}  // namespace

LibraryEngine::LibraryEngine(std::shared_ptr<const ServedModel> model, int64_t weight_bytes)
    : model_(std::make_shared<OpenModel>(std::move(model))), weight_bytes_(weight_bytes) {}

Result<std::unique_ptr<LibraryEngine>> LibraryEngine::open(const std::string& path,
                                                           const vernier_engine_options& options) {
  ServeOptions serve;
  serve.names = {path};
  TRY_BIND(serve.engine, read_engine_options(options));
  TRY_BIND(serve.cache.stored, parse_cache_type("kv_type", word_or(options.kv_type, "auto")));
  serve.parse_reasoning = options.no_reasoning == 0;
  serve.model_sampling = options.no_model_sampling == 0;
  if (options.chat_template != nullptr) {
    serve.chat_template = options.chat_template;
    if (!is_valid_utf8(*serve.chat_template)) return invalid_argument("chat_template is not valid UTF-8");
  }
  LoadOptions load;
  load.backend.name = word_or(options.backend, "cpu");
  load.backend.isa = word_or(options.isa, "");
  TRY_BIND(load.backend.numerics, parse_numerics("numerics", word_or(options.numerics, "fast")));
  load.backend.threads = options.threads;
  if (options.progress != nullptr) {
    load.on_progress = [&options](const BindProgress& progress) {
      options.progress(options.progress_user, progress.done_bytes, progress.total_bytes);
    };
  }
  TRY_BIND(const LibraryTactics tactics, LibraryTactics::read(options, load.backend));
  load.tactics = tactics.store;
  TRY_BIND(std::shared_ptr<const LoadedModel> loaded, LoadedModel::load(path, load));
  TRY_STATUS(tactics.settle(*loaded));
  const int64_t weight_bytes = loaded->weight_bytes();
  TRY_BIND(std::shared_ptr<const ServedModel> served, serve_model(std::move(loaded), serve));
  return std::make_unique<LibraryEngine>(std::move(served), weight_bytes);
}

void LibraryEngine::close(std::unique_ptr<LibraryEngine> engine) {
  engine->model_->close();
  if (!CallbackThread::runs_here(engine->callbacks_.name())) return;
  // The last task: what told the cancelled requests stands before it, and nothing can be submitted any more.
  LibraryEngine* last = engine.release();
  last->callbacks_.post([last] { delete last; });
}

Result<vernier_request*> LibraryEngine::submit(const vernier_request_options& options,
                                               LibraryRequest::Listener listener) {
  auto request = std::make_shared<LibraryRequest>(model_, callbacks_, listener);
  Status started = model_->use([&](const ServedModel& model) -> Status {
    TRY_BIND(LibraryWork work, library_work(model, options));
    return request->start(model, std::move(work.request), work.reader);
  });
  if (!started.ok()) return started.error();
  return request->handle();
}

}  // namespace vernier
