#pragma once

#include <cstdint>

#include "backends/cpu/cpu_isa.h"
#include "base/thread_pool.h"

namespace vernier {

/// What this machine can do at most, measured now: the numbers that rates are divided by. All threads of the pool
/// together.
struct MachineLimits {
  double read_bytes_per_s = 0;  ///< from memory, over a buffer of the size asked for
  double int8_ops_per_s = 0;    ///< 8-bit dot products; a multiply and an add are two
  double f32_ops_per_s = 0;
};

/// Best of several short runs of each loop, half a second or so in all. `buffer_bytes` should be what a token reads, so
/// that the share that stays in the last-level cache is the same.
MachineLimits measure_limits(ThreadPool& pool, Isa isa, int64_t buffer_bytes);

}  // namespace vernier
