#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "engine/request.h"

namespace vernier::testing {

/// Keeps all news of one request, for a test thread that waits for it.
class GatheringSink : public RequestSink {
 public:
  void deliver(RequestUpdate update) override {
    std::lock_guard lock(mutex_);
    if (ended_) ++late_;
    for (SampledToken& token : update.tokens) tokens_.push_back(std::move(token));
    for (SampledToken& token : update.prompt) prompt_.push_back(std::move(token));
    if (!update.embedding.empty()) embedding_ = update.embedding;
    if (update.finished) finished_ = update.finished;
    if (update.failed) failed_ = update.failed;
    if (update.last()) ledger_ = update.ledger;
    ended_ = ended_ || update.last();
    changed_.notify_all();
  }

  /// False after a minute.
  bool wait_end() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [this] { return ended_; });
  }
  bool wait_tokens(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return ended_ || tokens_.size() >= count; });
  }

  // After the end.
  std::vector<int32_t> tokens() const {
    std::vector<int32_t> ids;
    for (const SampledToken& token : tokens_) ids.push_back(token.token);
    return ids;
  }
  const std::vector<SampledToken>& sampled() const { return tokens_; }
  const std::vector<SampledToken>& prompt() const { return prompt_; }
  const std::vector<float>& embedding() const { return embedding_; }
  const std::optional<Finished>& finished() const { return finished_; }
  const std::optional<Error>& failed() const { return failed_; }
  const RequestLedger& ledger() const { return ledger_; }
  int late() const { return late_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<SampledToken> tokens_, prompt_;
  std::vector<float> embedding_;
  std::optional<Finished> finished_;
  std::optional<Error> failed_;
  RequestLedger ledger_;
  bool ended_ = false;
  int late_ = 0;
};

}  // namespace vernier::testing
