#pragma once

#include <string>
#include <vector>

#include "backends/cuda/kernels/runtime.h"

namespace vernier::testing {

/// A driver in whose place everything is written down: what runs, what is captured, what a graph runs.
struct WrittenDriver {
  std::vector<std::string> done;
  bool refuses_capture = false;
  int failing = -1;  ///< the launch of this number fails
  int captures = 0, graphs_alive = 0;

  bool capturing = false;
  std::vector<int> captured;
};
WrittenDriver& driver();

/// A function of the border.
cuda::LaunchCode touch(int number, float factor, cuda::Stream stream);
cuda::LaunchCode touch_rows(const cuda::ConstRows& rows, int number, cuda::Stream stream);

}  // namespace vernier::testing
