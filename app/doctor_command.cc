#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/backend_choice.h"
#include "app/commands.h"
#include "app/known_models.h"
#include "app/machine.h"
#include "base/progress.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;

/// One line of the report. A warning costs speed or comfort; `missing` says what cannot be done and what to do about
/// it.
struct Finding {
  enum class Verdict { kGood, kWarning, kMissing } verdict;
  std::string topic;
  std::string found;
  std::string advice;
};
using Verdict = Finding::Verdict;

std::string_view name(Verdict verdict) {
  return verdict == Verdict::kGood ? "ok" : verdict == Verdict::kWarning ? "warning" : "missing";
}

void examine_cpu(const Machine& machine, std::vector<Finding>& findings) {
  findings.push_back(
      {Verdict::kGood, "processor",
       fmt::format("{}, {} cores, {} threads, {} NUMA nodes, last-level cache {}",
                   machine.cpu.empty() ? "unknown" : machine.cpu, machine.physical_cores, machine.logical_cores,
                   machine.numa_nodes, format_bytes(machine.last_level_cache_bytes)),
       ""});
  if (machine.cpu_limit && *machine.cpu_limit < machine.logical_cores) {
    findings.push_back({Verdict::kWarning, "processor limit",
                        fmt::format("{:.1f} cores for this container", *machine.cpu_limit),
                        fmt::format("set --threads {}", std::max(1, static_cast<int>(*machine.cpu_limit)))});
  }
  const std::vector<std::string> sets = usable_instruction_sets();
  findings.push_back(
      {sets.size() > 1 ? Verdict::kGood : Verdict::kWarning, "instruction sets",
       fmt::format("{} (kernels exist for baseline, avx2, avx512, amx)", fmt::join(sets, ", ")),
       sets.size() > 1 ? "" : "without AVX2, FMA, F16C and BMI2 everything runs on the slow baseline kernels"});
  if (const std::vector<std::string> withheld = machine.withheld_sets(sets); !withheld.empty()) {
    findings.push_back({Verdict::kWarning, "withheld sets",
                        fmt::format("{}: the processor has it, this process may not use it", fmt::join(withheld, ", ")),
                        "the system does not save or grant its registers; of amx a sandbox may refuse them (arch_prctl "
                        "ARCH_REQ_XCOMP_PERM)"});
  }
}

