#include "kv/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace vernier {
namespace {

/// One tree with a full class and a window class, or whatever `windows` says, and sequences that fill it.
class Shelf {
 public:
  Shelf(int32_t block_tokens, std::vector<std::optional<int32_t>> windows, int32_t blocks)
      : block_tokens_(block_tokens), windows_(windows), tree_(block_tokens, windows) {
    for (size_t c = 0; c < windows.size(); ++c) pools_.emplace_back(blocks);
  }

  struct Sequence {
    PrefixRoot root;
    std::vector<PrefixUnit> units;
    std::vector<uint64_t> hashes;
    std::vector<BlockTable> tables;
    PrefixNode node;
    int32_t hit = 0;
  };

  static std::vector<PrefixUnit> prompt(int32_t tokens, int32_t first = 0) {
    std::vector<PrefixUnit> units;
    for (int32_t i = 0; i < tokens; ++i) units.push_back(PrefixUnit::token(first + i));
    return units;
  }

  /// Computes a prompt as the scheduler would, in chunks of `rows`, and holds it.
  Sequence run(std::vector<PrefixUnit> units, PrefixRoot root = {}, int32_t rows = 1000) {
    Sequence s{root, std::move(units), {}, {}, {}, 0};
    extend_hashes(root, s.units, block_tokens_, s.hashes);
    for (const auto& window : windows_) s.tables.emplace_back(block_tokens_, window);
    const auto tokens = static_cast<int32_t>(s.units.size());
    const PrefixHit hit = tree_.match({root, s.units, s.hashes}, tokens - 1);
    tree_.share(hit, pools_, s.tables);
    s.node = hit.node;
    s.hit = hit.tokens;
    for (int32_t next = hit.tokens; next < tokens;) {
      next = std::min(tokens, next + rows);
      for (size_t c = 0; c < pools_.size(); ++c) {
        tree_.make_free(static_cast<int32_t>(c), s.tables[c].blocks_needed(next), pools_);
        EXPECT_TRUE(s.tables[c].extend(pools_[c], next).ok());
      }
      s.node = tree_.insert({root, s.units, s.hashes}, next, pools_, s.tables, s.node);
      for (size_t c = 0; c < pools_.size(); ++c) s.tables[c].slide(pools_[c], next - next % block_tokens_);
      EXPECT_TRUE(tree_.check(pools_).ok());
    }
    return s;
  }
  void leave(Sequence s) {
    for (size_t c = 0; c < pools_.size(); ++c) s.tables[c].clear(pools_[c]);
    tree_.leave(s.node, pools_);
    EXPECT_TRUE(tree_.check(pools_).ok());
  }
  /// Runs and leaves; returns the tokens that were cached.
  int32_t visit(std::vector<PrefixUnit> units, PrefixRoot root = {}, int32_t rows = 1000) {
    Sequence s = run(std::move(units), root, rows);
    const int32_t hit = s.hit;
    leave(std::move(s));
    return hit;
  }

  std::vector<BlockPool>& pools() { return pools_; }
  PrefixTree& tree() { return tree_; }

