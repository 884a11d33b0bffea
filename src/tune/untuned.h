#pragma once

#include <cstdint>
#include <string>

namespace vernier {

/// Products of one shape that ran without a tactic.
struct UntunedLaunches {
  std::string op;     ///< "linear"
  std::string shape;  ///< "3072x576 q4_1"
  int64_t launches = 0;
};

}  // namespace vernier
