#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace vernier {

/// Which blocks of one cache class are free. Knows numbers only: the bytes behind a block belong to the backend. Owned
/// by the engine thread. Taking from an empty pool is an expected failure; giving back a free block is a programmer's
/// error.
class BlockPool {
 public:
  explicit BlockPool(int32_t blocks);

  int32_t blocks() const { return static_cast<int32_t>(taken_.size()); }
  int32_t free_blocks() const { return static_cast<int32_t>(free_.size()); }

  /// A free block, the most recently given back first, for its warm cache lines.
  Result<int32_t> take();
  void give(int32_t block);

  /// Every block is free or taken, never both, and the free list holds none twice.
  Status check() const;

 private:
  std::vector<int32_t> free_;
  std::vector<bool> taken_;
};

}  // namespace vernier
