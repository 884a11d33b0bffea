#include "kv/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

namespace vernier {
namespace {

/// VERNIER_PROPERTY_SCALE=20 runs twenty times as many operations.
int rounds(int base) {
  const char* text = std::getenv("VERNIER_PROPERTY_SCALE");
  return base * (text == nullptr ? 1 : std::max(1, std::atoi(text)));
}

struct Prompt {
  PrefixRoot root;
  std::vector<PrefixUnit> units;
  std::vector<uint64_t> hashes;

  PrefixKey key() const { return {root, units, hashes}; }
};

/// What a block was written for: the root and all units up to its end.
struct Content {
  PrefixRoot root;
  std::vector<PrefixUnit> units;

  bool is_prefix_of(const Prompt& prompt, int32_t tokens) const {
    return root == prompt.root && static_cast<int32_t>(units.size()) == tokens &&
           std::equal(units.begin(), units.end(), prompt.units.begin());
  }
};

/// Sequences that come, grow, slide and go over one tree, beside a plain list of what each block was written for.
class Garden {
 public:
  Garden(std::mt19937& random, bool colliding)
      : random_(random),
        colliding_(colliding),
        block_tokens_(pick(1, 6)),
        windows_(random_windows()),
        tree_(block_tokens_, windows_) {
    for (size_t c = 0; c < windows_.size(); ++c) {
      pools_.emplace_back(pick(6, 40));
      contents_.emplace_back(static_cast<size_t>(pools_.back().blocks()));
    }
  }

  void act() {
    const int choice = pick(0, 9);
    if (choice < 3 && sequences_.size() < 4) {
      begin();
    } else if (choice < 8 && !sequences_.empty()) {
      grow(sequences_[static_cast<size_t>(pick(0, static_cast<int32_t>(sequences_.size()) - 1))]);
    } else if (choice == 8 && !sequences_.empty()) {
      end(static_cast<size_t>(pick(0, static_cast<int32_t>(sequences_.size()) - 1)));
    } else if (pick(0, 200) == 0) {
      tree_.clear(pools_);
    }
    check();
  }

  /// KV-9: with nobody left, all blocks can be taken, and the tree is empty then.
  void take_all() {
    while (!sequences_.empty()) end(sequences_.size() - 1);
    for (size_t c = 0; c < pools_.size(); ++c) {
      tree_.make_free(static_cast<int32_t>(c), pools_[c].blocks(), pools_);
      EXPECT_EQ(pools_[c].free_blocks(), pools_[c].blocks());
    }
    EXPECT_EQ(tree_.nodes(), 0);
    EXPECT_TRUE(tree_.check(pools_).ok());
  }

  int64_t hits = 0;

 private:
  struct Sequence {
    Prompt prompt;
    std::vector<BlockTable> tables;
    PrefixNode node;
    int32_t next = 0;
  };

  int32_t pick(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random_); }
  std::vector<std::optional<int32_t>> random_windows() {
    std::vector<std::optional<int32_t>> windows;
    for (int c = pick(1, 3); c > 0; --c) {
      windows.push_back(pick(0, 1) == 0 ? std::optional<int32_t>() : pick(1, 15));
    }
    return windows;
  }

  Prompt random_prompt() {
    Prompt prompt;
    prompt.root.tenant = static_cast<uint64_t>(pick(0, 5) == 0);
    prompt.root.adapter = static_cast<uint64_t>(pick(0, 5) == 0);
    // Few different units, long runs of the first: prompts share much.
    for (int32_t n = pick(1, 40); n > 0; --n)
      prompt.units.push_back(PrefixUnit::token(pick(0, 8) == 0 ? pick(1, 2) : 0));
    extend_hashes(prompt.root, prompt.units, block_tokens_, prompt.hashes);
    // Every block of every prompt may carry one hash: only the units tell them apart then.
    if (colliding_) std::ranges::fill(prompt.hashes, 7);
    return prompt;
  }

  void begin() {
    Sequence s;
    s.prompt = random_prompt();
    for (const auto& window : windows_) s.tables.emplace_back(block_tokens_, window);
    const PrefixHit hit = tree_.match(s.prompt.key(), static_cast<int32_t>(s.prompt.units.size()) - 1);
    EXPECT_EQ(hit.tokens, longest_by_hand(s.prompt, static_cast<int32_t>(s.prompt.units.size()) - 1));
    tree_.share(hit, pools_, s.tables);
    s.node = hit.node;
    s.next = hit.tokens;
    hits += hit.tokens > 0;
    for (size_t c = 0; c < windows_.size(); ++c) {
      for (int32_t p = hit.tokens - 1; p >= first_seen(c, hit.tokens); --p) {
        const int32_t at = (p - s.tables[c].first_position()) / block_tokens_;
        const auto block = static_cast<size_t>(s.tables[c].blocks()[static_cast<size_t>(at)]);
        EXPECT_TRUE(contents_[c][block].is_prefix_of(s.prompt, (p / block_tokens_ + 1) * block_tokens_));  // KV-5
      }
    }
    sequences_.push_back(std::move(s));
  }
  /// A window of one token sees nothing behind itself; the hit's last block is asked for all the same.
  int32_t first_seen(size_t c, int32_t query) const {
    return windows_[c] ? std::max(0, query - std::max(1, *windows_[c] - 1)) : 0;
  }

