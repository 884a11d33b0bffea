#include "backends/cpu/packed_bytes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace vernier {
namespace {

TEST(PackArena, PartsAreZeroedNeighboursThatOutliveIt) {
  constexpr int64_t kBytes = 3000;
  std::optional<PackArena> arena(std::in_place);
  std::vector<PackedBytes> parts;
  for (int i = 0; i < 5; ++i) parts.push_back(arena->take(kBytes).value());
  arena.reset();
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(std::count(parts[i].data(), parts[i].data() + kBytes, 0), kBytes);
    if (i > 0) {
      EXPECT_EQ(parts[i].data() - parts[i - 1].data(), sysconf(_SC_PAGESIZE));
    }
    std::fill_n(parts[i].data(), kBytes, static_cast<uint8_t>(i + 1));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(std::count(parts[i].data(), parts[i].data() + kBytes, static_cast<uint8_t>(i + 1)), kBytes);
  }
}

TEST(PackArena, WhatDoesNotFitABlockHasOneOfItsOwn) {
  PackArena arena;
  const PackedBytes small = arena.take(100).value();
  const PackedBytes large = arena.take(int64_t{80} << 20).value();
  large.data()[(int64_t{80} << 20) - 1] = 7;
  const PackedBytes after = arena.take(100).value();
  EXPECT_EQ(small.data()[0], 0);
  EXPECT_EQ(after.data()[0], 0);
}

}  // namespace
}  // namespace vernier
