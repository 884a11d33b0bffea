#include "kv/prefix_tree.h"

#include <algorithm>
#include <array>

namespace vernier {
namespace {

constexpr size_t kMostClasses = 16;

}  // namespace

PrefixTree::PrefixTree(int32_t block_tokens, std::vector<std::optional<int32_t>> windows)
    : block_tokens_(block_tokens), windows_(std::move(windows)), owners_(windows_.size()), buckets_(64, -1) {
  CHECK(block_tokens > 0 && !windows_.empty() && windows_.size() <= kMostClasses, "{} cache classes of {}-token blocks",
        windows_.size(), block_tokens);
  for (const auto& window : windows_) {
    // One at least, though a window of one token sees none: what a hit ends in is then something that can be evicted.
    blocks_seen_.push_back(window ? std::max(1, (*window - 1 + block_tokens - 1) / block_tokens) : 0);
  }
}

std::span<const PrefixUnit> PrefixTree::units(int32_t index) const {
  const auto block = static_cast<size_t>(block_tokens_);
  return std::span(units_).subspan(static_cast<size_t>(index) * block, block);
}

std::span<const PrefixUnit> PrefixTree::units_of(const PrefixKey& key, int32_t depth) const {
  const auto block = static_cast<size_t>(block_tokens_);
  return key.units.subspan(static_cast<size_t>(depth - 1) * block, block);
}

bool PrefixTree::current(PrefixNode ref) const {
  return ref.index >= 0 && node(ref.index).generation == ref.generation;
}

int32_t PrefixTree::first_block_seen(size_t cache_class, int32_t depth) const {
  return windows_[cache_class] ? std::max(0, depth - blocks_seen_[cache_class]) : 0;
}

int32_t PrefixTree::find(int32_t parent, const PrefixRoot& root, uint64_t hash,
                         std::span<const PrefixUnit> wanted) const {
  for (int32_t i = buckets_[bucket(hash)]; i >= 0; i = node(i).next_in_bucket) {
    const Node& n = node(i);
    if (n.hash == hash && n.parent == parent && n.root == root && std::ranges::equal(units(i), wanted)) return i;
  }
  return -1;
}

int32_t PrefixTree::find(int32_t parent, const PrefixKey& key, int32_t depth) const {
  return find(parent, key.root, key.hashes[static_cast<size_t>(depth - 1)], units_of(key, depth));
}

PrefixHit PrefixTree::match(const PrefixKey& key, int32_t most_tokens, int32_t multiple_tokens) const {
  std::array<int32_t, kMostClasses> run{};  // blocks in a row, up to here, that a window class names
  const auto most = std::min(static_cast<int32_t>(key.hashes.size()), most_tokens / block_tokens_);
  PrefixHit hit;
  for (int32_t depth = 1, at = -1; depth <= most; ++depth) {
    at = find(at, key, depth);
    if (at < 0) break;
    bool whole = depth * block_tokens_ % multiple_tokens == 0;
    for (size_t c = 0; c < classes(); ++c) {
      run[c] = block(at, c) >= 0 ? run[c] + 1 : 0;
      whole = whole && (!windows_[c] || run[c] >= std::min(depth, blocks_seen_[c]));
    }
    if (whole) hit = {depth * block_tokens_, reference(at)};
  }
  return hit;
}

void PrefixTree::blocks_of(const PrefixHit& hit, int32_t cache_class, std::vector<int32_t>& blocks) const {
  blocks.clear();
  if (hit.tokens == 0) return;
  CHECK(current(hit.node), "a hit of {} tokens is gone", hit.tokens);
  const auto c = static_cast<size_t>(cache_class);
  const int32_t first = first_block_seen(c, node(hit.node.index).depth);
  for (int32_t i = hit.node.index; i >= 0 && node(i).depth > first; i = node(i).parent) blocks.push_back(block(i, c));
  std::ranges::reverse(blocks);
}

void PrefixTree::share(const PrefixHit& hit, std::span<BlockPool> pools, std::span<BlockTable> tables) const {
  if (hit.tokens == 0) return;
  std::vector<int32_t> blocks;
  for (size_t c = 0; c < classes(); ++c) {
    blocks_of(hit, static_cast<int32_t>(c), blocks);
    tables[c].share(pools[c], blocks, first_block_seen(c, hit.tokens / block_tokens_) * block_tokens_);
  }
}

PrefixNode PrefixTree::insert(const PrefixKey& key, int32_t end, std::span<BlockPool> pools,
                              std::span<const BlockTable> tables, PrefixNode last) {
  const int32_t whole = std::min(end / block_tokens_, static_cast<int32_t>(key.hashes.size()));
  int32_t at = current(last) ? last.index : -1;
  for (int32_t depth = at < 0 ? 1 : node(at).depth + 1; depth <= whole; ++depth) {
    int32_t next = find(at, key, depth);
    if (next < 0) next = add(at, key, depth);
    name_blocks(next, pools, tables);
    at = next;
  }
  return at < 0 ? PrefixNode{} : reference(at);
}

int32_t PrefixTree::add(int32_t parent, const PrefixKey& key, int32_t depth) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<int32_t>(nodes_.size()));
    nodes_.emplace_back();
    units_.resize(nodes_.size() * static_cast<size_t>(block_tokens_));
    blocks_.resize(nodes_.size() * classes(), -1);
    if (nodes_.size() > buckets_.size()) grow_buckets();
  }
  const int32_t index = unused_.back();
  unused_.pop_back();
  std::ranges::copy(units_of(key, depth), units_.begin() + std::ptrdiff_t{index} * block_tokens_);
  Node& n = node(index);
  n.hash = key.hashes[static_cast<size_t>(depth - 1)];
  n.root = key.root;
  n.parent = parent;
  n.depth = depth;
  n.first_child = n.previous_sibling = n.next_sibling = -1;
  if (parent >= 0) {
    n.next_sibling = node(parent).first_child;
    if (n.next_sibling >= 0) node(n.next_sibling).previous_sibling = index;
    node(parent).first_child = index;
  }
  n.next_in_bucket = buckets_[bucket(n.hash)];
  buckets_[bucket(n.hash)] = index;
  return index;
}

