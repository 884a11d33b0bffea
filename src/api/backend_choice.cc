#include "api/backend_choice.h"

#include "backends/absent/absent.h"
#include "backends/cpu/cpu_backend.h"
#include "ops/ref_backend.h"

namespace vernier {

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
  if (options.name == "cpu") {
    return CpuBackend::make({.threads = options.threads, .isa = options.isa, .numerics = options.numerics});
  }
  if (options.name == "reference") return std::unique_ptr<Backend>(std::make_unique<RefBackend>());
  if (options.name == "cuda" || options.name == "mlx") return make_absent_backend(options.name);
  return invalid_argument("backend '{}' is unknown; expected cpu, cuda, mlx or reference", options.name);
}

}  // namespace vernier
