#include "backends/cpu/cpu_tactics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "backends/cpu/cpu_isa.h"
#include "backends/cpu/linear_kernel_choice.h"
#include "base/thread_pool.h"

namespace vernier {
namespace {

struct KernelHash {
  std::string_view isa;
  std::string_view hash;
};

constexpr KernelHash kHashes[] = {
#include "kernel_hashes.inc"
};

/// "32768"; "0" where the system does not tell.
std::string cache_bytes(int name) {
  return fmt::format("{}", std::max(0L, ::sysconf(name)));
}

}  // namespace

std::string cpu_kernel_hash(std::string_view kernel) {
  const size_t end = kernel.rfind('_');
  if (end == std::string_view::npos || !is_linear_kernel(kernel.substr(0, end))) return "";
  const auto found = std::ranges::find(kHashes, kernel.substr(end + 1), &KernelHash::isa);
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

}  // namespace vernier
