#include "api/library_request.h"

#include <cmath>

#include "api/c_error.h"

namespace vernier {
namespace {

/// Unit length; a vector of zeros stays as it is.
void scale_to_length_one(std::vector<float>& vector) {
  double sum = 0;
  for (float x : vector) sum += static_cast<double>(x) * static_cast<double>(x);
  if (sum <= 0) return;
  const auto scale = static_cast<float>(1 / std::sqrt(sum));
  for (float& x : vector) x *= scale;
}

}  // namespace

LibraryRequest::LibraryRequest(std::shared_ptr<OpenModel> model, CallbackThread& callbacks, Listener listener)
    : model_(std::move(model)), callbacks_(callbacks), callback_thread_(callbacks.name()), listener_(listener) {}

Status LibraryRequest::start(const ServedModel& model, Request request, const OutputReaderOptions& options) {
  tokenizer_ = model.tokenizer;
  TRY_BIND(OutputReader reader, OutputReader::make(*tokenizer_, options));
  reader_.emplace(std::move(reader));
  held_ = shared_from_this();  // a callback may let it go before this returns
  Result<RequestId> id = model.engine->submit(std::move(request), shared_from_this());
  if (!id.ok()) {
    held_.reset();
    return id.error();
  }
  std::lock_guard lock(mutex_);
  id_ = *id;
  if (cancel_wanted_) model.engine->cancel(*id);
  return {};
}

void LibraryRequest::deliver(RequestUpdate update) {
  std::optional<RequestId> stopped;
  {
    std::lock_guard lock(mutex_);
    if (read(std::move(update.tokens))) {
      stopped = id_;
      cancel_wanted_ = true;
    }
    if (update.last()) {
      parts_.embedding = std::move(update.embedding);
      end(update);
    }
    if (listener_.callback == nullptr) {
      if (result_) settle();
    } else if (!telling_) {
      telling_ = true;
      callbacks_.post([self = shared_from_this()] { self->tell(); });
    }
    if (result_) return;
  }
  if (!stopped) return;
  (void)model_->use([&](const ServedModel& model) -> Status {
    model.engine->cancel(*stopped);
    return {};
  });
}

/// True where these tokens ended the answer and the engine does not know.
bool LibraryRequest::read(std::vector<SampledToken> tokens) {
  if (read_all_) return false;
  std::vector<OutputDelta> deltas;
  for (SampledToken& token : tokens) {
    parts_.tokens.push_back(std::move(token));
    read_all_ = reader_->push(parts_.tokens.back().token, deltas);
    if (read_all_) break;
  }
  keep(deltas);
  return read_all_;
}

void LibraryRequest::keep(const std::vector<OutputDelta>& deltas) {
  for (const OutputDelta& delta : deltas) {
    fold_answer(delta, parts_.answer);
    if (listener_.callback == nullptr) continue;
    if (delta.kind == OutputDelta::Kind::kContent) untold_text_ += delta.text;
    if (delta.kind == OutputDelta::Kind::kReasoning) untold_reasoning_ += delta.text;
  }
}

void LibraryRequest::end(const RequestUpdate& update) {
  const bool limit = !read_all_ && (update.failed || update.finished->reason != FinishReason::kStop);
  std::vector<OutputDelta> deltas;
  reader_->finish(limit ? OutputEnd::kLimit : OutputEnd::kStop, deltas);
  keep(deltas);
  parts_.stop = reader_->found_stop();
  parts_.reasoning_tokens = reader_->reasoning_tokens();
  parts_.ledger = update.ledger;
  if (update.failed) {
    parts_.status = c_status(update.failed->code);
    parts_.message = c_message(*update.failed);
  } else {
    parts_.finish = finish_of(*update.finished);
    parts_.finished = *update.finished;
  }
  scale_to_length_one(parts_.embedding);
  // A handle that is kept for long keeps no model.
  reader_.reset();
  tokenizer_.reset();
  if (listener_.callback == nullptr) {
    result_.emplace(std::move(parts_));
  } else {
    result_.emplace(parts_);  // the tokens may not be told yet
  }
}

vernier_finish LibraryRequest::finish_of(const Finished& finished) {
  if (reader_->finishes_with_calls()) return VERNIER_CALLED;
  if (read_all_ || !parts_.stop.empty()) return VERNIER_STOPPED;
  switch (finished.reason) {
    case FinishReason::kStop:
      return VERNIER_STOPPED;
    case FinishReason::kLength:
      return VERNIER_LENGTH;
    case FinishReason::kContext:
      return VERNIER_CONTEXT;
    case FinishReason::kCancelled:
      return VERNIER_CANCELLED;
  }
  return VERNIER_CANCELLED;
}

void LibraryRequest::tell() {
  std::string text, reasoning;
  std::vector<SampledToken> tokens;
  const CResult* result = nullptr;
  {
    std::lock_guard lock(mutex_);
    telling_ = false;
    std::swap(text, untold_text_);
    std::swap(reasoning, untold_reasoning_);
    tokens.assign(parts_.tokens.begin() + static_cast<std::ptrdiff_t>(told_tokens_), parts_.tokens.end());
    told_tokens_ = parts_.tokens.size();
    if (result_) result = &*result_;
  }
  const CTokens c_tokens(tokens);
  vernier_update update{};
  update.request = handle();
  update.text = text.c_str();
  update.text_size = text.size();
  update.reasoning = reasoning.c_str();
  update.reasoning_size = reasoning.size();
  update.tokens = c_tokens.tokens().data();
  update.token_count = tokens.size();
  update.result = result != nullptr ? &result->c() : nullptr;
  listener_.callback(listener_.user, &update);
  if (result == nullptr) return;
  std::lock_guard lock(mutex_);
  settle();
}

void LibraryRequest::settle() {
  settled_ = true;
  settled_changed_.notify_all();
}

void LibraryRequest::cancel() {
  std::optional<RequestId> id;
  {
    std::lock_guard lock(mutex_);
    if (result_) return;
    cancel_wanted_ = true;
    id = id_;
  }
  if (!id) return;  // start() does it
  (void)model_->use([&](const ServedModel& model) -> Status {
    model.engine->cancel(*id);
    return {};
  });
}

Result<const vernier_result*> LibraryRequest::wait(int64_t timeout_ms) {
  if (timeout_ms != 0 && CallbackThread::runs_here(callback_thread_)) {
    return invalid_argument("a callback waits for a request of its own engine; let it return and wait elsewhere");
  }
  constexpr int64_t kLongestMs = int64_t{1} << 40;
  std::unique_lock lock(mutex_);
  auto ended = [this] { return settled_; };
  if (timeout_ms < 0) {
    settled_changed_.wait(lock, ended);
  } else if (!settled_changed_.wait_for(lock, std::chrono::milliseconds(std::min(timeout_ms, kLongestMs)), ended)) {
    return static_cast<const vernier_result*>(nullptr);
  }
  return &result_->c();
}

void LibraryRequest::release_handle() {
  if (listener_.callback == nullptr) cancel();
  const std::shared_ptr<LibraryRequest> last = std::move(held_);
}

}  // namespace vernier
