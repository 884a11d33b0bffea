#include "backends/absent/absent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vernier {
namespace {

// ABSENT-1
TEST(AbsentBackend, IsRefusedByNameAbsent1) {
  for (const char* name : {"cuda", "mlx"}) {
    const Result<std::unique_ptr<Backend>> backend = make_absent_backend(name);
    ASSERT_FALSE(backend.ok());
    EXPECT_EQ(backend.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(backend.error().message, ::testing::AllOf(::testing::HasSubstr(name), ::testing::HasSubstr("cpu")));
  }
}

}  // namespace
}  // namespace vernier
