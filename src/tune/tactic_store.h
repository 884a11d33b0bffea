#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tune/stored_tactics.h"
#include "tune/tactic_table.h"

namespace vernier {

struct TacticStoreOptions {
  std::optional<std::filesystem::path> folder;  ///< the user's, read and written; none: in memory
  std::vector<std::filesystem::path> layers;    ///< beneath it, only read; the first that knows a problem is taken
  int64_t most_bytes = 64'000'000;              ///< of the user's folder: the oldest unused goes first
};

/// What is known of which kernel serves a problem best, of this scope: a folder of the user's over read-only ones, and
/// what this process adds. `find` may be called on any thread without a lock; everything else takes one. Knowledge only
/// grows while it lives. Whoever uses a tactic asks the kernel once more whether it can serve.
class TacticStore {
 public:
  /// Reads all of it. What cannot be read, or is damaged, is a warning that names it: nothing here stops a start.
  TacticStore(TacticScope scope, TacticStoreOptions options);
  TacticStore(const TacticStore&) = delete;
  TacticStore& operator=(const TacticStore&) = delete;

  const TacticScope& scope() const { return scope_; }

  /// Of an op as it is prepared: its key for every later `find`. What is known of the problem counts as used.
  TacticKey prepare(const Problem& problem);
  const Tactic* find(TacticKey key) const noexcept { return table_.find(key); }

  /// Adds a tactic of this scope, on disk before it returns, and gives its id. Where the disk does not take it, one
  /// warning says so and it is known in memory. Refuses one that does not fit this scope or is too large.
  Result<std::string> commit(Tactic tactic);
  /// Notes that the tactic which is taken of a problem proves slower in use, for other processes to tell.
  void note_slower(TacticKey key, const SlowerInUse& seen);
  /// What was noted of the one that is taken, by whatever process.
  std::optional<SlowerInUse> slower(TacticKey key) const;
  /// Learns what others have added since.
  void refresh();

  size_t problems() const;  ///< with a tactic that fits
  size_t records() const;   ///< kept, whether they fit or not

 private:
  void learn(size_t layer, const TacticFolder& folder);
  void hold(StoredTactic stored);
  void warn_of_disk(const Error& error);
  void keep_bounded(const TacticFolder& folder);

  const TacticScope scope_;
  const TacticStoreOptions options_;
  mutable std::mutex mutex_;
  std::map<std::string, StoredTactic> held_;  ///< by id; entries stay where they are
  std::map<TacticKey, StoredTactic*> taken_;
  std::map<std::string, SlowerInUse> slower_;  ///< by id
  TacticTable table_;
  int64_t folder_bytes_ = 0;
  bool warned_of_disk_ = false;
};

}  // namespace vernier
