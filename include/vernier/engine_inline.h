#pragma once

#include <exception>
#include <limits>

#include "vernier/engine.h"

namespace vernier {
inline namespace api {
namespace detail {

/// A Request in C's form; points into both.
struct COptions {
  COptions(const Request& from, vernier_kind kind) {
    vernier_request_options_init(&c, sizeof c);
    c.kind = kind;
    c.tokens = from.tokens.data(), c.token_count = from.tokens.size();
    if (from.text) c.text = from.text->c_str(), c.text_size = from.text->size();
    for (const Message& m : from.messages) messages.push_back({m.role.c_str(), m.content.c_str(), m.content.size()});
    c.messages = messages.data(), c.message_count = messages.size();
    c.messages_json = or_null(from.messages_json), c.tools_json = or_null(from.tools_json);
    c.tool_choice = or_null(from.tool_choice), c.variables_json = or_null(from.variables_json);
    c.add_special = from.add_special, c.parse_special = from.parse_special;
    const Sampling& s = from.sampling;
    c.temperature = s.temperature.value_or(c.temperature), c.top_k = s.top_k.value_or(c.top_k);
    c.top_p = s.top_p.value_or(c.top_p), c.min_p = s.min_p.value_or(c.min_p);
    c.typical_p = s.typical_p.value_or(c.typical_p);
    c.repetition_penalty = s.repetition_penalty.value_or(c.repetition_penalty);
    c.frequency_penalty = s.frequency_penalty.value_or(c.frequency_penalty);
    c.presence_penalty = s.presence_penalty.value_or(c.presence_penalty);
    c.seed = s.seed.value_or(-1);
    for (auto [token, amount] : s.logit_bias) bias.push_back({token, amount});
    c.logit_bias = bias.data(), c.logit_bias_count = bias.size();
    c.max_tokens = from.max_tokens.value_or(-1), c.min_tokens = from.min_tokens;
    for (const std::string& stop : from.stops) stops.push_back(stop.c_str());
    c.stops = stops.data(), c.stop_count = stops.size();
    c.ignore_end_tokens = from.ignore_end_tokens;
    c.constraint = static_cast<vernier_constraint>(from.constraint.kind);
    c.constraint_text = from.constraint.text.c_str();
    c.top_logprobs = from.top_logprobs.value_or(-1);
    c.priority = from.priority, c.deadline_ms = from.deadline_ms, c.cache_salt = from.cache_salt;
  }
  static const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

  vernier_request_options c;
  std::vector<vernier_message> messages;
  std::vector<vernier_logit_bias> bias;
  std::vector<const char*> stops;
};

inline std::vector<Token> tokens_of(const vernier_token* tokens, size_t count) {
  std::vector<Token> out(count);
  for (size_t i = 0; i < count; ++i) {
    out[i].token = tokens[i].token, out[i].logprob = tokens[i].logprob;
    for (size_t k = 0; k < tokens[i].top_count; ++k)
      out[i].top.emplace_back(tokens[i].top[k].token, tokens[i].top[k].logprob);
  }
  return out;
}

/// Lives from the submit to the last update.
struct Listener {
  OnUpdate on_update;
  std::shared_ptr<std::string> thrown;

  static void hear(void* user, const vernier_update* c) {
    auto* self = static_cast<Listener*>(user);
    auto report = [&](const char* what) {
      if (self->thrown->empty()) *self->thrown = std::string("the callback threw: ") + what;
      vernier_request_cancel(c->request);
    };
    try {
      Update update{{c->text, c->text_size}, {c->reasoning, c->reasoning_size}, {}, c->result != nullptr, c->request};
      update.tokens = tokens_of(c->tokens, c->token_count);
      if (self->thrown->empty()) self->on_update(update);
    } catch (const std::exception& error) {
      report(error.what());
    } catch (...) {
      report("no std::exception");
    }
    if (c->result != nullptr) delete self;
  }
};

struct ProgressListener {
  const std::function<void(int64_t, int64_t)>& on_progress;
  std::string thrown;

  static void hear(void* user, int64_t done_bytes, int64_t total_bytes) {
    auto* self = static_cast<ProgressListener*>(user);
    try {
      if (self->thrown.empty()) self->on_progress(done_bytes, total_bytes);
    } catch (...) {
      self->thrown = "on_progress threw";
    }
  }
};

struct LogListener {
  LogSink sink;
  static void hear(void* user, vernier_log_level level, const char* line) {
    try {
      static_cast<LogListener*>(user)->sink(static_cast<LogLevel>(level), line);
    } catch (...) {  // nobody could be told
    }
  }
  static void release(void* user) { delete static_cast<LogListener*>(user); }
};

}  // namespace detail

inline Result<Engine> Engine::open(const std::string& path, const Options& options) {
  vernier_engine_options c;
  vernier_engine_options_init(&c, sizeof c);
  c.backend = options.backend.c_str(), c.isa = options.isa.c_str(), c.numerics = options.numerics.c_str();
  c.kv_type = options.kv_type.c_str();
  c.chat_template = options.chat_template ? options.chat_template->c_str() : nullptr;
  c.threads = options.threads, c.context_tokens = options.context_tokens;
  c.max_sequences = options.max_sequences, c.max_queue = options.max_queue, c.max_step_rows = options.max_step_rows;
  c.cache_bytes = options.cache_bytes;
  c.tune = options.tune.c_str(), c.tune_store = options.tune_store.c_str(), c.tune_budget_ms = options.tune_budget_ms;
  c.no_prefix_cache = !options.prefix_cache, c.no_reasoning = !options.parse_reasoning;
  c.no_model_sampling = !options.model_sampling;
  detail::ProgressListener listener{options.on_progress, {}};
  if (options.on_progress) c.progress = &detail::ProgressListener::hear, c.progress_user = &listener;
  vernier_engine* handle = nullptr;
  const vernier_status status = vernier_engine_open(path.c_str(), &c, &handle);
  if (status != VERNIER_OK) return Error::last(status);
  Engine engine(handle);
  if (!listener.thrown.empty()) return Error{ErrorCode::kInternal, listener.thrown};
  return engine;
}

inline Result<RunningRequest> Engine::submit(const Request& request, vernier_kind kind, OnUpdate on_update) {
  for (const std::string& stop : request.stops) {
    if (stop.find('\0') != std::string::npos) return Error{ErrorCode::kInvalidArgument, "a stop string holds a NUL"};
  }
  detail::COptions options(request, kind);
  std::unique_ptr<detail::Listener> listener;
  std::shared_ptr<std::string> thrown;
  if (on_update) {
    thrown = std::make_shared<std::string>();
    listener.reset(new detail::Listener{std::move(on_update), thrown});
  }
  vernier_request* handle = nullptr;
  const vernier_status status =
      vernier_submit(handle_, &options.c, listener ? &detail::Listener::hear : nullptr, listener.get(), &handle);
  if (status != VERNIER_OK) return Error::last(status);
  (void)listener.release();
  return RunningRequest(handle, std::move(thrown));
}

inline Result<RunningRequest> Engine::submit(const Request& request, OnUpdate on_update) {
  return submit(request, VERNIER_GENERATE, std::move(on_update));
}

inline Result<Answer> Engine::generate(const Request& request, OnUpdate on_update) {
  Result<RunningRequest> running = submit(request, std::move(on_update));
  if (!running) return running.error();
  Result<Answer> answer = running->wait();
  if (!answer) running->cancel();  // refused in a callback
  return answer;
}

inline Result<std::vector<float>> Engine::embed(const Request& request, bool mean) {
  Result<RunningRequest> running = submit(request, mean ? VERNIER_EMBED_MEAN : VERNIER_EMBED_LAST, {});
  if (!running) return running.error();
  return running->wait_embedding();
}

inline Result<const vernier_result*> RunningRequest::result(int64_t timeout_ms) {
  const vernier_result* c = nullptr;
  const vernier_status status = vernier_request_wait(handle_.get(), timeout_ms, &c);
  if (status != VERNIER_OK) return Error::last(status);
  if (thrown_ && !thrown_->empty()) return Error{ErrorCode::kInternal, *thrown_};
  if (c->status != VERNIER_OK) return Error{static_cast<ErrorCode>(c->status), c->message};
  return c;
}

inline Result<Answer> RunningRequest::wait(int64_t timeout_ms) {
  Result<const vernier_result*> got = result(timeout_ms);
  if (!got) return got.error();
  const vernier_result& c = **got;
  Answer answer;
  answer.text.assign(c.text, c.text_size), answer.reasoning.assign(c.reasoning, c.reasoning_size);
  for (size_t i = 0; i < c.call_count; ++i) answer.calls.push_back({c.calls[i].name, c.calls[i].arguments});
  answer.tokens = detail::tokens_of(c.tokens, c.token_count);
  answer.finish = static_cast<Finish>(c.finish), answer.stop = c.stop;
  answer.prompt_tokens = c.prompt_tokens, answer.cached_tokens = c.cached_tokens;
  answer.reasoning_tokens = c.reasoning_tokens, answer.preemptions = c.preemptions;
  answer.queue_ns = c.queue_ns, answer.prefill_ns = c.prefill_ns, answer.decode_ns = c.decode_ns;
  answer.waiting_ns = c.waiting_ns, answer.preempted_ns = c.preempted_ns, answer.padding_ns = c.padding_ns;
  answer.first_token_ns = c.first_token_ns;
  return answer;
}

inline Result<std::vector<float>> RunningRequest::wait_embedding(int64_t timeout_ms) {
  Result<const vernier_result*> got = result(timeout_ms);
  if (!got) return got.error();
  return std::vector<float>((*got)->embedding, (*got)->embedding + (*got)->embedding_size);
}

inline Result<Engine::Prompt> Engine::prompt(const Request& request) const {
  detail::COptions options(request, VERNIER_GENERATE);
  char* text = nullptr;
  int32_t* tokens = nullptr;
  size_t size = 0, count = 0;
  const vernier_status status = vernier_prompt(handle_, &options.c, &text, &size, &tokens, &count);
  if (status != VERNIER_OK) return Error::last(status);
  Prompt prompt{{text, size}, {tokens, tokens + count}};
  vernier_free(text);
  vernier_free(tokens);
  return prompt;
}

inline Result<std::string> Engine::detokenize(const std::vector<int32_t>& tokens, bool skip_special) const {
  char* text = nullptr;
  size_t size = 0;
  const vernier_status status = vernier_detokenize(handle_, tokens.data(), tokens.size(), skip_special, &text, &size);
  if (status != VERNIER_OK) return Error::last(status);
  std::string out(text, size);
  vernier_free(text);
  return out;
}

inline Result<vernier_engine_info> Engine::info() const {
  vernier_engine_info info{};
  info.struct_size = sizeof info;
  const vernier_status status = vernier_engine_get_info(handle_, &info);
  if (status != VERNIER_OK) return Error::last(status);
  return info;
}

inline Result<vernier_engine_stats> Engine::stats() const {
  vernier_engine_stats stats{};
  stats.struct_size = sizeof stats;
  const vernier_status status = vernier_engine_get_stats(handle_, &stats);
  if (status != VERNIER_OK) return Error::last(status);
  return stats;
}

inline void set_log(LogLevel level, LogSink sink) {
  if (!sink) return vernier_set_log(static_cast<vernier_log_level>(level), nullptr, nullptr, nullptr);
  vernier_set_log(static_cast<vernier_log_level>(level), &detail::LogListener::hear,
                  new detail::LogListener{std::move(sink)}, &detail::LogListener::release);
}

}  // namespace api
}  // namespace vernier
