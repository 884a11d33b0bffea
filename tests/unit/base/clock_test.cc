#include "base/clock.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

TEST(Clock, NeverGoesBack) {
  int64_t before = monotonic_ns();
  for (int i = 0; i < 1000; ++i) {
    int64_t now = monotonic_ns();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(Clock, WritesDurationsAsPeopleReadThem) {
  EXPECT_EQ(format_duration(0), "0 us");
  EXPECT_EQ(format_duration(850'400), "850 us");
  EXPECT_EQ(format_duration(999'900), "1 ms");
  EXPECT_EQ(format_duration(12'300'000), "12 ms");
  EXPECT_EQ(format_duration(999'900'000), "1.0 s");
  EXPECT_EQ(format_duration(3'440'000'000), "3.4 s");
  EXPECT_EQ(format_duration(59'990'000'000), "1 min 00 s");
  EXPECT_EQ(format_duration(125'000'000'000), "2 min 05 s");
}

}  // namespace
}  // namespace vernier
