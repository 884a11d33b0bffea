#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "kv/block_table.h"
#include "ops/backend.h"

namespace vernier::testing {

/// Feeds several sequences to one Ops, any number of rows each in a step, with real block tables: blocks are handed out
/// in no order, and window classes hold only their window, so their blocks are soon used again. CHECKs everything.
class StepDriver {
 public:
  struct Options {
    int32_t block_tokens = 4;
    size_t sequences = 1;
    int32_t context_tokens = 64;
    int32_t max_rows = 64;
    unsigned seed = 1;
  };

  StepDriver(Backend& backend, const std::vector<CacheSpec>& layers, const Options& options)
      : options_(options), next_position_(options.sequences, 0), tokens_of_(options.sequences) {
    KvLayout layout{layers, {}, options.block_tokens};
    for (const CacheSpec& spec : layers) {
      if (static_cast<size_t>(spec.cache_class) < classes_.size()) continue;
      CHECK(static_cast<size_t>(spec.cache_class) == classes_.size(), "cache classes are numbered by first use");
      std::optional<int32_t> window = spec.window;
      int32_t blocks = static_cast<int32_t>(options.sequences) *
                       BlockTable::most_blocks(options.block_tokens, window, options.context_tokens, options.max_rows);
      layout.class_blocks.push_back(blocks);
      classes_.push_back(Class{BlockPool(blocks), {}, {}, {}, {}});
      classes_.back().tables.assign(options.sequences, BlockTable(options.block_tokens, window));
      shuffle(classes_.back().pool);
    }
    kv_ = backend.make_kv(layout).value();
    ops_ = backend.make_ops(*kv_, options.max_rows).value();
  }

  Ops& ops() { return *ops_; }
  KvStore& kv() { return *kv_; }
  const StepView& view() const { return view_; }

  /// Begins a step with `tokens[s]` for sequence s; none is fine. Every row is sampled.
  void begin(const std::vector<std::vector<int32_t>>& tokens) {
    tokens_.clear();
    positions_.clear();
    rows_.clear();
    histories_.clear();
    for (Class& of : classes_) {
      of.blocks.clear();
      of.begin.assign(1, 0);
      of.first_position.clear();
    }
    for (size_t sequence = 0; sequence < tokens.size(); ++sequence) {
      if (!tokens[sequence].empty()) append(sequence, tokens[sequence]);
    }
    sampled_.resize(tokens_.size());
    for (size_t row = 0; row < sampled_.size(); ++row) sampled_[row] = static_cast<int32_t>(row);
    tables_.clear();
    for (const Class& of : classes_) {
      tables_.push_back(CacheTable{options_.block_tokens, of.blocks, of.begin, of.first_position});
    }
    view_ = StepView{tokens_, positions_, rows_, tables_, sampled_, histories_};
    ops_->begin(view_);
  }

  /// Ends the step that `begin` began: windows slide.
  void commit(const std::vector<std::vector<int32_t>>& tokens) {
    for (size_t sequence = 0; sequence < tokens.size(); ++sequence) {
      next_position_[sequence] += static_cast<int32_t>(tokens[sequence].size());
      for (Class& of : classes_) of.tables[sequence].slide(of.pool, next_position_[sequence]);
    }
  }

 private:
  struct Class {
    BlockPool pool;
    std::vector<BlockTable> tables;  // by sequence
    std::vector<int32_t> blocks, begin, first_position;
  };

  void shuffle(BlockPool& pool) {
    std::vector<int32_t> blocks;
    while (pool.free_blocks() > 0) blocks.push_back(pool.take().value());
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937(options_.seed));
    for (int32_t block : blocks) pool.give(block);
  }

  void append(size_t sequence, const std::vector<int32_t>& tokens) {
    const int32_t count = static_cast<int32_t>(tokens.size()), first = next_position_[sequence];
    rows_.push_back(SequenceRows{static_cast<int32_t>(tokens_.size()), count, first});
    // What was begun and not committed is not the sequence's.
    std::vector<int32_t>& own = tokens_of_[sequence];
    own.resize(static_cast<size_t>(first));
    own.insert(own.end(), tokens.begin(), tokens.end());
    histories_.emplace_back(own);
    for (int32_t i = 0; i < count; ++i) {
      tokens_.push_back(tokens[static_cast<size_t>(i)]);
      positions_.push_back(first + i);
    }
    for (Class& of : classes_) {
      BlockTable& table = of.tables[sequence];
      Status taken = table.extend(of.pool, first + count);
      CHECK(taken.ok(), "{}", taken.ok() ? "" : taken.error().to_string());
      of.blocks.insert(of.blocks.end(), table.blocks().begin(), table.blocks().end());
      of.begin.push_back(static_cast<int32_t>(of.blocks.size()));
      of.first_position.push_back(table.first_position());
    }
  }

  Options options_;
  std::vector<int32_t> next_position_;           // by sequence
  std::vector<std::vector<int32_t>> tokens_of_;  // by sequence, to the end of its last step
  std::vector<Class> classes_;
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<Ops> ops_;

  StepView view_;
  std::vector<int32_t> tokens_, positions_, sampled_;
  std::vector<SequenceRows> rows_;
  std::vector<std::span<const int32_t>> histories_;
  std::vector<CacheTable> tables_;
};

}  // namespace vernier::testing
