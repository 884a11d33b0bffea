#include "engine/sequence_runner.h"

#include <algorithm>
#include <numeric>

namespace vernier {

Result<std::unique_ptr<SequenceRunner>> SequenceRunner::make(Backend& backend, const Decoder& decoder,
                                                             const RunnerOptions& options) {
  const DecoderSpec& spec = decoder.spec();
  if (options.chunk_rows < 1) return invalid_argument("chunk of {} rows, expected at least 1", options.chunk_rows);
  if (options.context_tokens < 1 || options.context_tokens > spec.max_positions) {
    return invalid_argument("context of {} tokens, expected 1 to {}: what the model was made for",
                            options.context_tokens, spec.max_positions);
  }
  std::unique_ptr<SequenceRunner> runner(new SequenceRunner(decoder, options));
  KvLayout layout;
  layout.layers = options.caches.empty() ? cache_specs(spec, options.kv_type) : options.caches;
  layout.block_tokens = options.block_tokens;
  for (int cache_class = 0; cache_class < cache_classes(layout.layers); ++cache_class) {
    auto member = std::ranges::find(layout.layers, cache_class, &CacheSpec::cache_class);
    const int32_t blocks =
        BlockTable::most_blocks(options.block_tokens, member->window, options.context_tokens, options.chunk_rows);
    layout.class_blocks.push_back(blocks);
    runner->classes_.push_back({BlockPool(blocks), BlockTable(options.block_tokens, member->window), {0, 0}, {0}});
  }
  runner->layers_ = layout.layers;
  TRY_BIND(runner->kv_, backend.make_kv(layout));
  TRY_BIND(runner->ops_, backend.make_ops(*runner->kv_, options.chunk_rows));
  return runner;
}

SequenceRunner::~SequenceRunner() {
  reset();
}

int64_t SequenceRunner::cache_bytes_read_at(int32_t position) const {
  int64_t bytes = 0;
  for (const CacheSpec& layer : layers_) {
    bytes += layer.bytes_per_token() * std::min(position + 1, layer.window.value_or(position + 1));
  }
  return bytes;
}

void SequenceRunner::reset() {
  for (CacheClass& c : classes_) c.table.clear(c.pool);
  position_ = 0;
  history_.clear();
}

Status SequenceRunner::plan(std::span<const int32_t> tokens, Rows sampled) {
  const auto rows = static_cast<int32_t>(tokens.size());
  tables_.clear();
  for (CacheClass& c : classes_) {
    TRY_STATUS(c.table.extend(c.pool, position_ + rows));
    c.begin[1] = static_cast<int32_t>(c.table.blocks().size());
    c.first_position[0] = c.table.first_position();
    tables_.push_back({options_.block_tokens, c.table.blocks(), c.begin, c.first_position});
  }
  positions_.resize(tokens.size());
  std::iota(positions_.begin(), positions_.end(), position_);
  sampled_rows_.clear();
  if (sampled == Rows::kLast) sampled_rows_.push_back(rows - 1);
  if (sampled == Rows::kAll) {
    sampled_rows_.resize(tokens.size());
    std::iota(sampled_rows_.begin(), sampled_rows_.end(), 0);
  }
  sequences_.assign(1, {0, rows, position_});
  history_.insert(history_.end(), tokens.begin(), tokens.end());
  histories_.assign(1, history_);
  view_ = {tokens, positions_, sequences_, tables_, sampled_rows_, histories_};
  return {};
}

void SequenceRunner::commit() {
  position_ += static_cast<int32_t>(view_.rows());
  for (CacheClass& c : classes_) c.table.slide(c.pool, position_);
}

Status SequenceRunner::run_chunks(std::span<const int32_t> tokens, Rows sampled,
                                  const std::function<Status(const Value&)>& finish) {
  const int64_t vocab = decoder_.spec().vocab;
  if (tokens.size() > static_cast<size_t>(options_.context_tokens - position_)) {
    return invalid_argument(
        "{} more tokens after {} exceed the context of {}; raise --max-model-len or shorten the prompt", tokens.size(),
        position_, options_.context_tokens);
  }
  for (int32_t token : tokens) {
    if (token < 0 || token >= vocab) {
      return invalid_argument("token id {} is outside the vocabulary of {}", token, vocab);
    }
  }
  while (!tokens.empty()) {
    const size_t rows = std::min(tokens.size(), static_cast<size_t>(options_.chunk_rows));
    const bool last = rows == tokens.size();
    const Rows wanted = sampled == Rows::kLast && !last ? Rows::kNone : sampled;
    TRY_STATUS(plan(tokens.first(rows), wanted));
    ops_->begin(view_);
    {
      Value result = decoder_.forward(*ops_);
      if (wanted != Rows::kNone) result = decoder_.head(*ops_, result);
      TRY_STATUS(finish(result));
    }
    saturation_.look(*kv_, layers_);
    commit();
    tokens = tokens.subspan(rows);
  }
  return {};
}

Status SequenceRunner::feed(std::span<const int32_t> tokens) {
  return run_chunks(tokens, Rows::kNone, [](const Value&) { return Status{}; });
}

Result<SampledToken> SequenceRunner::feed_and_sample(std::span<const int32_t> tokens, const SampleSpec& spec) {
  if (tokens.empty()) return invalid_argument("no token to continue from; the prompt is empty");
  SampledToken sampled;
  TRY_STATUS(run_chunks(tokens, Rows::kLast, [&](const Value& value) -> Status {
    if (view_.sampled_rows.empty()) return {};
    TRY_BIND(SampledRows drawn, ops_->sample(value, {&spec, 1}));
    if (!drawn.front().ok()) return drawn.front().error();
    sampled = *drawn.front();
    return {};
  }));
  return sampled;
}

Status SequenceRunner::feed_for_logits(std::span<const int32_t> tokens,
                                       const std::function<void(std::span<const float>)>& sink) {
  return run_chunks(tokens, Rows::kAll, [&](const Value& logits) -> Status {
    TRY_BIND(std::vector<float> values, ops_->read(logits));
    sink(values);
    return {};
  });
}

}  // namespace vernier
