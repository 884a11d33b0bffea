#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "kv/block_pool.h"
#include "kv/block_table.h"
#include "kv/prefix_tree.h"
#include "sched/sched_config.h"
#include "sched/step_plan.h"

namespace vernier {

/// A request as the planner sees it. The n choices of one request are n of these.
struct NewSequence {
  std::vector<PrefixUnit> prompt;         ///< at least one
  std::optional<int32_t> max_new_tokens;  ///< empty: as many as the context holds
  int32_t priority = 0;                   ///< higher runs first
  uint64_t fair_key = 0;                  ///< whose share it is counted against
  int64_t arrival_ns = 0;
  std::optional<int64_t> deadline_ns;  ///< of admission: one that still waits then is reported as expired
  PrefixRoot root;
};

enum class SequencePhase {
  kWaiting,   ///< in the queue, holds nothing; new, or preempted
  kRunning,   ///< holds blocks
  kRetiring,  ///< finished or cancelled while a launched step refers to it; holds its blocks until that ends
};

/// The integers of one sequence. cached <= scheduled <= committed.
struct SequenceState {
  SequenceId id{};
  SequencePhase phase = SequencePhase::kWaiting;
  int32_t prompt_tokens = 0;
  int32_t most_tokens = 0;  ///< prompt and answer together end here
  int32_t cached = 0;       ///< positions whose keys and values committed steps wrote, or a prefix hit brought
  int32_t scheduled = 0;    ///< positions that launched steps cover
  int32_t committed = 0;    ///< units known: the prompt and what was sampled
  int32_t hit_tokens = 0;   ///< of its first admission: prompt tokens that were not computed
  int32_t steps_in_flight = 0;
  int32_t preemptions = 0;
  int32_t priority = 0;
  int64_t arrival_ns = 0;
  std::optional<int64_t> deadline_ns;
  PrefixRoot root;
  std::vector<PrefixUnit> units;   ///< [committed]
  std::vector<uint64_t> hashes;    ///< of the whole blocks of units
  std::vector<BlockTable> tables;  ///< one for each cache class
  PrefixNode node;                 ///< of the last whole block below `cached`, if it is in the tree
  uint64_t order = 0;              ///< of arrival
  int32_t share = -1;              ///< index of its fair share

  bool full() const { return committed >= most_tokens; }
};

/// The queue, the sequences, the pools and the prefix tree. Changed by add, cancel, finish and by launch, commit and
/// undo of a plan, by nothing else; owned by the engine thread. A plan is launched on the state it was made for: only
/// `add` may come between. Launched steps are committed in order; undo takes them back, the newest first.
class SchedState {
 public:
  /// Refuses limits that no sequence could live in, with the numbers.
  static Result<std::unique_ptr<SchedState>> make(const SchedConfig& config);

  /// Refuses with kUnavailable when the queue is full (retry_after_ns says when to come back) and with
  /// kInvalidArgument what could not run even alone.
  Result<SequenceId> add(NewSequence sequence);
  /// Ends a sequence wherever it is. Its id is gone at once or, if a step is in flight, when that is committed or
  /// undone.
  void cancel(SequenceId id) { retire(id); }
  /// The same, for one that ended as it should.
  void finish(SequenceId id) { retire(id); }
  /// New weights, say: no later sequence reuses what is cached now. What runs goes on.
  void forget_prefixes();
  void set_prefill_rows(int32_t when_decoding, int32_t alone);

