#include "text/civil_time.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

std::string formatted(std::string_view time, const std::string& format) {
  Result<CivilTime> parsed = CivilTime::parse(time);
  return parsed.ok() ? parsed->format(format) : "error: " + parsed.error().message;
}

TEST(CivilTime, FormatsLikeStrftime) {
  EXPECT_EQ(formatted("2025-07-09T14:05:06", "%Y-%m-%d %H:%M:%S %a %j"), "2025-07-09 14:05:06 Wed 190");
  EXPECT_EQ(formatted("2024-02-29 01:02", "%-d %e %B %p"), "29 29 February AM");
  EXPECT_EQ(formatted("2025-07-09T14:05:06.5", "%f|%z|%Z|%%|%"), "500000|||%|%");
  EXPECT_EQ(formatted("2025-07-09", ""), "");
  EXPECT_EQ(formatted("2025-07-09", "%p"), "AM");
}

TEST(CivilTime, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "now", "2025", "2025-13-01", "2025-07-09T", "2025-07-09T25:00", "2025-07-09T14:05:06x"}) {
    EXPECT_FALSE(CivilTime::parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace vernier
