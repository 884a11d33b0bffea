#include "kv/block_pool.h"

namespace vernier {

BlockPool::BlockPool(int32_t blocks) : taken_(static_cast<size_t>(blocks), false) {
  CHECK(blocks > 0, "a pool of {} blocks", blocks);
  for (int32_t block = blocks - 1; block >= 0; --block) free_.push_back(block);
}

Result<int32_t> BlockPool::take() {
  if (free_.empty()) {
    return make_error(ErrorCode::kOutOfMemory,
                      "all {} cache blocks are taken; raise --max-model-len or shorten the request", blocks());
  }
  int32_t block = free_.back();
  free_.pop_back();
  taken_[static_cast<size_t>(block)] = true;
  return block;
}

void BlockPool::give(int32_t block) {
  CHECK(block >= 0 && block < blocks() && taken_[static_cast<size_t>(block)], "block {} was not taken", block);
  taken_[static_cast<size_t>(block)] = false;
  free_.push_back(block);
}

Status BlockPool::check() const {
  std::vector<bool> seen(taken_.size(), false);
  for (int32_t block : free_) {
    if (block < 0 || block >= blocks()) return corrupt("free list names block {} of {}", block, blocks());
    if (seen[static_cast<size_t>(block)]) return corrupt("block {} is free twice", block);
    if (taken_[static_cast<size_t>(block)]) return corrupt("block {} is free and taken", block);
    seen[static_cast<size_t>(block)] = true;
  }
  for (int32_t block = 0; block < blocks(); ++block) {
    if (!seen[static_cast<size_t>(block)] && !taken_[static_cast<size_t>(block)])
      return corrupt("block {} is lost", block);
  }
  return {};
}

}  // namespace vernier
