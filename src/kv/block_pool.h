#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace vernier {

/// The blocks of one cache class. A block is free, held (by one sequence or more), or cached: named by the prefix tree
/// and held by nobody, so that it may be evicted. Knows numbers only: the bytes behind a block belong to the backend.
/// Owned by the engine thread. Taking from an empty pool is an expected failure; giving back what nobody holds is a
/// programmer's error.
class BlockPool {
 public:
  explicit BlockPool(int32_t blocks);

  int32_t blocks() const { return static_cast<int32_t>(states_.size()); }
  int32_t free_blocks() const { return static_cast<int32_t>(free_.size()); }
  int32_t cached_blocks() const { return cached_; }
  int32_t available_blocks() const { return free_blocks() + cached_; }  ///< free, or free after eviction
  int32_t holders(int32_t block) const { return state(block).holders; }
  bool in_tree(int32_t block) const { return state(block).in_tree; }

  /// A free block, the most recently given back first, for its warm cache lines.
  Result<int32_t> take();
  /// One more holder of a block that is held or cached.
  void hold(int32_t block);
  /// One holder fewer. The last one leaves the block cached if the tree names it, as the most recently used, else free.
  void give(int32_t block);

  /// The tree names a held block, or names it no more.
  void enroll(int32_t block);
  void dismiss(int32_t block);
  /// Makes a cached block the most recently used one.
  void touch(int32_t block);
  /// The cached block that was used least recently; -1 if none is cached.
  int32_t oldest_cached() const { return oldest_; }

  /// Every block is free, held or cached, and only one of them; both lists hold each of their blocks once.
  Status check() const;

 private:
  struct State {
    int32_t holders = 0;
    int32_t older = -1;  // neighbours in the order of use, of a cached block
    int32_t newer = -1;
    bool in_tree = false;
  };

  const State& state(int32_t block) const;
  State& state(int32_t block) { return const_cast<State&>(static_cast<const BlockPool*>(this)->state(block)); }
  void append_newest(int32_t block);
  void unlink(int32_t block);

  std::vector<int32_t> free_;
  std::vector<State> states_;
  int32_t oldest_ = -1;
  int32_t newest_ = -1;
  int32_t cached_ = 0;
};

}  // namespace vernier
