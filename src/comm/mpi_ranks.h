#pragma once

#include <memory>

#include "base/result.h"
#include "comm/rank_transport.h"

namespace vernier {

/// The end of this process among those that Open MPI's `mpirun` started, on one machine or several. Its library is
/// opened here, so a program that starts no ranks this way needs none. Fails where there is no such library, naming
/// it, and where the ranks do not all come within the time-out. Once in a process.
Result<std::unique_ptr<RankTransport>> join_mpi(int64_t timeout_ns);

}  // namespace vernier
