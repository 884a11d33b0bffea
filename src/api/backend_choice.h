#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "tune/tactic.h"

namespace vernier {

struct BackendOptions {
  std::string name = "cpu";  ///< cpu, cuda, mlx; auto: cuda where it can be, else cpu; reference: float64, the judge
  int threads = 0;           ///< 0: one for each usable core
  std::string isa;           ///< of the CPU backend; empty: the best that the machine has
  int device = 0;            ///< of the CUDA backend
  Numerics numerics = Numerics::kFast;
  bool same_rows = false;  ///< a row is the same to the bit alone and in a crowd, at any price; see CudaOptions
};

/// The one place that names backends. Refuses what this build or this machine does not have, with what to use instead.
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);

/// What tactics hold for where that backend would run with these options. Refuses a backend that measures none.
Result<TacticScope> tactic_scope(const BackendOptions& options);

/// What this build and this machine have of a backend.
struct BackendPresence {
  bool built = false;
  std::string devices;  ///< that answer, joined; empty: none
  std::string reason;   ///< why none does
};
BackendPresence cuda_presence();

/// Levels of instructions that the CPU backend may use in this process, the best last: those that the processor has
/// and whose registers the system grants.
std::vector<std::string> usable_instruction_sets();

}  // namespace vernier
