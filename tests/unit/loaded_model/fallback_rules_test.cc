#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "api/kernel_fallbacks.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<KernelFallback> kTwo = {
    {"linear", "decode", "float_tile_avx2", "bf16_tile_avx512", "needs-isa", "needs avx512", 30},
    {"attend", "prefill", "gather", "paged", "shape", "heads of 80", 4},
};

FallbackRules rules(const char* text) {
  return FallbackRules::parse("--on-fallback", text).value();
}

std::string logged(const FallbackRules& rules) {
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(rules.apply(kTwo).ok());
  return ::testing::internal::GetCapturedStderr();
}

// API-10
TEST(FallbackRules, OneLineForEachThatIsWarnedOf) {
  const std::string all = logged(rules("warn"));
  EXPECT_THAT(all, AllOf(HasSubstr("linear (decode): float_tile_avx2 in place of bf16_tile_avx512 for 30 weights: "
                                   "needs-isa, needs avx512"),
                         HasSubstr("attend (prefill): gather in place of paged for 4 layers: shape, heads of 80")));
  EXPECT_EQ(std::ranges::count(all, '\n'), 2);
  EXPECT_THAT(logged(rules("attend=allow")), AllOf(HasSubstr("linear"), Not(HasSubstr("attend"))));
  EXPECT_EQ(logged(rules("allow")), "");
}

TEST(FallbackRules, ErrorNamesWhatItRefuses) {
  const Status refused = rules("linear=warn,attend=error").apply(kTwo);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("paged"), Not(HasSubstr("bf16_tile"))));
  EXPECT_TRUE(rules("error").apply({}).ok());
}

TEST(FallbackRules, WordsThatAreNoneAreRefused) {
  for (const char* text :
       {"", "no", "linear", "linear=no", "linear=error,linear=warn", "matmul=error", "linear=error,x"}) {
    EXPECT_FALSE(FallbackRules::parse("--on-fallback", text).ok()) << text;
  }
}

}  // namespace
}  // namespace vernier
