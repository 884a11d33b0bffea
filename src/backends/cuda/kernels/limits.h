#pragma once

#include "backends/cuda/kernels/launch.h"

/// What a device can do at most: loops that do nothing else.
namespace vernier::cuda {

/// Blocks that fill a device of so many multiprocessors do `rounds` steps each; how many operations that is, a multiply
/// and an add being two.
struct PeakCall {
  int multiprocessors = 1;
  int rounds = 1;
  float* unused = nullptr;  ///< one number, so that the loop is not left out
};
LaunchCode f32_loop(const PeakCall& call, int64_t* operations, Stream stream);
LaunchCode int8_loop(const PeakCall& call, int64_t* operations, Stream stream);

}  // namespace vernier::cuda