  const SchedConfig& config() const { return config_; }
  uint64_t revision() const { return revision_; }
  /// Cached tokens that a sequence may grow to: the context, or what the smallest pool holds. An answer's last token is
  /// drawn and needs no place.
  int32_t most_tokens() const { return most_tokens_; }
  bool contains(SequenceId id) const;
  const SequenceState& sequence(SequenceId id) const;
  std::span<const int32_t> running() const { return running_; }  ///< slots, by precedence: priority, then arrival
  std::span<const int32_t> waiting() const { return waiting_; }  ///< slots, unordered
  const SequenceState& slot(int32_t index) const { return slots_[static_cast<size_t>(index)]; }
  int32_t sequences() const { return static_cast<int32_t>(slots_.size() - unused_.size()); }
  int32_t steps_in_flight() const { return steps_in_flight_; }
  /// Nothing waits, runs or retires.
  bool idle() const { return sequences() == 0; }
  const BlockPool& pool(int32_t cache_class) const { return pools_[static_cast<size_t>(cache_class)]; }
  const PrefixTree& tree() const { return tree_; }
  /// The time in which half the queue is admitted at the recent pace, from one second to a minute.
  int64_t retry_after_ns() const;
  /// Rows computed for a fair share. One that was idle begins where the least served of the others is.
  int64_t served(int32_t share) const { return shares_[static_cast<size_t>(share)].served; }
  int32_t shares() const { return static_cast<int32_t>(shares_.size()); }
  /// Where the blocks end that a sequence names in the tree: with a chunk grid, those of its prompt's whole cells.
  int32_t kept_end(const SequenceState& sequence, int32_t end) const;

  /// Everything adds up: each block's holders, each counter, each list, the tree.
  Status check() const;

 private:
  friend void launch(SchedState& state, const StepPlan& plan);
  friend void commit(SchedState& state, const StepPlan& plan, std::span<const int32_t> sampled);
  friend void undo(SchedState& state, const StepPlan& plan);

  struct FairShare {
    uint64_t key = 0;
    int64_t served = 0;
    int32_t sequences = 0;
  };

  explicit SchedState(const SchedConfig& config);

  SequenceState& mutable_sequence(SequenceId id);
  int32_t take_slot();
  int32_t join_share(uint64_t key);
  void forget_idle_shares();
  int64_t least_served() const;
  void retire(SequenceId id);
  void release(SequenceState& sequence);  // its blocks, tail first where the tree wants it
  void erase(SequenceState& sequence);
  void enqueue(SequenceState& sequence);  // back to waiting, holding nothing
  void start_running(SequenceState& sequence);
  void leave(std::vector<int32_t>& list, const SequenceState& sequence);
  void admit(const Admission& admission, int64_t now_ns);
  void take_blocks(const PlannedRows& rows);
  void commit_rows(const PlannedRows& rows, const int32_t* sampled);
  /// A step that refers to the sequence ended; true if that was all that kept it.
  bool leave_step(SequenceState& sequence);

  Status check_sequences() const;
  Status check_holders() const;

  SchedConfig config_;
  int32_t most_tokens_ = 0;
  std::vector<BlockPool> pools_;
  PrefixTree tree_;
  std::vector<SequenceState> slots_;
  std::vector<int32_t> unused_;
  std::vector<int32_t> running_;
  std::vector<int32_t> waiting_;
  std::vector<FairShare> shares_;
  std::vector<int32_t> unused_shares_;
  std::unordered_map<uint64_t, int32_t> share_of_key_;
  uint64_t next_order_ = 1;
  bool windowed_ = false;
  uint64_t revision_ = 0;
  int32_t steps_in_flight_ = 0;
  int64_t last_admission_ns_ = -1;
  int64_t admission_interval_ns_ = 0;
};

/// Takes the blocks, moves `scheduled`, admits and preempts as planned.
void launch(SchedState& state, const StepPlan& plan);
/// The device succeeded: moves `cached`, appends a sampled token for each row that samples, in the order of plan.rows,
/// slides windows and names whole blocks in the tree. What was retired meanwhile takes no token.
void commit(SchedState& state, const StepPlan& plan, std::span<const int32_t> sampled);
/// The device failed: gives back the plan's blocks and its part of `scheduled`; what it admitted waits again.
void undo(SchedState& state, const StepPlan& plan);

}  // namespace vernier
