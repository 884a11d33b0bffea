#include "base/random.h"

#include <gtest/gtest.h>

#include <bit>

namespace vernier {
namespace {

// Undoes fmix64 with the inverses of its two odd factors modulo 2^64, found by Newton's iteration: that it can be
// undone for every input is what BASE-5 says.
uint64_t inverse(uint64_t odd) {
  uint64_t x = odd;
  for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
  return x;
}

uint64_t undo(uint64_t x) {
  x ^= x >> 33;
  x *= inverse(0xc4ceb9fe1a85ec53ULL);
  x ^= x >> 33;
  x *= inverse(0xff51afd7ed558ccdULL);
  x ^= x >> 33;
  return x;
}

TEST(Random, Fmix64IsABijectionBase5) {
  for (uint64_t x : {0ULL, 1ULL, 42ULL, 0x8000000000000000ULL, ~0ULL, 0x123456789abcdefULL})
    EXPECT_EQ(undo(fmix64(x)), x);
}

TEST(Random, Fmix64HasItsPublishedValues) {
  EXPECT_EQ(fmix64(0), 0u);
  EXPECT_EQ(fmix64(1), 0xb456bcfc34c2cb2cULL);
  EXPECT_EQ(fmix64(2), 0x3abf2a20650683e7ULL);
}

TEST(Random, EveryInputBitMovesAboutHalfOfTheOutput) {
  for (int bit = 0; bit < 64; ++bit) {
    int moved = 0;
    for (uint64_t x = 1; x <= 64; ++x)
      moved += std::popcount(fmix64(x * 0x9e3779b9) ^ fmix64(x * 0x9e3779b9 ^ 1ULL << bit));
    EXPECT_NEAR(moved / 64.0, 32.0, 4.0) << "bit " << bit;
  }
}

}  // namespace
}  // namespace vernier
