#pragma once

#include <string>

#include "tune/tactic.h"

namespace vernier::testing {

/// A machine of this name that has the kernels "tile_a", "tile_b" and "stream".
inline TacticScope made_scope(const std::string& device = "AMD EPYC") {
  TacticScope scope;
  scope.device = {{"backend", "cpu"}, {"device", device}, {"isa", "avx2"}, {"threads", "2"}};
  scope.libraries = {{"driver", "550.54"}};
  scope.kernel_hash = [](std::string_view kernel) -> std::string {
    if (kernel == "tile_a") return std::string(64, 'a');
    if (kernel == "tile_b") return std::string(64, 'b');
    return kernel == "stream" ? std::string(64, 'c') : "";
  };
  return scope;
}

inline Problem made_problem(int cols, const std::string& layout = "panels8") {
  return {"linear",
          {{"codec", "q4_1"}, {"rows", "2048"}, {"cols", std::to_string(cols)}, {"layout", layout}, {"batch", "1"}}};
}

/// Measured in this scope, `at_ms` after 1970.
inline Tactic made_tactic(const Problem& problem, int64_t at_ms, const std::string& kernel = "tile_a",
                          const TacticScope& scope = made_scope()) {
  Tactic tactic;
  tactic.problem = problem;
  tactic.chosen = {kernel, scope.kernel_hash(kernel), {{"rows_at_once", "4"}}};
  tactic.time = {1234.5, 17.3, 15};
  tactic.others.push_back({{"tile_b", std::string(64, 'b'), {}}, "slower", "by 3.1 %", {1272.8, 21.7, 15}});
  tactic.others.push_back({{"stream", std::string(64, 'c'), {}}, "failed", "no memory for its rows", {}});
  tactic.device = scope.device;
  tactic.libraries = scope.libraries;
  tactic.clock = "governor performance";
  tactic.measured_at_ms = at_ms;
  tactic.version = "0.1.0";
  return tactic;
}

}  // namespace vernier::testing
