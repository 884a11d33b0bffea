#include "backends/cpu/cpu_isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace vernier {
namespace {

TEST(CpuIsa, TheBestIsTakenWithoutAName) {
  EXPECT_EQ(choose_isa("").value(), machine_isas().back());
  EXPECT_EQ(machine_isas().front(), Isa::kBaseline);
}

TEST(CpuIsa, EachLevelOfTheMachineCanBeAskedFor) {
  for (Isa isa : machine_isas()) EXPECT_EQ(choose_isa(name(isa)).value(), isa);
}

TEST(CpuIsa, ARefusalListsWhatTheMachineHas) {
  Result<Isa> unknown = choose_isa("sse9");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message, testing::HasSubstr("sse9"));
  EXPECT_THAT(unknown.error().message, testing::HasSubstr("baseline"));
  if (machine_isas().back() == Isa::kAmx) GTEST_SKIP() << "this machine has every level";
  Result<Isa> lacking = choose_isa("amx");
  ASSERT_FALSE(lacking.ok());
  EXPECT_EQ(lacking.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(lacking.error().message, testing::HasSubstr(std::string(name(machine_isas().back()))));
}

// CPU-1: the system lists only sets whose registers it saves.
TEST(CpuIsa, AgreesWithTheKernelsOwnList) {
  std::ifstream file("/proc/cpuinfo");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.find("flags") == std::string::npos) GTEST_SKIP() << "no flags in /proc/cpuinfo; needs Linux on x86-64";
  auto has = [&](const char* flag) { return text.find(std::string(" ") + flag + " ") != std::string::npos; };
  Isa expected = Isa::kBaseline;
  if (has("avx2") && has("fma") && has("f16c") && has("bmi2")) {
    expected = has("avx512_bf16") && has("avx512_vnni") && has("avx512vl") ? Isa::kAvx512 : Isa::kAvx2;
  }
  // Tiles need a permission besides, which a container may withhold.
  if (expected == Isa::kAvx512 && has("amx_tile") && has("amx_int8") && has("amx_bf16")) {
    EXPECT_GE(machine_isas().back(), expected);
  } else {
    EXPECT_EQ(machine_isas().back(), expected);
  }
  EXPECT_FALSE(machine_name().empty());
}

}  // namespace
}  // namespace vernier
