#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace vernier {
namespace {

Result<int> parse_digit(char c) {
  if (c < '0' || c > '9') return invalid_argument("found '{}', expected a digit", c);
  return c - '0';
}

Result<int> sum_digits(char a, char b) {
  TRY_BIND(int x, parse_digit(a));
  TRY_BIND(int y, parse_digit(b));
  return x + y;
}

Status check_digit(char c) {
  TRY_STATUS(parse_digit(c));
  return {};
}

TEST(Result, TryBindsTheValueOrReturnsTheError) {
  EXPECT_EQ(sum_digits('3', '4').value(), 7);
  Result<int> failed = sum_digits('3', 'x');
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(failed.error().message, "found 'x', expected a digit");
  EXPECT_TRUE(check_digit('1').ok());
  EXPECT_FALSE(check_digit('a').ok());
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 5);
}

// BASE-2
TEST(ResultDeathTest, ReadingTheAbsentHalfAborts) {
  Result<int> failed = parse_digit('x');
  EXPECT_DEATH((void)failed.value(), "expected a digit");
}

}  // namespace
}  // namespace vernier
