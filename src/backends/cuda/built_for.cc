#include "backends/cuda/built_for.h"

#include <algorithm>
#include <charconv>

namespace vernier {
namespace {

bool runs_on(std::string_view architecture, int capability) {
  int built = 0;
  const auto [end, error] = std::from_chars(architecture.data(), architecture.data() + architecture.size(), built);
  if (error != std::errc()) return false;
  const std::string_view rest(end, static_cast<size_t>(architecture.data() + architecture.size() - end));
  const bool one_chip = rest.starts_with('a');
  if (one_chip) return built == capability;
  const bool same_family = built / 10 == capability / 10 && built <= capability;
  const bool machine_code = rest != "-virtual", ptx = rest != "-real";
  return (machine_code && same_family) || (ptx && built <= capability);
}

}  // namespace

Status check_built_for(std::string_view architectures, std::string_view device, int major, int minor) {
  const int capability = 10 * major + minor;
  std::string_view left = architectures;
  while (!left.empty()) {
    const size_t end = std::min(left.find(';'), left.size());
    if (runs_on(left.substr(0, end), capability)) return {};
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return unsupported(
      "the cuda backend: {} has compute capability {}.{}, and this program's kernels were built for {}; build it with "
      "-DVERNIER_CUDA_ARCHS={}-real, or use --backend cpu",
      device, major, minor, architectures, capability);
}

}  // namespace vernier
