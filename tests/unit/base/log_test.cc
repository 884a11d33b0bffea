#include "base/log.h"

#include <gtest/gtest.h>

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

TEST_F(Log, ReadsTheNamesItWrites) {
  for (LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError, LogLevel::kOff}) {
    EXPECT_EQ(parse_log_level(name(level)), level);
  }
  EXPECT_EQ(parse_log_level("warn"), LogLevel::kWarning);
  EXPECT_EQ(parse_log_level("loud"), std::nullopt);
}

}  // namespace
}  // namespace vernier
