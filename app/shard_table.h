#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace vernier {

/// The flags of `inspect` that cut a model for several ranks.
struct ShardFlags {
  int ranks = 0;  ///< 0: not asked
  std::string device = "sm100";

  /// --shards, --device-features.
  void add_to(CLI::App& command);
};

/// What each rank would have, what padding costs it, and which numbers of ranks need none; as tables or as JSON.
Status print_shards(const Checkpoint& checkpoint, const ShardFlags& flags);

}  // namespace vernier
