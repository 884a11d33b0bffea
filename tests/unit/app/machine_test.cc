#include "app/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace vernier {
namespace {

namespace fs = std::filesystem;

class MachineFiles : public ::testing::Test {
 protected:
  MachineFiles() {
    std::string pattern = (fs::temp_directory_path() / "vernier_machine_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~MachineFiles() override { fs::remove_all(root_); }

  void write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  fs::path root_;
};

TEST_F(MachineFiles, ReadsWhatTheSystemTells) {
  std::string cpuinfo;
  for (int i = 0; i < 4; ++i) {
    cpuinfo += "processor\t: " + std::to_string(i) +
               "\nmodel name\t: Some CPU\nphysical id\t: 0\ncore id\t\t: " + std::to_string(i / 2) +
               "\nflags\t\t: fpu sse2 avx2 fma f16c bmi1 bmi2\n\n";
  }
  write("proc/cpuinfo", cpuinfo);
  write("proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    600 kB\nHugePages_Total:       3\n");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  write("sys/devices/system/node/node0/x", "");
  write("sys/devices/system/node/node1/x", "");
  write("sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n");
  write("sys/devices/system/cpu/cpu0/cache/index3/size", "16M\n");
  write("sys/fs/cgroup/memory.max", "2000000\n");
  write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  const Machine machine = read_machine(root_);
  EXPECT_EQ(machine.cpu, "Some CPU");
  EXPECT_EQ(machine.logical_cores, 4);
  EXPECT_EQ(machine.physical_cores, 2);
  EXPECT_EQ(machine.numa_nodes, 2);
  EXPECT_EQ(machine.last_level_cache_bytes, 16 << 20);
  EXPECT_EQ(machine.memory_bytes, 1024000);
  EXPECT_EQ(machine.available_bytes, 614400);
  EXPECT_EQ(machine.huge_pages_total, 3);
  EXPECT_EQ(machine.transparent_huge_pages, "madvise");
  EXPECT_EQ(machine.memory_limit_bytes, 2000000);
  EXPECT_EQ(machine.cpu_limit, 1.5);
  EXPECT_THAT(machine.instruction_sets(), ::testing::ElementsAre("baseline", "avx2"));
}

TEST_F(MachineFiles, WhatIsNotThereStaysEmpty) {
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  const Machine machine = read_machine(root_);
  EXPECT_EQ(machine.memory_bytes, 0);
  EXPECT_EQ(machine.memory_limit_bytes, std::nullopt);
  EXPECT_EQ(machine.cpu_limit, std::nullopt);
  EXPECT_THAT(machine.instruction_sets(), ::testing::ElementsAre("baseline"));
}

TEST(Machine, AnInstructionSetNeedsAllOfItsParts) {
  const std::vector<std::string> all = {"amx_bf16",    "amx_int8", "amx_tile", "avx2",    "avx512_bf16",
                                        "avx512_vnni", "avx512bw", "avx512dq", "avx512f", "avx512vl",
                                        "bmi1",        "bmi2",     "f16c",     "fma"};
  Machine machine;
  machine.flags = all;
  EXPECT_THAT(machine.instruction_sets(), ::testing::ElementsAre("baseline", "avx2", "avx512", "amx"));
  for (const std::string& part : all) {
    machine.flags = all;
    std::erase(machine.flags, part);
    const char* left = part.starts_with("amx") ? "avx512" : part.starts_with("avx512") ? "avx2" : "baseline";
    EXPECT_EQ(machine.instruction_sets().back(), left) << "without " << part;
  }
}

/// A processor's flags do not say what a process may use: a sandbox can refuse the registers of tiles.
TEST(Machine, WhatTheSystemWithholdsIsTold) {
  Machine machine;
  machine.flags = {"amx_bf16", "amx_int8", "amx_tile", "avx2", "avx512_bf16", "avx512_vnni", "avx512bw",
                   "avx512dq", "avx512f",  "avx512vl", "bmi1", "bmi2",        "f16c",        "fma"};
  EXPECT_THAT(machine.withheld_sets({"baseline", "avx2", "avx512"}), ::testing::ElementsAre("amx"));
  EXPECT_THAT(machine.withheld_sets({"baseline"}), ::testing::ElementsAre("avx2", "avx512", "amx"));
  EXPECT_THAT(machine.withheld_sets(machine.instruction_sets()), ::testing::IsEmpty());
}

}  // namespace
}  // namespace vernier
