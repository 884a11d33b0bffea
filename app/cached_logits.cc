#include "app/cached_logits.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "engine/engine.h"

namespace vernier {
namespace {

/// Keeps the logits of every row by its position, and answers with the likeliest token of each sampled row.
class RecordingRunner final : public StepRunner {
 public:
  RecordingRunner(Backend& backend, const Decoder& decoder, const std::vector<CacheSpec>& caches,
                  std::vector<float>& logits)
      : backend_(backend), decoder_(decoder), logits_(logits) {
    const DecoderSpec& spec = decoder.spec();
    shape_ = {static_cast<int32_t>(spec.vocab), static_cast<int32_t>(spec.hidden),
              static_cast<int32_t>(spec.max_positions), caches};
  }

  const ModelShape& shape() const override { return shape_; }
  Status prepare(std::span<const int32_t> class_blocks, int32_t block_tokens, int32_t max_rows) override {
    TRY_BIND(kv_, backend_.make_kv({shape_.layers, {class_blocks.begin(), class_blocks.end()}, block_tokens}));
    TRY_BIND(ops_, backend_.make_ops(*kv_, max_rows));
    return {};
  }

  Result<StepOutput> run(const StepInput& step) override {
    const auto vocab = static_cast<size_t>(shape_.vocab);
    std::vector<int32_t> all(step.view.tokens.size());
    for (size_t row = 0; row < all.size(); ++row) all[row] = static_cast<int32_t>(row);
    StepView view = step.view;
    view.sampled_rows = all;
    ops_->begin(view);
    TRY_BIND(const std::vector<float> rows, ops_->read(decoder_.head(*ops_, decoder_.forward(*ops_))));
    for (size_t row = 0; row < all.size(); ++row) {
      const size_t to = static_cast<size_t>(view.positions[row]) * vocab;
      if (to + vocab > logits_.size()) continue;  // a token that was generated
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(row * vocab), vocab,
                  logits_.begin() + static_cast<std::ptrdiff_t>(to));
    }
    StepOutput output;
    for (int32_t row : step.view.sampled_rows) {
      const auto first = rows.begin() + row * static_cast<std::ptrdiff_t>(vocab);
      SampledToken best;
      best.token = static_cast<int32_t>(std::max_element(first, first + shape_.vocab) - first);
      output.sampled.push_back(best);
    }
    return output;
  }

 private:
  Backend& backend_;
  const Decoder& decoder_;
  std::vector<float>& logits_;
  ModelShape shape_;
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<Ops> ops_;
};

class WaitingSink final : public RequestSink {
 public:
  void deliver(RequestUpdate update) override {
    std::lock_guard lock(mutex_);
    for (const SampledToken& token : update.tokens) tokens_.push_back(token.token);
    if (!update.last()) return;
    last_ = std::move(update);
    done_.notify_all();
  }
  Result<Finished> wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return last_.has_value(); });
    if (last_->failed) return *last_->failed;
    return *last_->finished;
  }
  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<int32_t> tokens_;
  std::optional<RequestUpdate> last_;
};

}  // namespace

Result<CachedLogits> run_cached(Backend& backend, const Decoder& decoder, const RunnerOptions& options,
                                std::span<const int32_t> tokens, int32_t prefix, int32_t generate) {
  CachedLogits out;
  out.logits.resize(tokens.size() * static_cast<size_t>(decoder.spec().vocab));
  EngineOptions of_engine;
  of_engine.context_tokens = options.context_tokens;
  of_engine.max_sequences = 1;
  of_engine.max_step_rows = options.chunk_rows;
  of_engine.block_tokens = 1;  // so that any number of tokens can be cached
  TRY_BIND(auto engine,
           Engine::start(std::make_unique<RecordingRunner>(backend, decoder, options.caches, out.logits), of_engine));
  const auto ask = [&](std::span<const int32_t> prompt, int32_t answer) -> Result<Finished> {
    Request request;
    request.prompt.assign(prompt.begin(), prompt.end());
    request.sampling.temperature = 0;
    request.max_tokens = answer;
    auto sink = std::make_shared<WaitingSink>();
    TRY_BIND(const RequestId id, engine->submit(std::move(request), sink));
    static_cast<void>(id);
    TRY_BIND(Finished finished, sink->wait());
    out.greedy = sink->tokens();
    return finished;
  };
  const auto first = std::min(static_cast<size_t>(prefix), tokens.size());
  TRY_STATUS(ask(tokens.first(first), 0));
  TRY_BIND(const Finished finished, ask(tokens, generate));
  out.cached_tokens = finished.cached_tokens;
  return out;
}

}  // namespace vernier
