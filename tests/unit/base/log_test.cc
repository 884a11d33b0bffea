#include "base/log.h"

#include <gtest/gtest.h>

#include <sstream>
#include <thread>
#include <vector>

namespace vernier {
namespace {

class Log : public ::testing::Test {
 protected:
  void TearDown() override { set_log_level(LogLevel::kWarning); }

  static std::string written() {
    ::testing::internal::CaptureStderr();
    log_debug("loading {}", 1);
    log_info("loading {}", 2);
    log_warning("loading {}", 3);
    log_error("loading {}", 4);
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(Log, DropsLinesBelowItsLevel) {
  EXPECT_EQ(written(), "warning: loading 3\nerror: loading 4\n");
  set_log_level(LogLevel::kDebug);
  EXPECT_EQ(written(), "debug: loading 1\ninfo: loading 2\nwarning: loading 3\nerror: loading 4\n");
  set_log_level(LogLevel::kOff);
  EXPECT_EQ(written(), "");
}

// BASE-3: each line is one write, so lines of several threads do not mix.
TEST_F(Log, LinesOfSeveralThreadsStayWhole) {
  constexpr int kThreads = 4, kLines = 200;
  ::testing::internal::CaptureStderr();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < kLines; ++i) log_error("{}", std::string(300, static_cast<char>('a' + t)));
      });
    }
  }
  std::istringstream written(::testing::internal::GetCapturedStderr());
  int lines = 0;
  for (std::string line; std::getline(written, line); ++lines) {
    ASSERT_EQ(line, "error: " + std::string(300, line.back()));
  }
  EXPECT_EQ(lines, kThreads * kLines);
}

TEST_F(Log, ReadsTheNamesItWrites) {
  for (LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError, LogLevel::kOff}) {
    EXPECT_EQ(parse_log_level(name(level)), level);
  }
  EXPECT_EQ(parse_log_level("warn"), LogLevel::kWarning);
  EXPECT_EQ(parse_log_level("loud"), std::nullopt);
}

}  // namespace
}  // namespace vernier
