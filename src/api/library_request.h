#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/c_result.h"
#include "api/callback_thread.h"
#include "api/open_model.h"
#include "text/output_reader.h"

namespace vernier {

/// A request of the C API under way: reads the engine's tokens on the delivery thread, and tells the caller on the
/// callback thread, where news that came meanwhile are told together. Owns nothing that the engine runs on, whoever
/// lets it go last.
class LibraryRequest final : public RequestSink, public std::enable_shared_from_this<LibraryRequest> {
 public:
  struct Listener {
    vernier_update_callback callback = nullptr;
    void* user = nullptr;
  };

  LibraryRequest(std::shared_ptr<OpenModel> model, CallbackThread& callbacks, Listener listener);

  /// Within the work of that model. On success the caller holds its handle, until release_handle().
  Status start(const ServedModel& model, Request request, const OutputReaderOptions& reader);

  void deliver(RequestUpdate update) override;
  void cancel();
  /// Null: it still runs. Refused on the callback thread, but for a timeout of 0. Negative: without end.
  Result<const vernier_result*> wait(int64_t timeout_ms);

  vernier_request* handle() { return reinterpret_cast<vernier_request*>(this); }
  void release_handle();
  static LibraryRequest& of(vernier_request* handle) { return *reinterpret_cast<LibraryRequest*>(handle); }

 private:
  bool read(std::vector<SampledToken> tokens);
  void keep(const std::vector<OutputDelta>& deltas);
  void end(const RequestUpdate& update);
  vernier_finish finish_of(const Finished& finished);
  void tell();
  void settle();

  const std::shared_ptr<OpenModel> model_;
  CallbackThread& callbacks_;  // lives as long as the engine delivers
  const std::shared_ptr<const void> callback_thread_;
  const Listener listener_;
  std::shared_ptr<LibraryRequest> held_;  // itself, as long as the caller has the handle

  std::mutex mutex_;  // guards all below
  std::condition_variable settled_changed_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<OutputReader> reader_;
  std::optional<RequestId> id_;
  bool cancel_wanted_ = false;  // before its id was known, or since
  bool read_all_ = false;       // a stop string, or the only call: later tokens do not count
  CResult::Parts parts_;
  std::optional<CResult> result_;  // once it has ended
  std::string untold_text_, untold_reasoning_;
  size_t told_tokens_ = 0;
  bool telling_ = false;  // a task of the callback thread will tell
  bool settled_ = false;  // ended, and nothing is left to tell
};

}  // namespace vernier
