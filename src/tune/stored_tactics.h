#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tune/tactic.h"
#include "tune/tactic_folder.h"

namespace vernier {

/// A record as it lies in a folder, with what it says.
struct StoredTactic {
  TacticFolder::Entry entry;
  Tactic tactic;
  std::string unreadable;  ///< "format 2; this version reads 1": whole, of a later version, and `tactic` is empty
  size_t layer = 0;        ///< 0: the user's folder; the others lie beneath it
  bool ahead = false;      ///< dated more than a day after now: no one knows when it was measured
};

struct StoredTactics {
  std::vector<StoredTactic> records;  ///< by id
  std::vector<TacticFolder::Damage> damaged;
};

/// What was seen of a record that proves slower in use than it was measured.
struct SlowerInUse {
  double median_ns = 0;
  int64_t launches = 0;    ///< that were timed
  int64_t seen_at_ms = 0;  ///< since 1970
};
/// Kept beside the record, which stays as it is.
Status note_slower(const TacticFolder& folder, const std::string& id, const SlowerInUse& seen);
/// By id; what cannot be read is passed over.
std::map<std::string, SlowerInUse> read_slower(const TacticFolder& folder);

/// By more than calendars of machines that share a store differ.
bool is_dated_ahead(const Tactic& tactic);

StoredTactics read_contents(TacticFolder::Contents contents);
/// Reads a folder and changes nothing.
Result<StoredTactics> read_stored(const TacticFolder& folder);
/// Moves what is damaged out of the way; whether it did.
bool set_aside(const TacticFolder& folder, const TacticFolder::Damage& damage);

/// Why the record is not used here; empty: it is, unless another of its problem supersedes it.
std::string misfit(const StoredTactic& stored, const TacticScope& scope);
/// Whether `a` is taken rather than `b`, of one problem and both fit: of the upper layer, or of one layer the later
/// one, so that measuring anew has a use. One that is dated ahead of this machine's calendar comes after all others.
bool supersedes(const StoredTactic& a, const StoredTactic& b);
/// Of each problem the record that is taken.
std::map<TacticKey, const StoredTactic*> taken_tactics(std::span<const StoredTactic> all, const TacticScope& scope);

/// What may go. A rule that is absent removes nothing.
struct PruneRules {
  bool misfits = false;                  ///< what does not fit this scope
  bool superseded = false;               ///< what fits, and a later record of its problem does, too
  std::optional<int64_t> unused_for_ns;  ///< wanted by nobody for so long
  std::optional<int64_t> most_bytes;     ///< of what is left: the oldest unused goes first
};
struct Prunable {
  const StoredTactic* stored = nullptr;
  std::string why;
};
/// Pure. `now_ns` since 1970.
std::vector<Prunable> choose_prunable(std::span<const StoredTactic> all, const TacticScope& scope,
                                      const PruneRules& rules, int64_t now_ns);
/// Nanoseconds since 1970 by this machine's calendar.
int64_t calendar_ns();

}  // namespace vernier
