#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/block_pool.h"
#include "kv/block_table.h"
#include "kv/prefix_key.h"

namespace vernier {

/// A node of the prefix tree as a sequence remembers it; stale once the node is gone.
struct PrefixNode {
  int32_t index = -1;
  uint32_t generation = 0;
};

/// What of a prompt is cached and usable: whole blocks from position 0 to `tokens`.
struct PrefixHit {
  int32_t tokens = 0;
  PrefixNode node;  ///< the last block of it
};

/// Which blocks hold which prefix, shared by all sequences. A node is one block of units below its parent; it names one
/// block of each full class and, of a window class, one or none. It refers to blocks and holds none: what no sequence
/// holds is evicted in order of use. One thread; the pools, one for each class, are the caller's.
class PrefixTree {
 public:
  /// `windows`: one entry for each cache class, empty for a class that sees everything.
  PrefixTree(int32_t block_tokens, std::vector<std::optional<int32_t>> windows);

  int32_t nodes() const { return static_cast<int32_t>(nodes_.size() - unused_.size()); }

  /// The longest prefix of at most `most_tokens` where each window class still names every block that holds what a
  /// query behind it sees. It ends at a multiple of `multiple_tokens`, itself a multiple of the block size.
  PrefixHit match(const PrefixKey& key, int32_t most_tokens, int32_t multiple_tokens) const;
  PrefixHit match(const PrefixKey& key, int32_t most_tokens) const { return match(key, most_tokens, block_tokens_); }
  /// Lets the empty tables, one for each class, begin with the blocks of a hit.
  void share(const PrefixHit& hit, std::span<BlockPool> pools, std::span<BlockTable> tables) const;

  /// Names the whole blocks below `end` that the tables hold, where no block is named yet. `last` is the node of the
  /// block before, if the caller knows it. Returns the last node.
  PrefixNode insert(const PrefixKey& key, int32_t end, std::span<BlockPool> pools, std::span<const BlockTable> tables,
                    PrefixNode last);
  /// A sequence gave its blocks back: its path becomes the most recently used one, what no hit can end in goes.
  void leave(PrefixNode last, std::span<BlockPool> pools);

  /// Evicts until `count` blocks of the class are free. They must be available.
  void make_free(int32_t cache_class, int32_t count, std::span<BlockPool> pools);
  /// Forgets everything: after new weights, say. Blocks that sequences hold stay theirs.
  void clear(std::span<BlockPool> pools);

  /// The class's blocks that a hit would bring, in order of position.
  void blocks_of(const PrefixHit& hit, int32_t cache_class, std::vector<int32_t>& blocks) const;

  /// Every node hangs where its units say, names each full class, and agrees with the pools.
  Status check(std::span<const BlockPool> pools) const;

 private:
  struct Node {
    uint64_t hash = 0;
    PrefixRoot root;
    int32_t parent = -1;
    int32_t first_child = -1;
    int32_t next_sibling = -1;
    int32_t previous_sibling = -1;
    int32_t next_in_bucket = -1;
    int32_t depth = 0;  // blocks from the root to its end; 0: unused
    uint32_t generation = 0;
  };

  size_t classes() const { return windows_.size(); }
  Node& node(int32_t index) { return nodes_[static_cast<size_t>(index)]; }
  const Node& node(int32_t index) const { return nodes_[static_cast<size_t>(index)]; }
  int32_t& block(int32_t index, size_t c) { return blocks_[static_cast<size_t>(index) * classes() + c]; }
  int32_t block(int32_t index, size_t c) const { return blocks_[static_cast<size_t>(index) * classes() + c]; }
  std::span<const PrefixUnit> units(int32_t index) const;
  int32_t first_block_seen(size_t cache_class, int32_t depth) const;
  bool current(PrefixNode ref) const;
  PrefixNode reference(int32_t index) const { return {index, node(index).generation}; }

  int32_t find(int32_t parent, const PrefixRoot& root, uint64_t hash, std::span<const PrefixUnit> units) const;
  int32_t find(int32_t parent, const PrefixKey& key, int32_t depth) const;
  int32_t add(int32_t parent, const PrefixKey& key, int32_t depth);
  size_t bucket(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  std::span<const PrefixUnit> units_of(const PrefixKey& key, int32_t depth) const;
  void name_blocks(int32_t index, std::span<BlockPool> pools, std::span<const BlockTable> tables);
  void grow_buckets();
  void unlink(int32_t index);
  void remove_subtree(int32_t index, std::span<BlockPool> pools);
  /// Removes a leaf that ends no hit and that nobody holds, and then its parent in the same way.
  void prune(int32_t index, std::span<BlockPool> pools);
  /// Prunes the leaves at `index` and less than `levels` below it.
  void prune_below(int32_t index, int32_t levels, std::span<BlockPool> pools);
  Status check_node(int32_t index, std::span<const BlockPool> pools) const;
  bool ends_hit(int32_t index) const;
  bool held(int32_t index, std::span<const BlockPool> pools) const;

  int32_t block_tokens_;
  std::vector<std::optional<int32_t>> windows_;
  std::vector<int32_t> blocks_seen_;  // of a window class: blocks that a query at a block's first position sees
  std::vector<Node> nodes_;
  std::vector<PrefixUnit> units_;             // [nodes, block_tokens]
  std::vector<int32_t> blocks_;               // [nodes, classes]
  std::vector<std::vector<int32_t>> owners_;  // [classes][blocks] the node that names a block
  std::vector<int32_t> buckets_;              // a power of two
  std::vector<int32_t> unused_;
};

}  // namespace vernier
