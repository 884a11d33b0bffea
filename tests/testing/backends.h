#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "ops/ref_backend.h"
#include "testing/isa.h"

namespace vernier::testing {

/// A backend under test, and how much of a number it keeps.
struct BackendCase {
  std::string name;
  Numerics numerics = Numerics::kExact;
  int threads = 1;

  Result<std::unique_ptr<Backend>> make() const {
    if (name == "reference") return std::unique_ptr<Backend>(std::make_unique<RefBackend>());
    return CpuBackend::make({.threads = threads, .isa = requested_isa(), .numerics = numerics});
  }
};

/// Every fast backend of this build, under the instruction set that this run asks for.
inline std::vector<BackendCase> backend_cases() {
  return {{"cpu_exact", Numerics::kExact, 2}, {"cpu_fast", Numerics::kFast, 2}};
}

/// Backends that keep activations in float32 or better: the reference, and each fast one under exact numerics.
inline std::vector<BackendCase> exact_backends() {
  return {{"reference", Numerics::kExact, 1}, {"cpu_exact", Numerics::kExact, 2}};
}

/// For test names.
inline void PrintTo(const BackendCase& of, std::ostream* out) {
  *out << of.name;
}

}  // namespace vernier::testing
