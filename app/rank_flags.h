#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "comm/communicator.h"

namespace vernier {

/// How a command's ranks are: how many, who starts them, how long one waits for another.
struct RankFlags {
  int tp = 0;  ///< 0: the command works on the whole model
  int rank = -1;
  std::string rendezvous;
  std::string timeout = "60s";

  /// --tp, --rank, --rendezvous, --rank-timeout.
  void add_to(CLI::App& command);

  /// Who starts the ranks.
  enum class By : uint8_t {
    kThreads,  ///< this process: each is a thread of it
    kPerson,   ///< --rank and --rendezvous: this process is one
    kMpi,      ///< mpirun: the same
  };
  struct Plan {
    By by = By::kThreads;
    int ranks_here = 1;  ///< that share this machine's processors
    int64_t timeout_ns = 0;
  };
  /// Of these flags and of what a launcher says in the environment. Refuses what does not go together, and a launcher
  /// that started another number of ranks.
  Result<Plan> plan() const;
  /// This process's end among ranks that are processes.
  Result<std::unique_ptr<Communicator>> join(const Plan& plan) const;
};

}  // namespace vernier
