#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "ops/ref_backend.h"
#include "testing/isa.h"

namespace vernier::testing {

/// A backend that is compared with the reference, and how much of a number it keeps.
struct BackendCase {
  std::string name;
  Numerics numerics = Numerics::kExact;
  int threads = 1;
  std::string isa;

  Result<std::unique_ptr<Backend>> make() const {
    return CpuBackend::make({.threads = threads, .isa = isa, .numerics = numerics});
  }
};

/// Every fast backend of this build, under the instruction set that this run asks for.
inline std::vector<BackendCase> backend_cases() {
  const std::string& isa = requested_isa();
  return {{"cpu_exact", Numerics::kExact, 2, isa}, {"cpu_fast", Numerics::kFast, 2, isa}};
}

}  // namespace vernier::testing
