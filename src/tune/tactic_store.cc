#include "tune/tactic_store.h"

#include <algorithm>

#include "base/log.h"
#include "tune/content_hash.h"
#include "tune/tactic_record.h"

namespace vernier {

TacticStore::TacticStore(TacticScope scope, TacticStoreOptions options)
    : scope_(std::move(scope)), options_(std::move(options)) {
  refresh();
}

void TacticStore::refresh() {
  const std::lock_guard guard(mutex_);
  if (options_.folder) learn(0, TacticFolder(*options_.folder));
  if (options_.folder) slower_.merge(read_slower(TacticFolder(*options_.folder)));
  for (size_t i = 0; i < options_.layers.size(); ++i) learn(i + 1, TacticFolder(options_.layers[i]));
}

void TacticStore::learn(size_t layer, const TacticFolder& folder) {
  Result<StoredTactics> found = read_stored(folder);
  if (!found.ok()) {
    if (layer == 0) {
      warn_of_disk(found.error());
    } else {
      log_warning("tactics of {} are not used: {}", folder.root().string(), found.error().to_string());
    }
    return;
  }
  bool may_move = layer == 0;
  for (const TacticFolder::Damage& damage : found->damaged) {
    // Where one cannot be moved, another would wait for the lock as long again: it is left to the next reader.
    if (damage.unread) {
      log_warning("the tactic {}/records/{} cannot be read and is not used: {}", folder.root().string(), damage.name,
                  damage.what);
      continue;
    }
    const bool moved = may_move && set_aside(folder, damage);
    may_move = moved;
    log_warning("the tactic {}/records/{} is damaged and {}: {}", folder.root().string(), damage.name,
                moved ? "set aside, to be measured again" : "not used", damage.what);
  }
  if (layer == 0) folder_bytes_ = 0;
  for (StoredTactic& stored : found->records) {
    if (layer == 0) folder_bytes_ += static_cast<int64_t>(stored.entry.bytes.size());
    stored.layer = layer;
    hold(std::move(stored));
  }
}

void TacticStore::hold(StoredTactic one) {
  const std::string id = one.entry.id;
  const auto [at, is_new] = held_.try_emplace(id, std::move(one));
  StoredTactic& stored = at->second;
  if (!is_new || !misfit(stored, scope_).empty()) return;
  const TacticKey key = tactic_key(stored.tactic.problem);
  StoredTactic*& taken = taken_[key];
  if (taken != nullptr && !supersedes(stored, *taken)) return;
  taken = &stored;
  table_.put(key, stored.tactic);
}

TacticKey TacticStore::prepare(const Problem& problem) {
  const TacticKey key = tactic_key(problem);
  const std::lock_guard guard(mutex_);
  const auto found = taken_.find(key);
  if (found != taken_.end() && found->second->layer == 0 && options_.folder) {
    TacticFolder(*options_.folder).mark_used(found->second->entry);
  }
  return key;
}

Result<std::string> TacticStore::commit(Tactic tactic) {
  if (const std::string why = tactic_misfit(tactic, scope_); !why.empty()) {
    return invalid_argument("a tactic for {} does not hold here: {}", tactic.problem.to_string(), why);
  }
  std::string bytes = write_bounded_tactic(tactic);
  if (bytes.size() > kMostRecordBytes) {
    return invalid_argument("the tactic for {:.200} takes {} bytes; a record has at most {}",
                            tactic.problem.to_string(), bytes.size(), kMostRecordBytes);
  }
  if (const Result<Tactic> read = read_tactic(bytes); !read.ok()) {
    return invalid_argument("the tactic for {:.200} cannot be kept: {}", tactic.problem.to_string(),
                            read.error().message);
  }
  const std::lock_guard guard(mutex_);
  const std::string id = content_hash(bytes).to_hex();
  if (options_.folder) {
    const TacticFolder folder(*options_.folder);
    const Result<std::string> added = folder.add(bytes);
    if (!added.ok()) warn_of_disk(added.error());
    folder_bytes_ += static_cast<int64_t>(bytes.size());
    if (added.ok() && folder_bytes_ > options_.most_bytes) keep_bounded(folder);
  }
  StoredTactic stored;
  stored.entry = {id, std::move(bytes), calendar_ns()};
  stored.ahead = is_dated_ahead(tactic);
  stored.tactic = std::move(tactic);
  hold(std::move(stored));
  return id;
}

void TacticStore::note_slower(TacticKey key, const SlowerInUse& seen) {
  const std::lock_guard guard(mutex_);
  const auto found = taken_.find(key);
  if (found == taken_.end()) return;
  const std::string& id = found->second->entry.id;
  slower_.insert_or_assign(id, seen);
  if (!options_.folder) return;
  const Status noted = vernier::note_slower(TacticFolder(*options_.folder), id, seen);
  if (!noted.ok()) warn_of_disk(noted.error());
}

std::optional<SlowerInUse> TacticStore::slower(TacticKey key) const {
  const std::lock_guard guard(mutex_);
  const auto taken = taken_.find(key);
  if (taken == taken_.end()) return std::nullopt;
  const auto found = slower_.find(taken->second->entry.id);
  return found == slower_.end() ? std::nullopt : std::optional(found->second);
}

void TacticStore::keep_bounded(const TacticFolder& folder) {
  const Result<StoredTactics> all = read_stored(folder);
  if (!all.ok()) return;
  PruneRules rules;
  rules.most_bytes = options_.most_bytes / 10 * 9;  // with room to spare, so that the next one does not ask again
  const std::vector<Prunable> chosen = choose_prunable(all->records, scope_, rules, calendar_ns());
  std::vector<TacticFolder::Entry> entries;
  for (const Prunable& one : chosen) entries.push_back(one.stored->entry);
  folder_bytes_ = 0;
  for (const StoredTactic& stored : all->records) folder_bytes_ += static_cast<int64_t>(stored.entry.bytes.size());
  const Result<int64_t> removed = folder.remove(entries);
  if (!removed.ok()) return warn_of_disk(removed.error());
  for (const TacticFolder::Entry& entry : entries) folder_bytes_ -= static_cast<int64_t>(entry.bytes.size());
}

void TacticStore::warn_of_disk(const Error& error) {
  if (!warned_of_disk_) log_warning("tactics are kept in memory alone: {}", error.to_string());
  warned_of_disk_ = true;
}

size_t TacticStore::problems() const {
  const std::lock_guard guard(mutex_);
  return taken_.size();
}

size_t TacticStore::records() const {
  const std::lock_guard guard(mutex_);
  return held_.size();
}

}  // namespace vernier
