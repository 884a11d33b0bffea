#include "backends/cpu/cpu_tactics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "backends/cpu/attention.h"
#include "backends/cpu/cpu_isa.h"
#include "backends/cpu/linear_kernel_choice.h"
#include "base/thread_pool.h"

namespace vernier {
namespace {

/// "avx2": of the products' kernels; "attend_avx2".
struct KernelHash {
  std::string_view name;
  std::string_view hash;
};

constexpr KernelHash kHashes[] = {
#include "kernel_hashes.inc"
};

/// "32768"; "0" where the system does not tell.
std::string cache_bytes(int name) {
  return fmt::format("{}", std::max(0L, ::sysconf(name)));
}

/// The first line of a small file; empty where there is none.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string cpu_kernel_hash(std::string_view kernel) {
  const size_t end = kernel.rfind('_');
  if (end == std::string_view::npos) return "";
  const std::string isa(kernel.substr(end + 1));
  const bool attends = is_attend_kernel(kernel.substr(0, end));
  if (!attends && !is_linear_kernel(kernel.substr(0, end))) return "";
  const auto found = std::ranges::find(kHashes, attends ? "attend_" + isa : isa, &KernelHash::name);
  return found == std::end(kHashes) ? "" : std::string(found->hash);
}

Result<TacticScope> cpu_tactic_scope(const std::string& isa, int threads) {
  TRY_BIND(const Isa level, choose_isa(isa));
  TacticScope scope;
  scope.device = {{"backend", "cpu"},
                  {"device", machine_name()},
                  {"isa", std::string(name(level))},
                  {"threads", fmt::format("{}", threads == 0 ? usable_cpus() : threads)},
                  {"l1d_bytes", cache_bytes(_SC_LEVEL1_DCACHE_SIZE)},
                  {"l2_bytes", cache_bytes(_SC_LEVEL2_CACHE_SIZE)},
                  {"l3_bytes", cache_bytes(_SC_LEVEL3_CACHE_SIZE)}};
  scope.kernel_hash = cpu_kernel_hash;
  return scope;
}

std::string cpu_clock_state() {
  const std::string folder = "/sys/devices/system/cpu/cpu0/cpufreq/";
  const std::string governor = first_line(folder + "scaling_governor");
  if (governor.empty()) return "unknown";
  const std::string most = first_line(folder + "scaling_max_freq");  // kHz
  return most.size() > 3 ? fmt::format("governor {}, {} MHz at most", governor, most.substr(0, most.size() - 3))
                         : "governor " + governor;
}

}  // namespace vernier
