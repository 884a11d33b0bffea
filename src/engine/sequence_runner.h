#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/saturation_log.h"
#include "kv/block_table.h"
#include "models/decoder.h"
#include "ops/backend.h"

namespace vernier {

struct RunnerOptions {
  CodecId kv_type = CodecId::kF16;
  std::vector<CacheSpec> caches = {};  ///< of each layer, as plan_cache makes them; empty: all of kv_type, unscaled
  int32_t context_tokens = 4096;       ///< longest sequence; sizes the cache
  int32_t chunk_rows = 256;            ///< rows of one step at most; a longer prompt is fed in chunks
  int32_t block_tokens = 64;           ///< tokens of a cache block
};

/// Runs one sequence through a model, step by step, and owns its cache, its blocks and its position. The model and the
/// backend outlive it. One thread. After a failed call only `reset` is allowed.
///
/// A step is plan (take blocks, fill the view), forward, read or sample, commit (move the position, slide the windows);
/// the position moves only after the device succeeded.
class SequenceRunner {
 public:
  /// Refuses a context that the model was not made for, and what the backend cannot hold.
  static Result<std::unique_ptr<SequenceRunner>> make(Backend& backend, const Decoder& decoder,
                                                      const RunnerOptions& options);
  ~SequenceRunner();

  int32_t position() const { return position_; }  ///< tokens in the cache
  int32_t context_tokens() const { return options_.context_tokens; }
  int64_t cache_bytes() const { return kv_->bytes(); }
  const std::vector<CacheSpec>& caches() const { return layers_; }
  /// Of each layer, how many numbers did not fit into the cache's type.
  std::vector<int64_t> saturated() const { return kv_->saturated(); }
  /// Bytes of keys and values that a token at `position` attends to.
  int64_t cache_bytes_read_at(int32_t position) const;

  /// Feeds tokens for their keys and values alone.
  Status feed(std::span<const int32_t> tokens);
  /// Feeds tokens (at least one) and draws what follows the last.
  Result<SampledToken> feed_and_sample(std::span<const int32_t> tokens, const SampleSpec& spec);
  /// Feeds tokens and hands the logits of each chunk's rows to `sink`, [rows, vocab].
  Status feed_for_logits(std::span<const int32_t> tokens, const std::function<void(std::span<const float>)>& sink);
  /// Forgets the sequence.
  void reset();

 private:
  struct CacheClass {
    BlockPool pool;
    BlockTable table;
    std::vector<int32_t> begin;           // [2]
    std::vector<int32_t> first_position;  // [1]
  };

  SequenceRunner(const Decoder& decoder, const RunnerOptions& options) : decoder_(decoder), options_(options) {}

  enum class Rows { kNone, kLast, kAll };
  /// Takes the blocks of the next rows and describes them; `view_` is valid until the next plan.
  Status plan(std::span<const int32_t> tokens, Rows sampled);
  void commit();
  Status run_chunks(std::span<const int32_t> tokens, Rows sampled, const std::function<Status(const Value&)>& finish);

  const Decoder& decoder_;
  RunnerOptions options_;
  std::vector<CacheSpec> layers_;
  std::vector<CacheClass> classes_;
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<Ops> ops_;
  SaturationLog saturation_;
  int32_t position_ = 0;

  StepView view_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> sampled_rows_;
  std::vector<SequenceRows> sequences_;
  std::vector<int32_t> history_;  // all tokens up to the end of the view
  std::vector<std::span<const int32_t>> histories_;
  std::vector<CacheTable> tables_;
};

}  // namespace vernier
