#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "api/c_error.h"
#include "api/c_text.h"
#include "api/library_engine.h"
#include "api/library_work.h"
#include "base/log_sink.h"

namespace vernier {
namespace {

static_assert(static_cast<int>(LogLevel::kOff) == VERNIER_LOG_OFF &&
              static_cast<int>(LogLevel::kDebug) == VERNIER_LOG_DEBUG);

Status check_given(const void* pointer, const char* name) {
  return pointer != nullptr ? Status{} : invalid_argument("{} is null", name);
}

/// A copy for vernier_free, with a zero behind it.
template <class Items>
Status hand_out(const Items& items, typename Items::value_type** out, size_t* count) {
  using T = typename Items::value_type;
  if (count != nullptr) *count = items.size();
  if (out == nullptr) return {};
  *out = static_cast<T*>(std::malloc((items.size() + 1) * sizeof(T)));
  if (*out == nullptr) return make_error(ErrorCode::kOutOfMemory, "no memory for {} items", items.size());
  if (!items.empty()) std::memcpy(*out, items.data(), items.size() * sizeof(T));
  (*out)[items.size()] = T{};
  return {};
}

/// As much as the caller's struct has room for.
template <class Struct>
Status fill(Struct* out, Struct filled, const char* name) {
  TRY_STATUS(check_given(out, name));
  filled.struct_size = out->struct_size;
  TRY_STATUS(c_struct(out, filled, name));
  std::memcpy(out, &filled, filled.struct_size);
  return {};
}

/// A struct of a newer header keeps its size, and is refused by name where it is used.
template <class Struct>
void init_struct(Struct* out, size_t struct_size, const Struct& defaults) {
  if (out == nullptr || struct_size < sizeof(size_t)) return;
  std::memset(static_cast<void*>(out), 0, struct_size);
  std::memcpy(out, &defaults, std::min(struct_size, sizeof(Struct)));
  out->struct_size = struct_size;
}

Result<vernier_request_options> read_options(const vernier_engine* engine, const vernier_request_options* options) {
  TRY_STATUS(check_given(engine, "engine"));
  TRY_STATUS(check_given(options, "options"));
  return c_struct(options, default_request_options(), "vernier_request_options");
}

/// A user's log callback. Tasks that are to call it keep it.
struct LogListener {
  const vernier_log_callback callback;
  void* const user;
  void (*const release)(void* user);

