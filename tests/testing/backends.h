#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#ifdef VERNIER_TEST_CUDA
#include "backends/cuda/cuda_entry.h"
#endif
#include "ops/ref_backend.h"
#include "testing/isa.h"
#include "testing/requested_backend.h"

namespace vernier::testing {

/// A backend under test, and how much of a number it keeps.
struct BackendCase {
  std::string name;
  Numerics numerics = Numerics::kExact;
  int threads = 1;
  bool same_rows = false;

  Result<std::unique_ptr<Backend>> make() const {
    if (name == "reference") return std::unique_ptr<Backend>(std::make_unique<RefBackend>());
#ifdef VERNIER_TEST_CUDA
    if (name.starts_with("cuda") || requested_backend() == "cuda") {
      return make_cuda_backend({.numerics = numerics, .same_rows = same_rows});
    }
#endif
    if (!requested_backend().empty()) return unsupported("this build's tests have no backend {}", requested_backend());
    return CpuBackend::make({.threads = threads, .isa = requested_isa(), .numerics = numerics});
  }
};

/// Why there are no cases of the CUDA backend; empty where there are. One test of a suite skips with it.
inline std::string why_no_cuda_cases() {
#ifdef VERNIER_TEST_CUDA
  static const Result<std::vector<std::string>> devices = list_cuda_devices();
  return devices.ok() ? "" : devices.error().message;
#else
  return "this build has no CUDA backend";
#endif
}

inline std::vector<BackendCase> cuda_cases() {
  if (!why_no_cuda_cases().empty()) return {};
  return {{"cuda_exact", Numerics::kExact, 1}, {"cuda_fast", Numerics::kFast, 1}};
}

/// Every fast backend of this build, under the instruction set that this run asks for; GPUs as far as one answers.
inline std::vector<BackendCase> backend_cases() {
  std::vector<BackendCase> cases = cuda_cases();
  cases.insert(cases.end(), {{"cpu_exact", Numerics::kExact, 2}, {"cpu_fast", Numerics::kFast, 2}});
  return cases;
}

/// Backends that keep activations in float32 or better: the reference, and each fast one under exact numerics.
inline std::vector<BackendCase> exact_backends() {
  std::vector<BackendCase> cases = cuda_cases();
  std::erase_if(cases, [](const BackendCase& of) { return of.numerics != Numerics::kExact; });
  cases.insert(cases.end(), {{"reference", Numerics::kExact, 1}, {"cpu_exact", Numerics::kExact, 2}});
  return cases;
}

/// For test names.
inline void PrintTo(const BackendCase& of, std::ostream* out) {
  *out << of.name;
}

}  // namespace vernier::testing
