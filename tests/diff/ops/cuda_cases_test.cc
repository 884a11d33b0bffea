#include <gtest/gtest.h>

#include "testing/backends.h"

namespace vernier {
namespace {

// The tables of this program run on the CUDA backend, too, where there is one; where there is none that is said.
TEST(CudaCases, RunWhereAGpuAnswers) {
  const std::string reason = testing::why_no_cuda_cases();
  if (!reason.empty()) GTEST_SKIP() << "no case of a table runs on the CUDA backend: " << reason;
  EXPECT_EQ(testing::cuda_cases().size(), 2u);
}

}  // namespace
}  // namespace vernier
