#pragma once

#include <memory>
#include <string>

#include "ops/backend.h"

namespace vernier {

struct BackendOptions {
  std::string name = "cpu";  ///< cpu, cuda, mlx; reference: float64, slow, the judge of the others
  int threads = 0;           ///< 0: one for each usable core
  std::string isa;           ///< of the CPU backend; empty: the best that the machine has
  Numerics numerics = Numerics::kFast;
};

/// The one place that names backends. Refuses what this build does not have, with what to use instead.
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);

}  // namespace vernier