void PrefixTree::grow_buckets() {
  buckets_.assign(buckets_.size() * 2, -1);
  for (int32_t i = 0; i < static_cast<int32_t>(nodes_.size()); ++i) {
    if (node(i).depth == 0) continue;
    node(i).next_in_bucket = buckets_[bucket(node(i).hash)];
    buckets_[bucket(node(i).hash)] = i;
  }
}

void PrefixTree::name_blocks(int32_t index, std::span<BlockPool> pools, std::span<const BlockTable> tables) {
  for (size_t c = 0; c < classes(); ++c) {
    const int32_t at = node(index).depth - 1 - tables[c].first_position() / block_tokens_;
    if (block(index, c) >= 0 || at < 0) continue;
    const int32_t held = tables[c].blocks()[static_cast<size_t>(at)];
    pools[c].enroll(held);
    block(index, c) = held;
    owners_[c].resize(static_cast<size_t>(pools[c].blocks()), -1);
    owners_[c][static_cast<size_t>(held)] = index;
  }
}

void PrefixTree::leave(PrefixNode last, std::span<BlockPool> pools) {
  if (!current(last)) return;
  for (int32_t i = last.index; i >= 0; i = node(i).parent) {
    for (size_t c = 0; c < classes(); ++c) {
      if (!windows_[c] && pools[c].holders(block(i, c)) == 0) pools[c].touch(block(i, c));
    }
  }
  prune(last.index, pools);
}

void PrefixTree::make_free(int32_t cache_class, int32_t count, std::span<BlockPool> pools) {
  const auto c = static_cast<size_t>(cache_class);
  while (pools[c].free_blocks() < count) {
    const int32_t oldest = pools[c].oldest_cached();
    CHECK(oldest >= 0, "class {}: {} blocks are free and none is cached, {} are wanted", c, pools[c].free_blocks(),
          count);
    const int32_t index = owners_[c][static_cast<size_t>(oldest)];
    if (windows_[c]) {
      block(index, c) = -1;
      pools[c].dismiss(oldest);
      prune_below(index, blocks_seen_[c], pools);
    } else {
      const int32_t parent = node(index).parent;
      remove_subtree(index, pools);
      prune(parent, pools);
    }
  }
}

void PrefixTree::clear(std::span<BlockPool> pools) {
  for (int32_t i = 0; i < static_cast<int32_t>(nodes_.size()); ++i) {
    if (node(i).depth == 1) remove_subtree(i, pools);
  }
}

void PrefixTree::unlink(int32_t index) {
  const Node& n = node(index);
  int32_t* link = &buckets_[bucket(n.hash)];
  while (*link != index) link = &node(*link).next_in_bucket;
  *link = n.next_in_bucket;
  if (n.next_sibling >= 0) node(n.next_sibling).previous_sibling = n.previous_sibling;
  if (n.previous_sibling >= 0) {
    node(n.previous_sibling).next_sibling = n.next_sibling;
  } else if (n.parent >= 0) {
    node(n.parent).first_child = n.next_sibling;
  }
}