 private:
  int32_t block_tokens_;
  std::vector<std::optional<int32_t>> windows_;
  PrefixTree tree_;
  std::vector<BlockPool> pools_;
};

// Public fault: an exact hit left nothing to compute and the worker died (mlx-lm 1215).
TEST(PrefixTree, AnExactRepeatLeavesTheLastTokenToCompute) {
  for (int32_t tokens : {1, 15, 16, 17, 32}) {
    Shelf shelf(16, {std::nullopt}, 16);
    EXPECT_EQ(shelf.visit(Shelf::prompt(tokens)), 0);
    EXPECT_EQ(shelf.visit(Shelf::prompt(tokens)), (tokens - 1) / 16 * 16);
  }
}

// Public fault: adapter name and tenant salt collided in the block hash (vllm 44701, 30931).
// KV-5
TEST(PrefixTree, TenantAdapterAndWeightVersionAreKeysOfTheirOwn) {
  Shelf shelf(4, {std::nullopt}, 64);
  EXPECT_EQ(shelf.visit(Shelf::prompt(17), {5, 0, 0}), 0);
  EXPECT_EQ(shelf.visit(Shelf::prompt(17), {0, 5, 0}), 0);
  EXPECT_EQ(shelf.visit(Shelf::prompt(17), {0, 0, 5}), 0);
  EXPECT_EQ(shelf.visit(Shelf::prompt(17), {0, 5, 0}), 16);
  EXPECT_EQ(shelf.visit(Shelf::prompt(17), {0, 6, 0}), 0);  // the adapter was loaded again
}

// Public fault: an image was known by 16 bits of its hash (LMCache 4086).
TEST(PrefixTree, MediaThatDifferInOneBitAreDifferent) {
  Shelf shelf(4, {std::nullopt}, 64);
  auto with_image = [](uint64_t high, uint64_t low) {
    std::vector<PrefixUnit> units(9, PrefixUnit::media(high, low));
    return units;
  };
  EXPECT_EQ(shelf.visit(with_image(1, 7)), 0);
  EXPECT_EQ(shelf.visit(with_image(1, 6)), 0);
  EXPECT_EQ(shelf.visit(with_image(3, 7)), 0);
  EXPECT_EQ(shelf.visit(with_image(1, 7)), 8);
  EXPECT_EQ(shelf.visit(std::vector<PrefixUnit>(9, PrefixUnit::token(7))), 0);
}

// Public fault: with a block larger than the window all of the last leaf was out of the window (sglang 29860).
// KV-6
TEST(PrefixTree, ABlockLargerThanTheWindowStillEndsAHit) {
  for (int32_t tokens : {15, 16, 17, 31, 32, 33}) {
    Shelf shelf(16, {std::nullopt, 8}, 16);
    shelf.visit(Shelf::prompt(tokens), {}, 5);
    EXPECT_EQ(shelf.visit(Shelf::prompt(tokens), {}, 5), (tokens - 1) / 16 * 16) << tokens;
    shelf.tree().clear(shelf.pools());
    for (const BlockPool& pool : shelf.pools()) EXPECT_EQ(pool.free_blocks(), pool.blocks());
  }
}

// Public fault: repeating a prompt on a window model processed everything again (llama.cpp 14157, 21831).
TEST(PrefixTree, ARepeatedPromptOnAWindowModelIsRecomputedFromItsLastBlock) {
  Shelf shelf(4, {std::nullopt, 10}, 128);
  shelf.visit(Shelf::prompt(200), {}, 16);
  EXPECT_EQ(shelf.visit(Shelf::prompt(210), {}, 16), 200);
  EXPECT_EQ(shelf.visit(Shelf::prompt(210), {}, 16), 208);
}

// Public fault: eviction in a branch's tail made the whole branch unmatchable while its memory stayed (sglang 35515).
TEST(PrefixTree, UnderPressureOnTheWindowABranchIsUsableOrGone) {
  for (int others = 0; others < 12; ++others) {
    Shelf shelf(4, {std::nullopt, 8}, 100);
    std::vector<BlockPool>& pools = shelf.pools();
    pools[1] = BlockPool(24);
    shelf.visit(Shelf::prompt(64), {}, 8);
    for (int i = 0; i < others; ++i) shelf.visit(Shelf::prompt(24, 1000 * (i + 1)), {}, 8);
    Shelf::Sequence again = shelf.run(Shelf::prompt(65), {}, 8);
    EXPECT_TRUE(again.hit >= 64 - 8 || again.hit == 0) << others << " others: " << again.hit;
    shelf.leave(std::move(again));
  }
}

// KV-8: what no hit can end in is given up with the block that made it useless.
TEST(PrefixTree, NothingIsKeptForNothing) {
  Shelf shelf(4, {std::nullopt, 8}, 32);
  shelf.visit(Shelf::prompt(64), {}, 8);
  shelf.tree().make_free(1, 32, shelf.pools());
  EXPECT_EQ(shelf.tree().nodes(), 0);
  EXPECT_EQ(shelf.pools()[0].free_blocks(), 32);
}

// KV-7; public fault: a window component vetoed the caching of valid full keys and values (sglang 29351).
TEST(PrefixTree, AWindowDecidesAboutItsOwnBlocksOnly) {
  Shelf shelf(4, {std::nullopt, 8}, 32);
  shelf.visit(Shelf::prompt(64), {}, 8);
  shelf.tree().make_free(1, 32 - 2, shelf.pools());  // the oldest: all but the last band
  EXPECT_EQ(shelf.pools()[0].cached_blocks(), 16);
  EXPECT_EQ(shelf.visit(Shelf::prompt(65), {}, 8), 64);
}

// KV-8: the end of a path goes before its front, the path used last stays longest.
TEST(PrefixTree, EvictionTakesTheOldestPathFromItsEnd) {
  Shelf shelf(4, {std::nullopt}, 16);
  shelf.visit(Shelf::prompt(32));        // 8 blocks
  shelf.visit(Shelf::prompt(16, 1000));  // 4 blocks
  shelf.visit(Shelf::prompt(17));        // uses the first 4 again
  shelf.tree().make_free(0, 6, shelf.pools());
  EXPECT_EQ(shelf.visit(Shelf::prompt(17)), 16);
  EXPECT_EQ(shelf.visit(Shelf::prompt(17, 1000)), 16);
}

TEST(PrefixTree, WhatASequenceHoldsIsNeverEvicted) {
  Shelf shelf(4, {std::nullopt}, 8);
  shelf.visit(Shelf::prompt(16));
  Shelf::Sequence held = shelf.run(Shelf::prompt(17));
  EXPECT_EQ(held.hit, 16);
  shelf.tree().make_free(0, 3, shelf.pools());
  for (int32_t block : held.tables[0].blocks()) EXPECT_EQ(shelf.pools()[0].holders(block), 1);
  shelf.leave(std::move(held));
  EXPECT_EQ(shelf.pools()[0].available_blocks(), 8);
}

}  // namespace
}  // namespace vernier
