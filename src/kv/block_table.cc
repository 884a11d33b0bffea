#include "kv/block_table.h"

#include <algorithm>

namespace vernier {

BlockTable::BlockTable(int32_t block_tokens, std::optional<int32_t> window)
    : block_tokens_(block_tokens), window_(window) {
  CHECK(block_tokens > 0 && window.value_or(1) > 0, "blocks of {} tokens, window {}", block_tokens, window.value_or(0));
}

int32_t BlockTable::blocks_needed(int32_t end) const {
  int32_t covered = first_position_ + static_cast<int32_t>(blocks_.size()) * block_tokens_;
  return std::max(0, (end - covered + block_tokens_ - 1) / block_tokens_);
}

Status BlockTable::extend(BlockPool& pool, int32_t end) {
  const int32_t needed = blocks_needed(end);
  if (needed > pool.free_blocks()) {
    return make_error(ErrorCode::kOutOfMemory, "position {} needs {} more cache blocks of {} tokens, {} are free",
                      end - 1, needed, block_tokens_, pool.free_blocks());
  }
  for (int32_t i = 0; i < needed; ++i) {
    TRY_BIND(int32_t block, pool.take());
    blocks_.push_back(block);
  }
  end_position_ = std::max(end_position_, end);
  return {};
}

void BlockTable::share(BlockPool& pool, std::span<const int32_t> blocks, int32_t first_position) {
  CHECK(blocks_.empty() && end_position_ == 0, "a table of {} blocks cannot begin with a prefix", blocks_.size());
  CHECK(first_position % block_tokens_ == 0, "a prefix from position {}, blocks of {}", first_position, block_tokens_);
  for (int32_t block : blocks) pool.hold(block);
  blocks_.assign(blocks.begin(), blocks.end());
  first_position_ = first_position;
  end_position_ = first_position + static_cast<int32_t>(blocks.size()) * block_tokens_;
}

void BlockTable::shrink(BlockPool& pool, int32_t end) {
  const int32_t kept = std::max(0, end - first_position_ + block_tokens_ - 1) / block_tokens_;
  while (static_cast<int32_t>(blocks_.size()) > kept) {
    pool.give(blocks_.back());
    blocks_.pop_back();
  }
  end_position_ = std::min(end_position_, end);
}

void BlockTable::slide(BlockPool& pool, int32_t next_position) {
  if (!window_) return;
  const int32_t oldest_visible = std::max(0, next_position - *window_ + 1);
  const auto unseen = static_cast<size_t>(std::max(0, (oldest_visible - first_position_) / block_tokens_));
  const size_t dropped = std::min(unseen, blocks_.size());
  for (size_t i = 0; i < dropped; ++i) pool.give(blocks_[i]);
  blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(dropped));
  first_position_ += static_cast<int32_t>(dropped) * block_tokens_;
}

void BlockTable::clear(BlockPool& pool) {
  // A hit needs a full class from the front and a window class at the end.
  if (!window_) std::reverse(blocks_.begin(), blocks_.end());
  for (int32_t block : blocks_) pool.give(block);
  blocks_.clear();
  first_position_ = 0;
  end_position_ = 0;
}

int32_t BlockTable::most_blocks(int32_t block_tokens, std::optional<int32_t> window, int32_t context, int32_t rows) {
  const int32_t whole = (context + block_tokens - 1) / block_tokens;
  if (!window) return whole;
  // window - 1 keys before the first row, the rows, and a partly unseen block in front.
  return std::min(whole, (*window - 1 + rows + block_tokens - 1) / block_tokens + 1);
}

}  // namespace vernier
