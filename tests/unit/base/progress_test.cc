#include "base/progress.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace vernier {
namespace {

TEST(Progress, DrawsWhatIsDoneOfTheWhole) {
  Progress progress("loading", 2'000'000, ProgressUnit::kBytes);
  progress.set(500'000);
  EXPECT_EQ(progress.line(2'100'000'000), "loading  [######..................]   25 %  500 KB of 2.00 MB  2.1 s");
  progress.add(1'500'000);
  EXPECT_EQ(progress.line(2'100'000'000), "loading  [########################]  100 %  2.00 MB of 2.00 MB  2.1 s");
  progress.set(3'000'000);
  EXPECT_NE(progress.line(0).find("[########################]  100 %"), std::string::npos) << "more than all is all";
}

TEST(Progress, IsNeverWholeBeforeTheEnd) {
  Progress progress("tuning", 1000, ProgressUnit::kCount);
  progress.set(999);
  EXPECT_EQ(progress.line(0), "tuning  [#######################.]   99 %  999 of 1000  0 us");
  Progress empty("tuning", 0, ProgressUnit::kCount);
  EXPECT_NE(empty.line(0).find("100 %"), std::string::npos) << "nothing to do is done";
}

// BASE-4
TEST(Progress, LeavesNothingOnAStreamThatIsNoTerminalBase4) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    Progress progress("loading", 10, ProgressUnit::kCount, file);
    for (int i = 0; i < 10; ++i) progress.add(1);
    EXPECT_EQ(std::ftell(file), 0);
    progress.finish();
    EXPECT_EQ(std::ftell(file), 0) << "too short to be worth a line";
  }
  std::fclose(file);
}

TEST(Progress, WritesBytesInPowersOfAThousand) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 KB");
  EXPECT_EQ(format_bytes(12'340), "12.3 KB");
  EXPECT_EQ(format_bytes(98'362'432), "98.4 MB");
  EXPECT_EQ(format_bytes(134'515'008), "135 MB");
  EXPECT_EQ(format_bytes(999'900), "1.00 MB");
  EXPECT_EQ(format_bytes(1'350'000'000), "1.35 GB");
}

}  // namespace
}  // namespace vernier
