#pragma once

#include <cstdint>
#include <string>

namespace vernier {

/// Products of one shape: how often they ran without a tactic, and what of their tactics proves slower in use.
struct UntunedLaunches {
  std::string op;        ///< "linear"
  std::string shape;     ///< "3072x576 q4_1"
  int64_t launches = 0;  ///< without a tactic
  int64_t slower = 0;    ///< tactics that are watched and slower than their records say
};

}  // namespace vernier
