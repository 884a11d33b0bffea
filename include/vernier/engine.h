#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "vernier/options.h"
#include "vernier/request.h"

namespace vernier {
inline namespace api {

/// Version of the library that runs, "0.1.0".
inline std::string version() {
  return vernier_version();
}

/// Handed what became certain, on a thread of the library that computes nothing; one callback at a time for each
/// engine. It may submit, cancel and close the engine, and must not wait. If it throws, its request ends as kInternal.
using OnUpdate = std::function<void(const Update&)>;

/// A request under way. Letting go of it cancels one that was submitted without a callback; others run on.
class RunningRequest {
 public:
  explicit RunningRequest(vernier_request* handle, std::shared_ptr<const std::string> thrown = {})
      : handle_(handle), thrown_(std::move(thrown)) {}

  /// Ends it soon, as kCancelled.
  void cancel() { vernier_request_cancel(handle_.get()); }
  /// Until it has ended and its last callback has returned. kTimeout: it still runs, or its own deadline passed.
  /// Refused on the thread of its callbacks.
  Result<Answer> wait(int64_t timeout_ms = -1);
  /// The same of a request for an embedding, [hidden], of unit length.
  Result<std::vector<float>> wait_embedding(int64_t timeout_ms = -1);

 private:
  Result<const vernier_result*> result(int64_t timeout_ms);

  struct Release {
    void operator()(vernier_request* handle) const { vernier_request_release(handle); }
  };
  std::unique_ptr<vernier_request, Release> handle_;
  std::shared_ptr<const std::string> thrown_;  // what a callback threw; read after the last one
};

/// A model that is loaded and runs. Any thread; a moved-from engine may only be destroyed or assigned to.
///
/// Its destruction cancels what still runs. Elsewhere than in a callback it returns after the last callback has; in
/// one, the last updates of other requests follow later and find the engine closed (kUnavailable).
class Engine {
 public:
  ~Engine() { vernier_engine_close(handle_); }
  Engine(Engine&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Engine& operator=(Engine&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  /// Opens a GGUF file (of several parts: the first) or a folder with Hugging Face's files. Seconds to minutes.
  static Result<Engine> open(const std::string& path, const Options& options = {});
  /// Takes over an engine that was opened through the C API.
  static Engine adopt(vernier_engine* handle) { return Engine(handle); }

  /// Checks, renders and tokenises on this thread, and queues; with a constraint that may take seconds. An accepted
  /// request gets exactly one last update and nothing after it, a refused one none.
  Result<RunningRequest> submit(const Request& request, OnUpdate on_update = {});
  /// Submits and waits. Not in a callback.
  Result<Answer> generate(const Request& request, OnUpdate on_update = {});
  /// The state of the prompt's last token, or the mean over all, of unit length. Not in a callback.
  Result<std::vector<float>> embed(const Request& request, bool mean = false);

  struct Prompt {
    std::string text;
    std::vector<int32_t> tokens;
  };
  /// What submit would make of the request's prompt: this renders a conversation and tokenises a text.
  Result<Prompt> prompt(const Request& request) const;
  /// The text of these ids; those that do not exist are passed over.
  Result<std::string> detokenize(const std::vector<int32_t>& tokens, bool skip_special = false) const;

  Result<vernier_engine_info> info() const;
  Result<vernier_engine_stats> stats() const;

 private:
  explicit Engine(vernier_engine* handle) : handle_(handle) {}
  Result<RunningRequest> submit(const Request& request, vernier_kind kind, OnUpdate on_update);

  vernier_engine* handle_ = nullptr;
};

using LogSink = std::function<void(LogLevel level, std::string_view line)>;
/// Of the whole process: lines from `level` on go to the sink, on a thread of its own, or to standard error. Once
/// returned, a former sink runs no more, unless it is what calls this.
void set_log(LogLevel level, LogSink sink = {});

}  // namespace api
}  // namespace vernier

#include "vernier/engine_inline.h"
