#include "tune/stored_tactics.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <sstream>
#include <tuple>

#include "base/clock.h"
#include "tune/content_hash.h"
#include "tune/tactic_record.h"

namespace vernier {
namespace {

constexpr std::string_view kUnreadable = "no record: ";
/// Calendars of machines that share a store differ by less.
constexpr int64_t kMostAheadMs = 24LL * 3600 * 1000;

}  // namespace

bool is_dated_ahead(const Tactic& tactic) {
  return tactic.measured_at_ms > calendar_ns() / 1'000'000 + kMostAheadMs;
}

StoredTactics read_contents(TacticFolder::Contents contents) {
  StoredTactics all;
  all.damaged = std::move(contents.damaged);
  for (TacticFolder::Entry& entry : contents.entries) {
    Result<Tactic> tactic = read_tactic(entry.bytes);
    if (tactic.ok()) {
      const bool ahead = is_dated_ahead(*tactic);
      all.records.push_back({std::move(entry), std::move(tactic).value(), "", 0, ahead});
    } else if (tactic.error().code == ErrorCode::kUnsupported) {
      all.records.push_back({std::move(entry), {}, tactic.error().message});
    } else {
      all.damaged.push_back({entry.id + ".json", std::string(kUnreadable) + tactic.error().message});
    }
  }
  return all;
}

Result<StoredTactics> read_stored(const TacticFolder& folder) {
  TRY_BIND(TacticFolder::Contents contents, folder.read());
  return read_contents(std::move(contents));
}

Status note_slower(const TacticFolder& folder, const std::string& id, const SlowerInUse& seen) {
  return folder.note_slower(id, fmt::format("{:.1f} {} {}\n", seen.median_ns, seen.launches, seen.seen_at_ms));
}

std::map<std::string, SlowerInUse> read_slower(const TacticFolder& folder) {
  std::map<std::string, SlowerInUse> all;
  for (const auto& [id, text] : folder.slower_notes()) {
    SlowerInUse seen;
    std::istringstream words(text);
    if (words >> seen.median_ns >> seen.launches >> seen.seen_at_ms) all.emplace(id, seen);
  }
  return all;
}

bool set_aside(const TacticFolder& folder, const TacticFolder::Damage& damage) {
  if (!damage.what.starts_with(kUnreadable)) return folder.set_aside(damage.name);
  return folder.set_aside_unreadable(damage.name.substr(0, damage.name.rfind('.')));
}

std::string misfit(const StoredTactic& stored, const TacticScope& scope) {
  return stored.unreadable.empty() ? tactic_misfit(stored.tactic, scope) : stored.unreadable;
}

bool supersedes(const StoredTactic& a, const StoredTactic& b) {
  if (a.layer != b.layer) return a.layer < b.layer;
  if (a.ahead != b.ahead) return b.ahead;
  return std::tie(a.tactic.measured_at_ms, a.entry.id) > std::tie(b.tactic.measured_at_ms, b.entry.id);
}

std::map<TacticKey, const StoredTactic*> taken_tactics(std::span<const StoredTactic> all, const TacticScope& scope) {
  std::map<TacticKey, const StoredTactic*> taken;
  for (const StoredTactic& stored : all) {
    if (!misfit(stored, scope).empty()) continue;
    const StoredTactic*& best = taken[tactic_key(stored.tactic.problem)];
    if (best == nullptr || supersedes(stored, *best)) best = &stored;
  }
  return taken;
}

std::vector<Prunable> choose_prunable(std::span<const StoredTactic> all, const TacticScope& scope,
                                      const PruneRules& rules, int64_t now_ns) {
  const std::map<TacticKey, const StoredTactic*> taken = taken_tactics(all, scope);
  std::vector<Prunable> chosen;
  std::vector<const StoredTactic*> left;
  int64_t left_bytes = 0;
  for (const StoredTactic& stored : all) {
    const std::string why = misfit(stored, scope);
    const int64_t unused_ns = now_ns - stored.entry.used_ns;
    if (rules.misfits && !why.empty()) {
      chosen.push_back({&stored, why});
    } else if (rules.superseded && why.empty() && taken.at(tactic_key(stored.tactic.problem)) != &stored) {
      chosen.push_back({&stored, "measured again later"});
    } else if (rules.unused_for_ns && unused_ns > *rules.unused_for_ns) {
      chosen.push_back({&stored, fmt::format("not used for {}", format_duration(unused_ns))});
    } else {
      left.push_back(&stored);
      left_bytes += static_cast<int64_t>(stored.entry.bytes.size());
    }
  }
  std::ranges::sort(left, [](const StoredTactic* a, const StoredTactic* b) {
    return std::tie(a->entry.used_ns, a->entry.id) < std::tie(b->entry.used_ns, b->entry.id);
  });
  for (const StoredTactic* stored : left) {
    if (!rules.most_bytes || left_bytes <= *rules.most_bytes) break;
    left_bytes -= static_cast<int64_t>(stored->entry.bytes.size());
    chosen.push_back({stored, "the oldest unused of a store that is too large"});
  }
  return chosen;
}

int64_t calendar_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace vernier
