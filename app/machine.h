#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace vernier {

/// What the system tells about this machine. Read once from /proc and /sys; a fact that is not there stays empty.
struct Machine {
  std::string cpu;                 ///< "AMD EPYC 9R14"
  std::vector<std::string> flags;  ///< of /proc/cpuinfo, sorted
  int logical_cores = 0;
  int physical_cores = 0;
  int numa_nodes = 0;
  int64_t last_level_cache_bytes = 0;
  int64_t memory_bytes = 0;
  int64_t available_bytes = 0;
  std::optional<int64_t> memory_limit_bytes;  ///< of the container, where one is set
  std::optional<double> cpu_limit;            ///< cores the container may use
  std::string transparent_huge_pages;         ///< "always", "madvise", "never"
  int64_t huge_pages_total = 0;
  std::string nvidia_driver;  ///< version line, empty without one

  bool has(const std::string& flag) const;
  /// Of the instruction sets that kernels are built for, those that the processor has, the best last.
  std::vector<std::string> instruction_sets() const;
  /// Those of them that are not among `granted`: the system keeps this process from them.
  std::vector<std::string> withheld_sets(const std::vector<std::string>& granted) const;
};

/// `root` stands in for "/" in tests.
Machine read_machine(const std::filesystem::path& root = "/");

}  // namespace vernier
