#include "api/backend_choice.h"

#include <fmt/ranges.h>

#include "backends/absent/absent.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/cpu_isa.h"
#include "backends/cpu/cpu_tactics.h"
#include "backends/cuda/cuda_entry.h"
#include "base/log.h"
#include "ops/ref_backend.h"

namespace vernier {
namespace {

/// auto: a GPU that cannot be had is no error; that there is none is said where somebody may expect one. Who names the
/// processor's instructions asks for the processor.
std::string choose_name(const BackendOptions& options) {
  if (!cuda_is_built() || !options.isa.empty()) return "cpu";
  const Status usable = check_cuda_device(options.device);
  if (usable.ok()) return "cuda";
  log_info("--backend auto runs on the CPU: {}", usable.error().message);
  return "cpu";
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
  if (options.name == "auto") {
    BackendOptions chosen = options;
    chosen.name = choose_name(options);
    return make_backend(chosen);
  }
  if (options.device != 0 && options.name != "cuda") {
    return invalid_argument("device {} is a GPU's number; it goes with the cuda backend, not with {}", options.device,
                            options.name);
  }
  if (!options.isa.empty() && options.name == "cuda") {
    return invalid_argument("isa {} names a processor's instructions; it goes with the cpu backend, not with cuda",
                            options.isa);
  }
  if (options.name == "cpu") {
    return CpuBackend::make({.threads = options.threads, .isa = options.isa, .numerics = options.numerics});
  }
  if (options.name == "reference") return std::unique_ptr<Backend>(std::make_unique<RefBackend>());
  if (options.name == "cuda") {
    return make_cuda_backend({.device = options.device, .numerics = options.numerics, .same_rows = options.same_rows});
  }
  if (options.name == "mlx") return make_absent_backend(options.name);
  return invalid_argument("backend '{}' is unknown; expected auto, cpu, cuda, mlx or reference", options.name);
}

Result<TacticScope> tactic_scope(const BackendOptions& options) {
  if (options.name == "auto") {
    BackendOptions chosen = options;
    chosen.name = choose_name(options);
    return tactic_scope(chosen);
  }
  if (options.name == "cpu") return cpu_tactic_scope(options.isa, options.threads);
  return unsupported("backend {} measures no tactics; cpu does", options.name);
}

BackendPresence cuda_presence() {
  BackendPresence presence;
  presence.built = cuda_is_built();
  if (!presence.built) return presence;
  const auto devices = list_cuda_devices();
  if (devices.ok()) {
    presence.devices = fmt::format("{}", fmt::join(*devices, "; "));
  } else {
    presence.reason = devices.error().message;
  }
  return presence;
}

std::vector<std::string> usable_instruction_sets() {
  std::vector<std::string> sets;
  for (Isa isa : machine_isas()) sets.emplace_back(name(isa));
  return sets;
}

}  // namespace vernier