void examine_memory(const Machine& machine, std::vector<Finding>& findings) {
  findings.push_back(
      {machine.available_bytes > 1'000'000'000 ? Verdict::kGood : Verdict::kWarning, "memory",
       fmt::format("{} available of {}", format_bytes(machine.available_bytes), format_bytes(machine.memory_bytes)),
       machine.available_bytes > 1'000'000'000 ? "" : "under 1 GB free: only very small models fit"});
  if (machine.memory_limit_bytes && *machine.memory_limit_bytes < machine.memory_bytes) {
    findings.push_back({Verdict::kWarning, "memory limit",
                        fmt::format("{} for this container", format_bytes(*machine.memory_limit_bytes)),
                        "vernier plan MODEL says what fits"});
  }
  const bool never = machine.transparent_huge_pages == "never" || machine.transparent_huge_pages.empty();
  findings.push_back({never ? Verdict::kWarning : Verdict::kGood, "huge pages",
                      fmt::format("transparent: {}, reserved: {}",
                                  machine.transparent_huge_pages.empty() ? "absent" : machine.transparent_huge_pages,
                                  machine.huge_pages_total),
                      never ? "packed weights then use 4 KB pages; as root: echo madvise > "
                              "/sys/kernel/mm/transparent_hugepage/enabled"
                            : ""});
}

void examine_backends(const Machine& machine, std::vector<Finding>& findings) {
  findings.push_back({Verdict::kGood, "backend cpu", "built", ""});
  const BackendPresence cuda = cuda_presence();
  const bool driver = !machine.nvidia_driver.empty();
  if (cuda.built && !cuda.devices.empty()) {
    findings.push_back({Verdict::kGood, "backend cuda", "built; " + cuda.devices, ""});
  } else if (cuda.built) {
    findings.push_back({driver ? Verdict::kWarning : Verdict::kGood, "backend cuda", "built; " + cuda.reason, ""});
  } else {
    findings.push_back({driver ? Verdict::kWarning : Verdict::kGood, "backend cuda",
                        driver ? "not built; driver: " + machine.nvidia_driver : "not built, and no NVIDIA driver here",
                        driver ? "this build runs on the CPU only; configure it with VERNIER_CUDA=ON" : ""});
  }
  findings.push_back({Verdict::kGood, "backend mlx", "not built", ""});
}

bool writable(fs::path folder) {
  std::error_code ignored;
  while (!fs::exists(folder, ignored) && folder.has_parent_path() && folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  return ::access(folder.c_str(), W_OK | X_OK) == 0;
}

void examine_home(const fs::path& home, std::vector<Finding>& findings) {
  std::error_code error;
  const bool can_write = writable(home);
  findings.push_back(
      {can_write ? Verdict::kGood : Verdict::kWarning, "home",
       fmt::format("{}{}", home.string(), fs::exists(home, error) ? "" : " (not made yet)"),
       can_write ? "" : "cannot be written: nothing can be fetched or kept; set VERNIER_HOME to another folder"});
  if (const auto space = fs::space(fs::exists(home, error) ? home : home.root_path(), error); !error) {
    findings.push_back({space.available > 2'000'000'000 ? Verdict::kGood : Verdict::kWarning, "disk",
                        format_bytes(static_cast<int64_t>(space.available)) + " free",
                        space.available > 2'000'000'000 ? "" : "models need room"});
  }
  for (const KnownModel& model : known_models()) {
    const Result<std::string> found = find_model(std::string(model.name));
    const bool there = found.ok();
    findings.push_back({there ? Verdict::kGood : Verdict::kMissing, fmt::format("model {}", model.name),
                        there ? *found : std::string(model.description),
                        there ? "" : fmt::format("tools/fetch_model {}", model.name)});
  }
  for (const auto& entry : fs::directory_iterator(home / "models", error)) {
    const std::string stem = entry.path().stem();
    bool known = false;
    for (const KnownModel& model : known_models()) known |= model.name == stem;
    if (!known && entry.path().extension() == ".gguf") {
      findings.push_back({Verdict::kGood, "model " + stem, entry.path().string(), ""});
    }
  }
}

void examine_tools(std::vector<Finding>& findings) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path program = fs::path(folder) / "llama-bench";
    if (!folder.empty() && ::access(program.c_str(), X_OK) == 0) {
      findings.push_back({Verdict::kGood, "llama-bench", program.string(), ""});
      return;
    }
  }
  findings.push_back(
      {Verdict::kMissing, "llama-bench", "not on PATH", "vernier bench --against llama.cpp needs it, or --peer FILE"});
}

void print_text(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    fmt::print("{:<8} {:<20} {}\n", name(finding.verdict), finding.topic, finding.found);
    if (!finding.advice.empty()) fmt::print("{:<8} {:<20} -> {}\n", "", "", finding.advice);
  }
}

void print_json(const Machine& machine, const std::vector<Finding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"verdict", name(finding.verdict)}, {"topic", finding.topic}, {"found", finding.found}});
    if (!finding.advice.empty()) list.back()["advice"] = finding.advice;
  }
  const nlohmann::ordered_json report = {
      {"version", VERNIER_VERSION},
      {"cpu", machine.cpu},
      {"logical_cores", machine.logical_cores},
      {"physical_cores", machine.physical_cores},
      {"numa_nodes", machine.numa_nodes},
      {"instruction_sets", usable_instruction_sets()},
      {"withheld_instruction_sets", machine.withheld_sets(usable_instruction_sets())},
      {"last_level_cache_bytes", machine.last_level_cache_bytes},
      {"memory_bytes", machine.memory_bytes},
      {"available_bytes", machine.available_bytes},
      {"transparent_huge_pages", machine.transparent_huge_pages},
      {"findings", list},
  };
  fmt::print("{}\n", report.dump(2));
}

Status examine() {
  const Machine machine = read_machine();
  std::vector<Finding> findings;
  examine_cpu(machine, findings);
  examine_memory(machine, findings);
  examine_backends(machine, findings);
  examine_home(global_options().home, findings);
  examine_tools(findings);
  if (global_options().json) {
    print_json(machine, findings);
  } else {
    fmt::print("vernier {}\n", VERNIER_VERSION);
    print_text(findings);
  }
  return {};
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  set_work(*app.add_subcommand("doctor", "Say what this machine has and what is missing"), examine);
}

}  // namespace vernier
