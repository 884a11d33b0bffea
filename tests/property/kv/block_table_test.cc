#include "kv/block_table.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace vernier {
namespace {

struct Track {
  BlockTable table;
  std::optional<int32_t> window;
  int32_t next = 0;  // first position not fed yet
};

/// KV-1, KV-3, KV-4: checked after each of many random operations on sequences that share one pool.
TEST(BlockTable, RandomSequencesKeepWhatTheirWindowSeesAndNothingElse) {
  std::mt19937 random(7);
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 60; ++round) {
    const int32_t block_tokens = pick(1, 9);
    BlockPool pool(pick(20, 200));
    std::vector<Track> tracks;
    for (int i = 0; i < 4; ++i) {
      std::optional<int32_t> window;
      if (i % 2 == 1) window = pick(1, 30);
      tracks.push_back({BlockTable(block_tokens, window), window});
    }
    for (int step = 0; step < 2000; ++step) {
      Track& t = tracks[static_cast<size_t>(pick(0, 3))];
      const int32_t rows = pick(1, 12);
      t.table.slide(pool, t.next);
      const int32_t free_before = pool.free_blocks();
      if (t.table.extend(pool, t.next + rows).ok()) {
        EXPECT_LE(static_cast<int32_t>(t.table.blocks().size()),
                  BlockTable::most_blocks(block_tokens, t.window, t.next + rows, 12));
        t.next += rows;
      } else {
        EXPECT_EQ(pool.free_blocks(), free_before);  // KV-2
        t.table.clear(pool);
        t.next = 0;
      }
      ASSERT_TRUE(pool.check().ok()) << pool.check().error().message;
      std::set<int32_t> held;
      for (const Track& each : tracks) {
        for (int32_t block : each.table.blocks()) EXPECT_TRUE(held.insert(block).second) << "block held twice";
        if (each.next == 0) continue;
        const int32_t end =
            each.table.first_position() + static_cast<int32_t>(each.table.blocks().size()) * block_tokens;
        EXPECT_GE(end, each.next);
        const int32_t oldest = each.window ? std::max(0, each.next - *each.window + 1) : 0;
        EXPECT_LE(each.table.first_position(), oldest);
      }
      EXPECT_EQ(static_cast<int32_t>(held.size()) + pool.free_blocks(), pool.blocks());
    }
  }
}

TEST(BlockTable, AWindowGivesBackExactlyWhatNoLaterQuerySees) {
  BlockPool pool(16);
  BlockTable table(4, 6);
  ASSERT_TRUE(table.extend(pool, 13).ok());
  table.slide(pool, 13);  // sees 8..13: blocks 0-3 and 4-7 go
  EXPECT_EQ(table.first_position(), 8);
  EXPECT_EQ(table.blocks().size(), 2U);
  table.slide(pool, 16);  // sees 11..16: the block of 8-11 stays
  EXPECT_EQ(table.first_position(), 8);
  table.slide(pool, 17);
  EXPECT_EQ(table.first_position(), 12);
}

TEST(BlockPoolDeathTest, GivingBackAFreeBlockIsAProgrammersError) {
  BlockPool pool(2);
  int32_t block = pool.take().value();
  pool.give(block);
  EXPECT_DEATH(pool.give(block), "was not taken");
}

}  // namespace
}  // namespace vernier