  LogListener(vernier_log_callback c, void* u, void (*r)(void*)) : callback(c), user(u), release(r) {}
  LogListener(const LogListener&) = delete;
  LogListener& operator=(const LogListener&) = delete;
  ~LogListener() {
    if (release != nullptr) release(user);
  }
};

/// Lines go to `listener` from a thread of its own: the engine's threads log too, and run no user's code.
void listen_to_log(std::shared_ptr<LogListener> listener) {
  struct Place {
    std::mutex mutex;
    std::unique_ptr<CallbackThread> thread;
  };
  static auto* const place = new Place;  // never destroyed: threads may log to the very end
  std::unique_ptr<CallbackThread> thread;
  LogSink sink;
  if (listener->callback != nullptr) {
    thread = std::make_unique<CallbackThread>();
    sink = [listener, thread = thread.get()](LogLevel level, std::string_view message) {
      thread->post([listener, level, line = std::string(message)] {
        listener->callback(listener->user, static_cast<vernier_log_level>(level), line.c_str());
      });
    };
  }
  std::lock_guard lock(place->mutex);
  set_log_sink(std::move(sink));
  std::swap(place->thread, thread);
}

}  // namespace

extern "C" {

const char* vernier_version(void) {
  return VERNIER_VERSION;
}

const char* vernier_status_name(vernier_status status) {
  constexpr const char* kNames[] = {"ok",          "invalid_argument", "not_found",  "corrupt",
                                    "unsupported", "out_of_memory",    "overloaded", "timeout",
                                    "unavailable", "internal"};
  const auto index = static_cast<size_t>(status);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

const char* vernier_last_error(void) {
  return last_c_message();
}

void vernier_free(void* memory) {
  std::free(memory);
}

void vernier_set_log(vernier_log_level level, vernier_log_callback callback, void* user, void (*release)(void*)) {
  (void)c_call([&]() -> Status {
    auto listener = std::make_shared<LogListener>(callback, user, release);
    if (level < VERNIER_LOG_DEBUG || level > VERNIER_LOG_OFF) return invalid_argument("no log level");
    set_log_level(static_cast<LogLevel>(level));
    listen_to_log(std::move(listener));
    return {};
  });
}

vernier_status vernier_engine_open(const char* path, const vernier_engine_options* options, vernier_engine** engine) {
  return c_call([&]() -> Status {
    TRY_STATUS(check_given(path, "path"));
    TRY_STATUS(check_given(engine, "engine"));
    TRY_BIND(const vernier_engine_options own, c_struct(options, vernier_engine_options{}, "vernier_engine_options"));
    TRY_BIND(std::unique_ptr<LibraryEngine> opened, LibraryEngine::open(path, own));
    *engine = opened.release()->handle();
    return {};
  });
}

void vernier_engine_close(vernier_engine* engine) {
  (void)c_call([&]() -> Status {
    if (engine != nullptr) LibraryEngine::close(std::unique_ptr<LibraryEngine>(&LibraryEngine::of(engine)));
    return {};
  });
}

vernier_status vernier_engine_get_info(const vernier_engine* engine, vernier_engine_info* info) {
  return c_call([&]() -> Status {
    TRY_STATUS(check_given(engine, "engine"));
    return LibraryEngine::of(engine).model().use([&](const ServedModel& model) -> Status {
      vernier_engine_info filled{};
      filled.context_tokens = model.context_tokens();
      filled.vocabulary = model.vocabulary();
      filled.hidden = model.engine->shape().hidden;
      filled.has_chat_template = model.chat_template != nullptr || model.format == OutputFormat::kHarmony ? 1 : 0;
      filled.weight_bytes = LibraryEngine::of(engine).weight_bytes();
      filled.cache_bytes = model.engine->options().cache_bytes;
      return fill(info, filled, "vernier_engine_info");
    });
  });
}

vernier_status vernier_engine_get_stats(const vernier_engine* engine, vernier_engine_stats* stats) {
  return c_call([&]() -> Status {
    TRY_STATUS(check_given(engine, "engine"));
    return LibraryEngine::of(engine).model().use([&](const ServedModel& model) -> Status {
      const EngineStats now = model.engine->stats();
      vernier_engine_stats filled{};
      filled.running = now.running;
      filled.waiting = now.waiting;
      filled.finished = now.requests_finished;
      filled.failed = now.requests_failed;
      filled.cancelled = now.requests_cancelled;
      filled.refused = now.requests_refused;
      filled.prompt_tokens = now.prompt_tokens;
      filled.cached_prompt_tokens = now.cached_prompt_tokens;
      filled.generated_tokens = now.generated_tokens;
      filled.steps = now.steps;
      filled.preemptions = now.preemptions;
      return fill(stats, filled, "vernier_engine_stats");
    });
  });
}

vernier_status vernier_detokenize(const vernier_engine* engine, const int32_t* tokens, size_t count,
                                  int32_t skip_special, char** text, size_t* size) {
  return c_call([&]() -> Status {
    TRY_STATUS(check_given(engine, "engine"));
    TRY_STATUS(check_given(text, "text"));
    if (count > 0) TRY_STATUS(check_given(tokens, "tokens"));
    return LibraryEngine::of(engine).model().use([&](const ServedModel& model) -> Status {
      return hand_out(model.tokenizer->decode({tokens, count}, skip_special != 0), text, size);
    });
  });
}

void vernier_engine_options_init(vernier_engine_options* options, size_t struct_size) {
  init_struct(options, struct_size, vernier_engine_options{});
}

void vernier_request_options_init(vernier_request_options* options, size_t struct_size) {
  init_struct(options, struct_size, default_request_options());
}

vernier_status vernier_submit(vernier_engine* engine, const vernier_request_options* options,
                              vernier_update_callback callback, void* user, vernier_request** request) {
  return c_call([&]() -> Status {
    TRY_BIND(const vernier_request_options own, read_options(engine, options));
    TRY_STATUS(check_given(request, "request"));
    TRY_BIND(*request, LibraryEngine::of(engine).submit(own, {callback, user}));
    return {};
  });
}

void vernier_request_cancel(vernier_request* request) {
  (void)c_call([&]() -> Status {
    if (request != nullptr) LibraryRequest::of(request).cancel();
    return {};
  });
}

vernier_status vernier_request_wait(vernier_request* request, int64_t timeout_ms, const vernier_result** result) {
  return c_call([&]() -> Status {
    TRY_STATUS(check_given(request, "request"));
    TRY_BIND(const vernier_result* ended, LibraryRequest::of(request).wait(timeout_ms));
    if (ended == nullptr) return make_error(ErrorCode::kTimeout, "the request still runs after {} ms", timeout_ms);
    if (result != nullptr) *result = ended;
    return {};
  });
}

void vernier_request_release(vernier_request* request) {
  (void)c_call([&]() -> Status {
    if (request != nullptr) LibraryRequest::of(request).release_handle();
    return {};
  });
}

vernier_status vernier_prompt(const vernier_engine* engine, const vernier_request_options* options, char** text,
                              size_t* text_size, int32_t** tokens, size_t* token_count) {
  return c_call([&]() -> Status {
    TRY_BIND(const vernier_request_options own, read_options(engine, options));
    return LibraryEngine::of(engine).model().use([&](const ServedModel& model) -> Status {
      TRY_BIND(const Prompt prompt, library_prompt(model, own));
      char* copied_text = nullptr;
      TRY_STATUS(hand_out(prompt.text, text != nullptr ? &copied_text : nullptr, text_size));
      const Status rest = hand_out(prompt.tokens, tokens, token_count);
      if (!rest.ok()) std::free(copied_text);
      if (rest.ok() && text != nullptr) *text = copied_text;
      return rest;
    });
  });
}

}  // extern "C"

}  // namespace vernier
