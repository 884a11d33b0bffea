#pragma once

#include <cstdint>

#include "backends/cpu/cpu_isa.h"
#include "base/thread_pool.h"
#include "tune/machine_limits.h"

namespace vernier {

/// Best of several short runs of each loop, half a second or so in all. `buffer_bytes` should be what a token reads, so
/// that the share that stays in the last-level cache is the same.
MachineLimits measure_limits(ThreadPool& pool, Isa isa, int64_t buffer_bytes);

}  // namespace vernier