void PrefixTree::remove_subtree(int32_t index, std::span<BlockPool> pools) {
  std::vector<int32_t> going{index};
  for (size_t i = 0; i < going.size(); ++i) {
    for (int32_t child = node(going[i]).first_child; child >= 0; child = node(child).next_sibling)
      going.push_back(child);
  }
  for (auto i = going.rbegin(); i != going.rend(); ++i) {  // children first: a node's links stay good until its turn
    unlink(*i);
    for (size_t c = 0; c < classes(); ++c) {
      if (block(*i, c) >= 0) pools[c].dismiss(block(*i, c));
      block(*i, c) = -1;
    }
    node(*i).depth = 0;
    ++node(*i).generation;
    unused_.push_back(*i);
  }
}

bool PrefixTree::held(int32_t index, std::span<const BlockPool> pools) const {
  for (size_t c = 0; c < classes(); ++c) {
    if (block(index, c) >= 0 && pools[c].holders(block(index, c)) > 0) return true;
  }
  return false;
}

bool PrefixTree::ends_hit(int32_t index) const {
  for (size_t c = 0; c < classes(); ++c) {
    if (!windows_[c]) continue;
    const int32_t first = first_block_seen(c, node(index).depth);
    for (int32_t i = index; i >= 0 && node(i).depth > first; i = node(i).parent) {
      if (block(i, c) < 0) return false;
    }
  }
  return true;
}

void PrefixTree::prune(int32_t index, std::span<BlockPool> pools) {
  while (index >= 0 && node(index).first_child < 0 && !held(index, pools) && !ends_hit(index)) {
    const int32_t parent = node(index).parent;
    remove_subtree(index, pools);
    index = parent;
  }
}

void PrefixTree::prune_below(int32_t index, int32_t levels, std::span<BlockPool> pools) {
  std::vector<int32_t> reached{index};
  const int32_t end = node(index).depth + levels;
  for (size_t i = 0; i < reached.size(); ++i) {
    for (int32_t child = node(reached[i]).first_child; child >= 0 && node(child).depth < end;
         child = node(child).next_sibling) {
      reached.push_back(child);
    }
  }
  // Leaves first found are pruned with what becomes a leaf above them, so none is met twice.
  std::erase_if(reached, [&](int32_t i) { return node(i).first_child >= 0; });
  for (int32_t leaf : reached) prune(leaf, pools);
}

Status PrefixTree::check_node(int32_t index, std::span<const BlockPool> pools) const {
  const Node& n = node(index);
  if (n.depth != 1 + (n.parent < 0 ? 0 : node(n.parent).depth)) return corrupt("node {}: depth {}", index, n.depth);
  if (n.parent >= 0 && node(n.parent).depth == 0) return corrupt("node {} hangs below one that is gone", index);
  if (n.parent >= 0 && !(node(n.parent).root == n.root)) return corrupt("node {} has another root", index);
  if (find(n.parent, n.root, n.hash, units(index)) != index) return corrupt("node {} is not found by its units", index);
  for (int32_t child = n.first_child; child >= 0; child = node(child).next_sibling) {
    if (node(child).parent != index) return corrupt("node {} has a foreign child", index);
  }
  for (size_t c = 0; c < classes(); ++c) {
    const int32_t b = block(index, c);
    if (b < 0 && !windows_[c]) return corrupt("node {} lacks its block of class {}", index, c);
    if (b < 0) continue;
    if (!pools[c].in_tree(b)) return corrupt("node {} names block {} of class {}, the pool does not know", index, b, c);
    if (owners_[c][static_cast<size_t>(b)] != index) return corrupt("block {} of class {} has two nodes", b, c);
  }
  return {};
}

Status PrefixTree::check(std::span<const BlockPool> pools) const {
  std::vector<int32_t> named(classes(), 0);
  int32_t used = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(nodes_.size()); ++i) {
    if (node(i).depth == 0) continue;
    ++used;
    TRY_STATUS(check_node(i, pools));
    for (size_t c = 0; c < classes(); ++c) named[c] += block(i, c) >= 0;
  }
  if (used != nodes()) return corrupt("{} nodes are used, {} are counted", used, nodes());
  for (size_t c = 0; c < classes(); ++c) {
    int32_t enrolled = 0;
    for (int32_t b = 0; b < pools[c].blocks(); ++b) enrolled += pools[c].in_tree(b);
    if (enrolled != named[c]) return corrupt("class {}: {} blocks enrolled, {} named", c, enrolled, named[c]);
  }
  return {};
}

}  // namespace vernier
