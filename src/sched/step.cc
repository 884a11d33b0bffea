#include <algorithm>

#include "sched/sched_state.h"

namespace vernier {

void SchedState::admit(const Admission& admission, int64_t now_ns) {
  SequenceState& s = mutable_sequence(admission.sequence);
  start_running(s);
  tree_.share(admission.hit, pools_, s.tables);
  s.node = admission.hit.node;
  s.scheduled = admission.hit.tokens;
  if (s.preemptions == 0) s.hit_tokens = admission.hit.tokens;
  if (last_admission_ns_ >= 0) {
    const int64_t interval = std::max<int64_t>(0, now_ns - last_admission_ns_);
    admission_interval_ns_ += (interval - admission_interval_ns_) / 8;
  }
  last_admission_ns_ = now_ns;
}

void SchedState::take_blocks(const PlannedRows& rows) {
  SequenceState& s = mutable_sequence(rows.sequence);
  CHECK(s.scheduled == rows.first_position && rows.rows > 0, "{} positions are scheduled, {} rows are planned from {}",
        s.scheduled, rows.rows, rows.first_position);
  const int32_t end = rows.first_position + rows.rows;
  for (size_t c = 0; c < pools_.size(); ++c) {
    if (pools_[c].free_blocks() < rows.new_blocks) tree_.make_free(static_cast<int32_t>(c), rows.new_blocks, pools_);
    Status taken = s.tables[c].extend(pools_[c], end);
    CHECK(taken.ok(), "a plan takes more than there is: {}", taken.error().message);
  }
  s.scheduled = end;
  ++s.steps_in_flight;
}

void launch(SchedState& state, const StepPlan& plan) {
  CHECK(plan.revision == state.revision_, "the plan is for revision {}, the state is at {}", plan.revision,
        state.revision_);
  ++state.revision_;
  for (SequenceId id : plan.preemptions) {
    SequenceState& s = state.mutable_sequence(id);
    CHECK(s.steps_in_flight == 0, "a sequence in flight is preempted");
    state.enqueue(s);
    ++s.preemptions;
  }
  // All hits are held before the first block is taken: what a planned row reads is never evicted for another.
  for (const Admission& admission : plan.admissions) state.admit(admission, plan.now_ns);
  for (const PlannedRows& rows : plan.rows) state.take_blocks(rows);
  ++state.steps_in_flight_;
}

bool SchedState::leave_step(SequenceState& sequence) {
  CHECK(sequence.steps_in_flight > 0, "a sequence leaves a step that it was not in");
  --sequence.steps_in_flight;
  if (sequence.phase != SequencePhase::kRetiring) return false;
  if (sequence.steps_in_flight == 0) {
    release(sequence);
    erase(sequence);
  }
  return true;
}

void SchedState::commit_rows(const PlannedRows& rows, const int32_t* sampled) {
  SequenceState& s = mutable_sequence(rows.sequence);
  shares_[static_cast<size_t>(s.share)].served += rows.rows;
  if (leave_step(s)) return;
  const int32_t before = s.cached;
  CHECK(before == rows.first_position || before == 0, "rows from {} are committed after {}", rows.first_position,
        before);
  s.cached = rows.first_position + rows.rows;
  if (sampled != nullptr) {
    s.units.push_back(PrefixUnit::token(*sampled));
    ++s.committed;
    if (s.committed % config_.block_tokens == 0) extend_hashes(s.root, s.units, config_.block_tokens, s.hashes);
  }
  const int32_t kept = kept_end(s, s.cached);
  if (kept / config_.block_tokens > before / config_.block_tokens) {
    s.node = tree_.insert({s.root, s.units, s.hashes}, kept, pools_, s.tables, s.node);
  }
  if (!windowed_) return;
  const int32_t next = config_.prefix_cache ? s.cached - s.cached % config_.block_tokens : s.cached;
  for (size_t c = 0; c < pools_.size(); ++c) s.tables[c].slide(pools_[c], next);
}

void commit(SchedState& state, const StepPlan& plan, std::span<const int32_t> sampled) {
  CHECK(static_cast<int32_t>(sampled.size()) == plan.sampled_rows, "{} tokens for {} sampled rows", sampled.size(),
        plan.sampled_rows);
  ++state.revision_;
  --state.steps_in_flight_;
  const int32_t* next = sampled.data();
  for (const PlannedRows& rows : plan.rows) state.commit_rows(rows, rows.sample ? next++ : nullptr);
}

void undo(SchedState& state, const StepPlan& plan) {
  ++state.revision_;
  --state.steps_in_flight_;
  for (auto rows = plan.rows.rbegin(); rows != plan.rows.rend(); ++rows) {
    SequenceState& s = state.mutable_sequence(rows->sequence);
    if (state.leave_step(s)) continue;
    CHECK(s.scheduled == rows->first_position + rows->rows, "a newer step is still in flight");
    s.scheduled = rows->first_position;
    for (size_t c = 0; c < state.pools_.size(); ++c) s.tables[c].shrink(state.pools_[c], s.scheduled);
  }
  for (const Admission& admission : plan.admissions) {
    if (!state.contains(admission.sequence)) continue;
    SequenceState& s = state.mutable_sequence(admission.sequence);
    if (s.phase == SequencePhase::kRunning) state.enqueue(s);
  }
}

}  // namespace vernier
