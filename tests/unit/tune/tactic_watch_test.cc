#include "tune/tactic_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace vernier {
namespace {

class Watched {
 public:
  explicit Watched(TacticTime recorded, int64_t every = 1)
      : watch(recorded, every, [this](const SlowerInUse& seen) { told.push_back(seen); }) {}
  void note(int64_t ns, int times) {
    for (int i = 0; i < times; ++i) watch.note(ns);
  }
  std::vector<SlowerInUse> told;
  TacticWatch watch;
};

// TUNE-19: slower is what the median of a whole row of samples says, told once.
TEST(TacticWatchTest, WhatIsSlowerInItsMedianIsToldOnceTune19) {
  Watched product({1000, 10, 15});
  product.note(1400, TacticWatch::kSamples - 1);
  EXPECT_FALSE(product.watch.slower());
  product.note(1400, 1);
  EXPECT_TRUE(product.watch.slower());
  product.note(1400, 10 * TacticWatch::kSamples);
  ASSERT_EQ(product.told.size(), 1u);
  EXPECT_EQ(product.told[0].median_ns, 1400);
  EXPECT_EQ(product.told[0].launches, TacticWatch::kSamples);
  EXPECT_GT(product.told[0].seen_at_ms, 0);
}

TEST(TacticWatchTest, WhatTheMachineDoesForAMomentIsNoProof) {
  Watched product({1000, 10, 15});
  for (int row = 0; row < 10; ++row) {
    product.note(1'000'000, TacticWatch::kSamples / 2 - 1);
    product.note(1200, TacticWatch::kSamples / 2 + 1);
  }
  EXPECT_TRUE(product.told.empty()) << "within a quarter, but for moments";
  Watched noisy({1000, 200, 15});
  noisy.note(1700, 10 * TacticWatch::kSamples);
  EXPECT_TRUE(noisy.told.empty()) << "within four times its spread";
}

TEST(TacticWatchTest, OneLaunchInSoManyIsTimed) {
  Watched product({1000, 10, 15}, 64);
  int due = 0;
  for (int i = 0; i < 640; ++i) due += product.watch.is_due() ? 1 : 0;
  EXPECT_EQ(due, 10);
}

}  // namespace
}  // namespace vernier
