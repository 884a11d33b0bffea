#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/block_pool.h"

namespace vernier {

/// The blocks that one sequence holds of one cache class. Holds the positions [first_position, end_position) and no
/// block beyond them; a window class gives blocks back as its window slides. Owned by the engine thread, which clears
/// it before it dies.
class BlockTable {
 public:
  /// `window` counts the query itself: a query at q sees keys k with q - k < window.
  BlockTable(int32_t block_tokens, std::optional<int32_t> window);

  std::span<const int32_t> blocks() const { return blocks_; }
  int32_t first_position() const { return first_position_; }  ///< a multiple of the block size
  int32_t end_position() const { return end_position_; }

  /// Blocks to take before positions below `end` can be written.
  int32_t blocks_needed(int32_t end) const;
  /// Takes them all or, if the pool has too few, none.
  Status extend(BlockPool& pool, int32_t end);
  /// Begins with blocks that others hold or the prefix tree names, from `first_position` on. The table must be empty.
  void share(BlockPool& pool, std::span<const int32_t> blocks, int32_t first_position);
  /// Gives back the blocks that hold no position below `end`, as if it had never been extended past it.
  void shrink(BlockPool& pool, int32_t end);
  /// Gives back the blocks that no query at `next_position` or later can see.
  void slide(BlockPool& pool, int32_t next_position);
  /// Gives all back: what a later prefix hit needs least first, so that it is evicted first.
  void clear(BlockPool& pool);

  /// Blocks that a sequence of `context` tokens, fed `rows` at a time, holds at most.
  static int32_t most_blocks(int32_t block_tokens, std::optional<int32_t> window, int32_t context, int32_t rows);

 private:
  int32_t block_tokens_;
  std::optional<int32_t> window_;
  std::vector<int32_t> blocks_;
  int32_t first_position_ = 0;
  int32_t end_position_ = 0;
};

}  // namespace vernier
