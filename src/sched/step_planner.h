#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "sched/sched_state.h"
#include "sched/step_plan.h"

namespace vernier {

/// Fills one plan, then is thrown away. `available` always counts what is free or cached after everything planned so
/// far. Decode rows come first (step_planner.cc), then the prompts share what is left (prompt_rows.cc).
class StepPlanner {
 public:
  StepPlanner(const SchedState& state, StepPlan& out)
      : state_(state), config_(state.config()), out_(out), scratch_(out.scratch) {}

  void run(int64_t now_ns);

 private:
  using Candidate = PlanScratch::Candidate;
  using Prompt = PlanScratch::Prompt;
  static constexpr int32_t kNoRow = -1;
  static constexpr int32_t kPreempted = -2;
  static constexpr int32_t kNothing = std::numeric_limits<int32_t>::max();

  size_t classes() const { return scratch_.available.size(); }
  const SequenceState& running(size_t i) const { return state_.slot(state_.running()[i]); }

  void reset(int64_t now_ns);
  void plan_decode(size_t i);

  /// One row of a stream that has begun; with a chunk grid also the rows of an answer that is computed again.
  bool decodes(const SequenceState& s) const {
    return s.scheduled >= s.prompt_tokens && s.scheduled < s.committed &&
           (s.scheduled + 1 == s.committed || config_.chunk_grid_rows);
  }
  int32_t blocks_before(int32_t position) const { return (position + config_.block_tokens - 1) / config_.block_tokens; }
  int32_t new_blocks(int32_t first, int32_t rows) const { return blocks_before(first + rows) - blocks_before(first); }
  int32_t least_available() const { return *std::ranges::min_element(scratch_.available); }
  /// Rows of the next chunk from `first`: what is left, the budget, and what the free blocks hold. 0: none now.
  int32_t chunk_rows(const SequenceState& s, int32_t first, int32_t available) const;
  void add_rows(const SequenceState& s, int32_t first, int32_t rows, bool decode);

  bool make_room(size_t asking, int32_t blocks);
  /// Preempts the last in precedence that is no less than `end` and not in flight; false if there is none.
  bool preempt_one(size_t end);
  void preempt(size_t i);
  void know_holders();
  int32_t holders(size_t c, int32_t block) const {
    return scratch_.holders_known ? scratch_.holders[c][static_cast<size_t>(block)]
                                  : state_.pool(static_cast<int32_t>(c)).holders(block);
  }

  /// Blocks of a class that a sequence will still take until all its known units are computed.
  int32_t outstanding(const SequenceState& s, size_t c, int32_t first, int32_t held) const;
  /// Counts what the running prompt will take from `first` on, in place of what was counted for it before.
  void reserve(size_t i, int32_t first);

  void collect_prompts();
  void collect_candidates();
  /// The prompts of the next lower priority, into scratch.level_prompts and scratch.level; false if there are none.
  bool next_level();
  void plan_level();
  /// Rows for a running prompt, at most `share` of them.
  void plan_chunk(size_t i, int32_t share);
  /// What an entry's prompt still lacks after its rows; kNothing if it may get no more in this step.
  int32_t remainder_of(int32_t entry) const;
  /// What is left, for an entry whose prompt goes on.
  void extend_rows(int32_t entry);
  /// The oldest prompt of the level gets its half first. Its entry in the plan; negative if it got no rows.
  int32_t plan_oldest();

  int64_t served(const Candidate& c) const {
    return state_.served(c.share) + scratch_.charged[static_cast<size_t>(c.share)];
  }
  /// The order in which waiting sequences have a right to be admitted.
  bool before(const Candidate& a, const Candidate& b) const {
    if (a.preempted != b.preempted) return a.preempted;
    if (served(a) != served(b)) return served(a) < served(b);
    return a.order < b.order;
  }
  bool admits() const { return place_found_ && !starved_; }
  void examine(Candidate& candidate);
  /// Who of the level's candidates has the first right to be admitted, and who has the least to compute. Null: nobody.
  Candidate* head();
  Candidate* shortest();
  /// Takes out a candidate that waits for the blocks of another.
  bool leaves_level(Candidate& candidate);
  bool admit(Candidate& candidate, int32_t share);

  PrefixHit usable_hit(const SequenceState& s) const;
  bool waits_for_another(const SequenceState& s, const PrefixHit& hit) const;
  bool computes_block(const SequenceState& owner, const SequenceState& s, int32_t block) const;
  bool fits(const SequenceState& s, const PrefixHit& hit);
  int32_t unheld(const PrefixHit& hit, size_t c);
  /// Whether it might fit without those from `end` on, so that none is preempted for nothing.
  bool could_fit(const SequenceState& s, const PrefixHit& hit, size_t end);
  /// Admits if it fits, if need be in place of sequences of lower priority.
  bool try_admit(const SequenceState& s, const PrefixHit& hit, int32_t share);
  bool seat_free() const {
    return static_cast<int32_t>(state_.running().size() + out_.admissions.size() - out_.preemptions.size()) <
           config_.max_sequences;
  }

  const SchedState& state_;
  const SchedConfig& config_;
  StepPlan& out_;
  PlanScratch& scratch_;
  int32_t prefill_left_ = 0;
  bool starved_ = false;     // a running sequence wants blocks and got none, or took them from another
  bool place_found_ = true;  // who came next found a place, so another may
  int32_t examined_ = 0;
  size_t next_prompt_ = 0;
};

}  // namespace vernier
