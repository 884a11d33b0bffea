#include "kv/block_pool.h"

namespace vernier {

BlockPool::BlockPool(int32_t blocks) : states_(static_cast<size_t>(blocks)) {
  CHECK(blocks > 0, "a pool of {} blocks", blocks);
  free_.reserve(states_.size());
  for (int32_t block = blocks - 1; block >= 0; --block) free_.push_back(block);
}

const BlockPool::State& BlockPool::state(int32_t block) const {
  CHECK(block >= 0 && block < blocks(), "block {} of {}", block, blocks());
  return states_[static_cast<size_t>(block)];
}

Result<int32_t> BlockPool::take() {
  if (free_.empty()) {
    return make_error(ErrorCode::kOutOfMemory,
                      "all {} cache blocks are taken; raise --max-model-len or shorten the request", blocks());
  }
  int32_t block = free_.back();
  free_.pop_back();
  state(block).holders = 1;
  return block;
}

void BlockPool::hold(int32_t block) {
  State& s = state(block);
  CHECK(s.holders > 0 || s.in_tree, "block {} is free and cannot be shared", block);
  if (s.holders++ == 0) unlink(block);
}

void BlockPool::give(int32_t block) {
  State& s = state(block);
  CHECK(s.holders > 0, "block {} was not taken", block);
  if (--s.holders > 0) return;
  if (s.in_tree) {
    append_newest(block);
  } else {
    free_.push_back(block);
  }
}

void BlockPool::enroll(int32_t block) {
  State& s = state(block);
  CHECK(s.holders > 0 && !s.in_tree, "block {} has {} holders and cannot join the tree", block, s.holders);
  s.in_tree = true;
}

void BlockPool::dismiss(int32_t block) {
  State& s = state(block);
  CHECK(s.in_tree, "block {} is not in the tree", block);
  s.in_tree = false;
  if (s.holders > 0) return;
  unlink(block);
  free_.push_back(block);
}

void BlockPool::touch(int32_t block) {
  const State& s = state(block);
  CHECK(s.in_tree && s.holders == 0, "block {} is not cached", block);
  unlink(block);
  append_newest(block);
}

void BlockPool::append_newest(int32_t block) {
  State& s = state(block);
  s.older = newest_;
  s.newer = -1;
  (newest_ < 0 ? oldest_ : state(newest_).newer) = block;
  newest_ = block;
  ++cached_;
}

void BlockPool::unlink(int32_t block) {
  State& s = state(block);
  (s.older < 0 ? oldest_ : state(s.older).newer) = s.newer;
  (s.newer < 0 ? newest_ : state(s.newer).older) = s.older;
  s.older = s.newer = -1;
  --cached_;
}

Status BlockPool::check() const {
  std::vector<bool> seen(states_.size(), false);
  for (int32_t block : free_) {
    if (block < 0 || block >= blocks()) return corrupt("free list names block {} of {}", block, blocks());
    if (seen[static_cast<size_t>(block)]) return corrupt("block {} is free twice", block);
    if (holders(block) > 0 || in_tree(block)) return corrupt("block {} is free and taken", block);
    seen[static_cast<size_t>(block)] = true;
  }
  int32_t listed = 0;
  for (int32_t block = oldest_, before = -1; block >= 0; before = block, block = state(block).newer, ++listed) {
    if (state(block).older != before) return corrupt("block {} follows {} in one direction only", block, before);
    if (seen[static_cast<size_t>(block)]) return corrupt("block {} is listed twice", block);
    if (holders(block) > 0 || !in_tree(block)) return corrupt("block {} is listed as cached and is not", block);
    seen[static_cast<size_t>(block)] = true;
  }
  if (listed != cached_) return corrupt("{} blocks are listed as cached, {} are counted", listed, cached_);
  for (int32_t block = 0; block < blocks(); ++block) {
    if (!seen[static_cast<size_t>(block)] && holders(block) == 0) return corrupt("block {} is lost", block);
  }
  return {};
}

}  // namespace vernier
