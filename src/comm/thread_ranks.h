#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "comm/communicator.h"

namespace vernier {

/// One end for each rank, all within this process; each belongs to one thread.
std::vector<std::unique_ptr<RankTransport>> connect_threads(int ranks);

/// How the ranks of `run_on_threads` ended.
struct ThreadRanks {
  std::vector<Status> ended;     ///< by rank; of one that was left behind, kTimeout
  std::vector<int> left_behind;  ///< still running: whoever started them ends the process soon
};

/// Runs `work` on a thread for each rank and waits for all of them. A rank that has not ended the time-out after
/// another has, or two seconds after another has failed, hangs: it is left behind, so this never does. `work` and what
/// it refers to by value must outlive such a thread, so it refers to nothing of the caller's stack.
ThreadRanks run_on_threads(int ranks, int64_t timeout_ns, std::function<Status(Communicator&)> work);

}  // namespace vernier