  bool named(size_t c, const Prompt& prompt, int32_t tokens) const {
    for (int32_t b = 0; b < pools_[c].blocks(); ++b) {
      if (pools_[c].in_tree(b) && contents_[c][static_cast<size_t>(b)].is_prefix_of(prompt, tokens)) return true;
    }
    return false;
  }
  /// KV-6 in plain words: the longest end where each class names the block of each position that a query there sees.
  int32_t longest_by_hand(const Prompt& prompt, int32_t most) const {
    for (int32_t end = most / block_tokens_ * block_tokens_; end > 0; end -= block_tokens_) {
      bool whole = true;
      for (size_t c = 0; c < windows_.size() && whole; ++c) {
        for (int32_t p = first_seen(c, end); p < end && whole; ++p) {
          whole = named(c, prompt, (p / block_tokens_ + 1) * block_tokens_);
        }
      }
      if (whole) return end;
    }
    return 0;
  }

  void grow(Sequence& s) {
    const int32_t rows = std::min(pick(1, 9), static_cast<int32_t>(s.prompt.units.size()) - s.next);
    if (rows <= 0) return;
    const int32_t end = s.next + rows;
    for (size_t c = 0; c < pools_.size(); ++c) {
      if (s.tables[c].blocks_needed(end) > pools_[c].available_blocks()) return;
    }
    for (size_t c = 0; c < pools_.size(); ++c) {
      tree_.make_free(static_cast<int32_t>(c), s.tables[c].blocks_needed(end), pools_);
      ASSERT_TRUE(s.tables[c].extend(pools_[c], end).ok());
      for (int32_t whole = (s.next / block_tokens_ + 1) * block_tokens_; whole <= end; whole += block_tokens_) {
        const int32_t at = (whole - 1 - s.tables[c].first_position()) / block_tokens_;
        const auto block = static_cast<size_t>(s.tables[c].blocks()[static_cast<size_t>(at)]);
        contents_[c][block] = {s.prompt.root, {s.prompt.units.begin(), s.prompt.units.begin() + whole}};
      }
    }
    s.next = end;
    s.node = tree_.insert(s.prompt.key(), end, pools_, s.tables, s.node);
    for (size_t c = 0; c < pools_.size(); ++c) s.tables[c].slide(pools_[c], end - end % block_tokens_);
  }

  void end(size_t index) {
    Sequence& s = sequences_[index];
    for (size_t c = 0; c < pools_.size(); ++c) s.tables[c].clear(pools_[c]);
    tree_.leave(s.node, pools_);
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void check() {
    for (size_t c = 0; c < pools_.size(); ++c) {
      const Status status = pools_[c].check();
      ASSERT_TRUE(status.ok()) << status.error().message;
      std::vector<int32_t> holders(static_cast<size_t>(pools_[c].blocks()), 0);
      for (const Sequence& s : sequences_) {
        for (int32_t block : s.tables[c].blocks()) ++holders[static_cast<size_t>(block)];
      }
      for (int32_t b = 0; b < pools_[c].blocks(); ++b) ASSERT_EQ(holders[static_cast<size_t>(b)], pools_[c].holders(b));
    }
    const Status status = tree_.check(pools_);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }

  std::mt19937& random_;
  bool colliding_;
  int32_t block_tokens_;
  std::vector<std::optional<int32_t>> windows_;
  PrefixTree tree_;
  std::vector<BlockPool> pools_;
  std::vector<std::vector<Content>> contents_;  // [classes][blocks]
  std::vector<Sequence> sequences_;
};

/// KV-1, KV-5, KV-6, KV-8, KV-9.
void grow_gardens(uint32_t seed, bool colliding) {
  std::mt19937 random(seed);
  int64_t hits = 0;
  for (int round = 0; round < rounds(1000); ++round) {
    Garden garden(random, colliding);
    for (int i = 0; i < 1000 && !::testing::Test::HasFailure(); ++i) garden.act();
    if (::testing::Test::HasFailure()) FAIL() << "round " << round;
    garden.take_all();
    hits += garden.hits;
  }
  EXPECT_GT(hits, 1000) << "a tree without hits proves nothing";
}

TEST(PrefixTree, RandomSequencesFindWhatAPlainListFinds) {
  grow_gardens(3, false);
}

TEST(PrefixTree, EqualHashesOfUnequalPromptsFindNothing) {
  grow_gardens(4, true);
}

}  // namespace
}  // namespace vernier
