#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace vernier {

/// Puts memory out of every cache, so that who reads it next reads memory. What lies there stays as it is. Does nothing
/// on a processor that has no instruction for it.
void forget_cached(ThreadPool& pool, const void* from, int64_t bytes);

}  // namespace vernier
