#include "backends/cpu/machine_limits.h"

#include <gtest/gtest.h>

#include "testing/isa.h"

namespace vernier {
namespace {

// A rate that a kernel is divided by is measured on each instruction set, bf16's by float32 where nothing else
// multiplies it.
TEST(CpuMachineLimits, EveryRateIsMeasured) {
  ThreadPool pool(1);
  const Isa isa = choose_isa(testing::requested_isa()).value();
  const MachineLimits limits = measure_limits(pool, isa, 1 << 20);
  EXPECT_GT(limits.read_bytes_per_s, 0);
  EXPECT_GT(limits.int8_ops_per_s, 0);
  EXPECT_GT(limits.f32_ops_per_s, 0);
  EXPECT_GT(limits.bf16_ops_per_s, limits.f32_ops_per_s / 4) << "no machine multiplies bf16 that much slower";
}

}  // namespace
}  // namespace vernier
