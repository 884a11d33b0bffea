// How the prompts of a step share its rows. Within one priority the oldest gets half of them, the others the rest, the
// one with the least to compute first; what they leave goes to the oldest. So a short prompt does not wait for a long
// one to end, and a long one takes at most twice the steps that it would take if all came in order.

#include "sched/step_planner.h"

namespace vernier {
namespace {

// Hits are looked up for those next by right, so that a long prompt of which little is left is known for short; and for
// no more than this many in one step, however many wait for the same blocks.
constexpr size_t kLookAhead = 8;
constexpr int32_t kMostExamined = 64;

}  // namespace

void StepPlanner::collect_prompts() {
  scratch_.prompts.clear();
  for (size_t i = 0; i < state_.running().size(); ++i) {
    const SequenceState& s = running(i);
    if (scratch_.row_of[i] == kPreempted || s.full() || s.scheduled == s.committed || decodes(s)) continue;
    reserve(i, s.scheduled);
    scratch_.charged[static_cast<size_t>(s.share)] += s.committed - s.cached;
    scratch_.prompts.push_back({s.committed - s.scheduled, i});
  }
  next_prompt_ = 0;
}

void StepPlanner::collect_candidates() {
  scratch_.candidates.clear();
  const bool seat = seat_free();
  for (int32_t index : state_.waiting()) {
    const SequenceState& s = state_.slot(index);
    if (s.deadline_ns && *s.deadline_ns <= out_.now_ns && s.preemptions == 0) {
      out_.expired.push_back(s.id);
      continue;
    }
    if (!seat && s.priority <= running(state_.running().size() - 1).priority) continue;
    scratch_.candidates.push_back({s.priority, s.preemptions > 0, false, s.committed, s.share, index, s.order, {}});
  }
}

bool StepPlanner::next_level() {
  const std::vector<Prompt>& prompts = scratch_.prompts;
  const bool prompt_left = next_prompt_ < prompts.size();
  if (!prompt_left && scratch_.candidates.empty()) return false;
  int32_t priority = prompt_left ? running(prompts[next_prompt_].index).priority : scratch_.candidates.front().priority;
  for (const Candidate& c : scratch_.candidates) priority = std::max(priority, c.priority);
  scratch_.level_prompts.clear();
  for (; next_prompt_ < prompts.size() && running(prompts[next_prompt_].index).priority == priority; ++next_prompt_) {
    if (scratch_.row_of[prompts[next_prompt_].index] != kPreempted) {
      scratch_.level_prompts.push_back(prompts[next_prompt_]);
    }
  }
  scratch_.level.clear();
  const auto in_level = [&](const Candidate& c) { return c.priority == priority; };
  std::ranges::copy_if(scratch_.candidates, std::back_inserter(scratch_.level), in_level);
  std::erase_if(scratch_.candidates, in_level);
  return true;
}

void StepPlanner::plan_level() {
  if (admits() && scratch_.level.size() + scratch_.level_prompts.size() > 1) {
    const size_t seen = std::min(kLookAhead, scratch_.level.size());
    std::ranges::partial_sort(scratch_.level, scratch_.level.begin() + static_cast<std::ptrdiff_t>(seen),
                              [&](const Candidate& a, const Candidate& b) { return before(a, b); });
    for (size_t i = 0; i < seen; ++i) examine(scratch_.level[i]);
  }
  int32_t oldest = plan_oldest();
  std::vector<Prompt>& prompts = scratch_.level_prompts;
  std::ranges::stable_sort(prompts, {}, &Prompt::remainder);
  for (size_t next = 0; prefill_left_ > 0;) {
    Candidate* waiting = shortest();
    const int32_t of_oldest = remainder_of(oldest);
    const int32_t of_running = next < prompts.size() ? prompts[next].remainder : kNothing;
    const int32_t of_waiting = waiting != nullptr ? waiting->remainder : kNothing;
    const int32_t least = std::min({of_oldest, of_running, of_waiting});
    if (least == kNothing) break;
    if (least == of_oldest) {
      extend_rows(oldest);
      oldest = kNoRow;
    } else if (least == of_running) {
      plan_chunk(prompts[next++].index, prefill_left_);
    } else {
      admit(*waiting, prefill_left_);
    }
  }
}

int32_t StepPlanner::remainder_of(int32_t entry) const {
  if (entry < 0) return kNothing;
  const PlannedRows& rows = out_.rows[static_cast<size_t>(entry)];
  const int32_t left = state_.sequence(rows.sequence).committed - rows.first_position - rows.rows;
  // A grid allows one chunk in a step.
  return config_.chunk_grid_rows || rows.rows == 0 || left == 0 ? kNothing : left;
}

int32_t StepPlanner::plan_oldest() {
  std::vector<Prompt>& prompts = scratch_.level_prompts;
  // A chunk of a grid is computed whole or not at all.
  const int32_t share = config_.chunk_grid_rows ? prefill_left_ : (prefill_left_ + 1) / 2;
  Candidate* first = head();
  if (first != nullptr && (prompts.empty() || first->order < running(prompts.front().index).order) &&
      admit(*first, share)) {
    return static_cast<int32_t>(out_.rows.size()) - 1;
  }
  if (prompts.empty()) return kNoRow;
  const size_t index = prompts.front().index;
  prompts.erase(prompts.begin());
  plan_chunk(index, share);
  return scratch_.row_of[index];
}

void StepPlanner::plan_chunk(size_t i, int32_t share) {
  if (scratch_.row_of[i] == kPreempted) return;
  const SequenceState& s = running(i);
  const int32_t wanted = chunk_rows(s, s.scheduled, config_.context_tokens);
  // Fewer rows need nobody's blocks; only where not even one fits must another make room.
  int32_t planned = chunk_rows(s, s.scheduled, least_available());
  if (planned == 0 && wanted > 0) {
    const int32_t least = config_.chunk_grid_rows ? wanted : 1;
    if (make_room(i, new_blocks(s.scheduled, least))) planned = chunk_rows(s, s.scheduled, least_available());
  }
  planned = std::min(planned, share);
  if (planned == 0) return;
  scratch_.row_of[i] = static_cast<int32_t>(out_.rows.size());
  add_rows(s, s.scheduled, planned, false);
  prefill_left_ -= planned;
  reserve(i, s.scheduled + planned);
}

void StepPlanner::extend_rows(int32_t entry) {
  PlannedRows& rows = out_.rows[static_cast<size_t>(entry)];
  const SequenceState& s = state_.sequence(rows.sequence);
  const int32_t end = rows.first_position + rows.rows;
  const int32_t more = chunk_rows(s, end, least_available());
  const int32_t blocks = new_blocks(end, more);
  for (int32_t& available : scratch_.available) available -= blocks;
  const auto place = std::ranges::find(scratch_.row_of, entry);
  if (place != scratch_.row_of.end()) {
    reserve(static_cast<size_t>(place - scratch_.row_of.begin()), end + more);
  } else {
    for (size_t c = 0; c < classes(); ++c) {
      scratch_.reserved[c] +=
          outstanding(s, c, end + more, blocks_before(end + more)) - outstanding(s, c, end, blocks_before(end));
    }
  }
  rows.rows += more;
  rows.new_blocks += blocks;
  rows.sample = end + more == s.committed;
  out_.total_rows += more;
  out_.sampled_rows += rows.sample ? 1 : 0;
  prefill_left_ -= more;
}

void StepPlanner::examine(Candidate& candidate) {
  if (candidate.examined) return;
  const SequenceState& s = state_.slot(candidate.slot);
  candidate.hit = usable_hit(s);
  candidate.remainder = s.committed - candidate.hit.tokens;
  candidate.examined = true;
  ++examined_;
}

bool StepPlanner::leaves_level(Candidate& candidate) {
  examine(candidate);
  if (!waits_for_another(state_.slot(candidate.slot), candidate.hit)) return false;
  candidate = scratch_.level.back();
  scratch_.level.pop_back();
  return true;
}

PlanScratch::Candidate* StepPlanner::head() {
  while (admits() && !scratch_.level.empty() && examined_ < kMostExamined) {
    auto first =
        std::ranges::min_element(scratch_.level, [&](const Candidate& a, const Candidate& b) { return before(a, b); });
    if (!leaves_level(*first)) return &*first;
  }
  return nullptr;
}

PlanScratch::Candidate* StepPlanner::shortest() {
  while (true) {
    Candidate* first = head();
    if (first == nullptr) return nullptr;
    // Nobody overtakes one that finds no place.
    if (!seat_free() || !fits(state_.slot(first->slot), first->hit)) return first;
    // One of another key overtakes until its key is a step ahead.
    const int64_t most_served = served(*first) + config_.max_rows;
    Candidate* best = first;
    for (Candidate& c : scratch_.level) {
      if (served(c) > most_served || c.preempted != best->preempted) continue;
      if (c.remainder < best->remainder || (c.remainder == best->remainder && before(c, *best))) best = &c;
    }
    if (!leaves_level(*best)) return best;
  }
}

bool StepPlanner::admit(Candidate& candidate, int32_t share) {
  if (!try_admit(state_.slot(candidate.slot), candidate.hit, share)) {
    place_found_ = false;
    return false;
  }
  candidate = scratch_.level.back();
  scratch_.level.pop_back();
  return true;
}

}  // namespace vernier
