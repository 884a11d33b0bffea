#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace vernier {

/// A folder of records: bytes under their own content hash. Any number of processes read and write it side by side; a
/// record appears whole or not at all, is never written again, and a process that dies leaves only what is right.
///
///     records/<hash>.json   temporary/<process>-<count>   damaged/<name>   slower/<hash>   lock
///
/// Knows no tactics: what the bytes say is tactic_record's business. A folder that is absent is empty.
class TacticFolder {
 public:
  explicit TacticFolder(std::filesystem::path root) : root_(std::move(root)) {}
  const std::filesystem::path& root() const { return root_; }

  struct Entry {
    std::string id;  ///< content hash of the bytes
    std::string bytes;
    int64_t used_ns = 0;  ///< since 1970: when it was last wanted, else when it was made
  };
  /// A file that is not the record its name says, and why.
  struct Damage {
    std::string name;
    std::string what;
    bool unread = false;  ///< this process may not or cannot read it now: nothing is known of its bytes
  };
  struct Contents {
    std::vector<Entry> entries;  ///< by id
    std::vector<Damage> damaged;
  };
  /// Changes nothing. What vanishes meanwhile is as if it had never been there.
  Result<Contents> read() const;

  /// Gives the record's id once it is on the disk. One that is there already is right as it is, or is healed by it.
  Result<std::string> add(std::string_view bytes) const;
  /// Many at once, with one wait for the disk: none is published before all of them are there, whole. On an error, or
  /// where the process dies, some may be published, each of them right.
  Status add_all(std::span<const std::string_view> records) const;
  /// Moves what is still damaged to damaged/, under a name that is free; whether it did.
  bool set_aside(const std::string& name) const;
  /// For records whose bytes are what their name says and that are none all the same.
  bool set_aside_unreadable(const std::string& id) const;
  /// Notes that it is wanted, at most once in an hour. Best effort.
  void mark_used(Entry& entry) const;
  /// Notes beside a record that it proves slower in use, in place of an earlier note. A loss of power may lose it.
  Status note_slower(const std::string& id, std::string_view text) const;
  std::map<std::string, std::string> slower_notes() const;  ///< by id
  /// Removes those that nobody wanted since they were read. How many went.
  Result<int64_t> remove(std::span<const Entry> entries) const;
  /// What processes that died left half written, and what was set aside. How many files went.
  int64_t sweep_temporaries(int64_t older_than_ns) const { return sweep(root_ / "temporary", older_than_ns); }
  int64_t sweep_damaged(int64_t older_than_ns) const { return sweep(root_ / "damaged", older_than_ns); }
  /// How many `sweep_damaged(0)` would remove.
  int64_t damaged_files() const { return sweep(root_ / "damaged", 0, false); }

 private:
  std::filesystem::path records() const { return root_ / "records"; }
  std::filesystem::path slower() const { return root_ / "slower"; }
  std::filesystem::path path_of(const std::string& id) const { return records() / (id + ".json"); }
  std::string lock_path() const { return (root_ / "lock").string(); }
  Status write_temporary(std::string_view bytes, bool flush, std::string& path) const;
  Status publish(const std::string& temporary, const std::string& id) const;
  bool move_to_damaged(const std::string& name) const;
  static int64_t sweep(const std::filesystem::path& folder, int64_t older_than_ns, bool remove = true);

  std::filesystem::path root_;
};

}  // namespace vernier
