#include <algorithm>

#include "sched/sched_state.h"

namespace vernier {

Status SchedState::check_sequences() const {
  size_t live = 0, retiring = 0;
  for (const SequenceState& s : slots_) {
    if (s.id == SequenceId{}) continue;
    ++live;
    const auto id = static_cast<uint64_t>(s.id);
    retiring += s.phase == SequencePhase::kRetiring ? 1 : 0;
    if (s.cached > s.scheduled || s.scheduled > s.committed || s.committed > s.most_tokens) {
      return corrupt("sequence {}: cached {}, scheduled {}, committed {} of at most {}", id, s.cached, s.scheduled,
                     s.committed, s.most_tokens);
    }
    if (static_cast<int32_t>(s.units.size()) != s.committed) return corrupt("sequence {}: units are missing", id);
    if (static_cast<int32_t>(s.hashes.size()) != s.committed / config_.block_tokens) {
      return corrupt("sequence {}: {} hashes of {} units", id, s.hashes.size(), s.committed);
    }
    for (const BlockTable& table : s.tables) {
      if (s.phase == SequencePhase::kWaiting && !table.blocks().empty())
        return corrupt("sequence {} waits and holds", id);
      const int32_t end = table.first_position() + static_cast<int32_t>(table.blocks().size()) * config_.block_tokens;
      const int32_t whole = (s.scheduled + config_.block_tokens - 1) / config_.block_tokens * config_.block_tokens;
      if (end != whole)
        return corrupt("sequence {}: blocks end at {}, {} positions are scheduled", id, end, s.scheduled);
    }
    if (s.phase == SequencePhase::kWaiting && (s.steps_in_flight > 0 || s.scheduled > 0)) {
      return corrupt("sequence {} waits with {} positions scheduled", id, s.scheduled);
    }
    if (s.phase == SequencePhase::kRetiring && s.steps_in_flight == 0)
      return corrupt("sequence {} retires for ever", id);
    if (s.steps_in_flight == 0 && s.cached != s.scheduled) return corrupt("sequence {}: rows of no step", id);
  }
  if (live != slots_.size() - unused_.size() || live != running_.size() + waiting_.size() + retiring) {
    return corrupt("{} sequences live, {} run, {} wait, {} retire", live, running_.size(), waiting_.size(), retiring);
  }
  for (int32_t index : running_) {
    if (slot(index).phase != SequencePhase::kRunning) return corrupt("slot {} is listed as running and is not", index);
  }
  for (int32_t index : waiting_) {
    if (slot(index).phase != SequencePhase::kWaiting) return corrupt("slot {} is listed as waiting and is not", index);
  }
  if (static_cast<int32_t>(running_.size()) > config_.max_sequences) return corrupt("{} run", running_.size());
  return {};
}

Status SchedState::check_holders() const {
  for (size_t c = 0; c < pools_.size(); ++c) {
    std::vector<int32_t> holders(static_cast<size_t>(pools_[c].blocks()), 0);
    for (const SequenceState& s : slots_) {
      if (s.id == SequenceId{}) continue;
      for (int32_t block : s.tables[c].blocks()) ++holders[static_cast<size_t>(block)];
    }
    for (int32_t block = 0; block < pools_[c].blocks(); ++block) {
      if (holders[static_cast<size_t>(block)] != pools_[c].holders(block)) {
        return corrupt("class {}: block {} is in {} tables, counted {} times", c, block,
                       holders[static_cast<size_t>(block)], pools_[c].holders(block));
      }
    }
    TRY_STATUS(pools_[c].check());
  }
  return {};
}

Status SchedState::check() const {
  TRY_STATUS(check_sequences());
  TRY_STATUS(check_holders());
  TRY_STATUS(tree_.check(pools_));
  std::vector<int32_t> joined(shares_.size(), 0);
  for (const SequenceState& s : slots_) {
    if (s.id != SequenceId{}) ++joined[static_cast<size_t>(s.share)];
  }
  for (size_t i = 0; i < shares_.size(); ++i) {
    if (joined[i] != shares_[i].sequences) return corrupt("share {} has {} sequences", i, joined[i]);
  }
  return {};
}

}  // namespace vernier
