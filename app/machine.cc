#include "app/machine.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>

namespace vernier {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\n") - first + 1));
}

std::optional<int64_t> number(std::string_view text) {
  const std::string digits = trimmed(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end == digits.data()) return std::nullopt;
  return value;
}

/// The lines "key : value" of a /proc file.
template <class Visit>
void each_field(const std::string& text, Visit visit) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos) visit(trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  }
}

void read_cpu(const fs::path& root, Machine& machine) {
  std::set<std::string> cores;
  std::string socket = "0";
  each_field(read_text(root / "proc/cpuinfo"), [&](const std::string& key, const std::string& value) {
    if (key == "processor") ++machine.logical_cores;
    if (key == "model name" && machine.cpu.empty()) machine.cpu = value;
    if (key == "physical id") socket = value;
    if (key == "core id") cores.insert(socket + "." + value);
    if ((key == "flags" || key == "Features") && machine.flags.empty()) {
      std::istringstream words(value);
      machine.flags.assign(std::istream_iterator<std::string>(words), {});
      std::sort(machine.flags.begin(), machine.flags.end());
    }
  });
  machine.physical_cores = cores.empty() ? machine.logical_cores : static_cast<int>(cores.size());
}

void read_memory(const fs::path& root, Machine& machine) {
  each_field(read_text(root / "proc/meminfo"), [&](const std::string& key, const std::string& value) {
    const int64_t amount = number(value).value_or(0);
    if (key == "MemTotal") machine.memory_bytes = amount * 1024;
    if (key == "MemAvailable") machine.available_bytes = amount * 1024;
    if (key == "HugePages_Total") machine.huge_pages_total = amount;
  });
  const std::string choices = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled");
  const size_t open = choices.find('[');
  const size_t close = choices.find(']');
  if (open != std::string::npos && close > open) {
    machine.transparent_huge_pages = choices.substr(open + 1, close - open - 1);
  }
}

void read_topology(const fs::path& root, Machine& machine) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("node") && number(name.substr(4))) ++machine.numa_nodes;
  }
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/cpu/cpu0/cache", error)) {
    std::string size = trimmed(read_text(entry.path() / "size"));
    const int64_t unit = size.ends_with('K') ? 1024 : size.ends_with('M') ? 1024 * 1024 : 1;
    machine.last_level_cache_bytes = std::max(machine.last_level_cache_bytes, number(size).value_or(0) * unit);
  }
}

/// The limits of the control group that the process sees as its root (a container's), version 2.
void read_limits(const fs::path& root, Machine& machine) {
  machine.memory_limit_bytes = number(read_text(root / "sys/fs/cgroup/memory.max"));
  std::istringstream quota(read_text(root / "sys/fs/cgroup/cpu.max"));
  double allowed = 0;
  double period = 0;
  if (quota >> allowed >> period && period > 0) machine.cpu_limit = allowed / period;
}

}  // namespace

bool Machine::has(const std::string& flag) const {
  return std::binary_search(flags.begin(), flags.end(), flag);
}

std::vector<std::string> Machine::instruction_sets() const {
  const auto has_all = [this](std::initializer_list<const char*> wanted) {
    return std::all_of(wanted.begin(), wanted.end(), [this](const char* flag) { return has(flag); });
  };
  std::vector<std::string> sets = {"baseline"};
  if (!has_all({"avx2", "fma", "f16c", "bmi1", "bmi2"})) return sets;
  sets.emplace_back("avx2");
  if (has_all({"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16"})) {
    sets.emplace_back("avx512");
    if (has_all({"amx_tile", "amx_int8", "amx_bf16"})) sets.emplace_back("amx");
  }
  return sets;
}

std::vector<std::string> Machine::withheld_sets(const std::vector<std::string>& granted) const {
  std::vector<std::string> withheld = instruction_sets();
  std::erase_if(withheld, [&](const std::string& set) { return std::ranges::find(granted, set) != granted.end(); });
  return withheld;
}

Machine read_machine(const std::filesystem::path& root) {
  Machine machine;
  read_cpu(root, machine);
  read_memory(root, machine);
  read_topology(root, machine);
  read_limits(root, machine);
  const std::string driver = read_text(root / "proc/driver/nvidia/version");
  machine.nvidia_driver = driver.substr(0, driver.find('\n'));
  return machine;
}

}  // namespace vernier
