#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

#include "base/result.h"

namespace vernier {

/// A file or a folder that is being written under a passing name, of one writer: `PATH.lock` beside it is held
/// meanwhile. It is removed when this goes before `put` has given it its own name, and where the program called
/// `remove_on_signals` also when SIGINT, SIGTERM or SIGHUP ends it. Any thread.
class UnfinishedOutput {
 public:
  /// Removes what an earlier run left there, and says so. Refuses what another is writing now, and what no run left: by
  /// its lock it is known.
  static Result<std::unique_ptr<UnfinishedOutput>> begin(const std::filesystem::path& path);
  ~UnfinishedOutput();
  UnfinishedOutput(const UnfinishedOutput&) = delete;
  UnfinishedOutput& operator=(const UnfinishedOutput&) = delete;

  /// Runs `give_name`; no signal ends the program meanwhile.
  Status put(const std::function<Status()>& give_name);

  /// For a program's commands that write: handles the three signals from now on, but for those that are ignored.
  static void remove_on_signals();

 private:
  UnfinishedOutput(std::filesystem::path path, int lock);

  const std::filesystem::path path_;
  const int lock_;  // an open file
  bool named_ = false;
};

/// A file that appears whole or not at all; through a link, its target. What is no file (a pipe, a device) is written
/// to.
Status write_whole(const std::string& path, const std::function<void(std::ostream& out)>& write);

}  // namespace vernier
