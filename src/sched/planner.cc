#include "sched/planner.h"

#include <algorithm>

namespace vernier {
namespace {

constexpr int32_t kNoRow = -1;
constexpr int32_t kPreempted = -2;

int32_t blocks_before(int32_t position, int32_t block_tokens) {
  return (position + block_tokens - 1) / block_tokens;
}

/// Fills one plan. `available` always counts what is free or cached after everything planned so far.
class StepPlanner {
 public:
  StepPlanner(const SchedState& state, StepPlan& out)
      : state_(state), config_(state.config()), out_(out), scratch_(out.scratch) {}

  void run(int64_t now_ns) {
    reset(now_ns);
    for (size_t i = 0; i < state_.running().size(); ++i) plan_decode(i);
    prefill_left_ = config_.max_rows - out_.total_rows;
    if (out_.decode_rows > 0) prefill_left_ = std::min(prefill_left_, config_.prefill_rows_when_decoding);
    for (size_t i = 0; i < state_.running().size(); ++i) plan_chunk(i);
    admit_waiting();
    std::erase_if(out_.rows, [](const PlannedRows& rows) { return rows.rows == 0; });
  }

 private:
  size_t classes() const { return scratch_.available.size(); }
  const SequenceState& running(size_t i) const { return state_.slot(state_.running()[i]); }

  void reset(int64_t now_ns);
  void plan_decode(size_t i);
  void plan_chunk(size_t i);

  /// One row of a stream that has begun; with a chunk grid also the rows of an answer that is computed again.
  bool decodes(const SequenceState& s) const {
    return s.scheduled >= s.prompt_tokens && s.scheduled < s.committed &&
           (s.scheduled + 1 == s.committed || config_.chunk_grid_rows);
  }
  /// Rows of the next chunk from `first`: what is left, the budget, and what the free blocks hold. 0: none now.
  int32_t chunk_rows(const SequenceState& s, int32_t first, int32_t available) const;
  int32_t least_available() const { return *std::ranges::min_element(scratch_.available); }
  int32_t new_blocks(int32_t first, int32_t rows) const {
    return blocks_before(first + rows, config_.block_tokens) - blocks_before(first, config_.block_tokens);
  }
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
  void reserve(size_t i, int32_t first);

  void admit_waiting();
  bool collect_candidates();
  PrefixHit usable_hit(const SequenceState& s) const;
  bool waits_for_another(const SequenceState& s, const PrefixHit& hit) const;
  bool computes_block(const SequenceState& owner, const SequenceState& s, int32_t block) const;
  bool fits(const SequenceState& s, const PrefixHit& hit);
  int32_t unheld(const PrefixHit& hit, size_t c);
  /// Whether it might fit without those from `end` on, so that none is preempted for nothing.
  bool could_fit(const SequenceState& s, const PrefixHit& hit, size_t end);
  /// Admits if it fits, if need be in place of sequences of lower priority.
  bool try_admit(const SequenceState& s, const PrefixHit& hit);
  bool seat_free() const {
    return static_cast<int32_t>(state_.running().size() + out_.admissions.size() - out_.preemptions.size()) <
           config_.max_sequences;
  }

  const SchedState& state_;
  const SchedConfig& config_;
  StepPlan& out_;
  PlanScratch& scratch_;
  int32_t prefill_left_ = 0;
  bool starved_ = false;  // a running sequence wants blocks and got none, or took them from another
};

void StepPlanner::reset(int64_t now_ns) {
  out_.now_ns = now_ns;
  out_.revision = state_.revision();
  out_.preemptions.clear();
  out_.admissions.clear();
  out_.rows.clear();
  out_.expired.clear();
  out_.total_rows = out_.decode_rows = out_.sampled_rows = 0;
  scratch_.available.clear();
  for (size_t c = 0; c < config_.classes.size(); ++c) {
    scratch_.available.push_back(state_.pool(static_cast<int32_t>(c)).available_blocks());
  }
  scratch_.reserved.assign(config_.classes.size(), 0);
  scratch_.reserved_from.assign(state_.running().size(), -1);
  scratch_.row_of.assign(state_.running().size(), kNoRow);
  scratch_.charged.assign(static_cast<size_t>(state_.shares()), 0);
  scratch_.holders_known = false;
}

void StepPlanner::add_rows(const SequenceState& s, int32_t first, int32_t rows, bool decode) {
  const int32_t blocks = new_blocks(first, rows);
  if (blocks > 0) {
    for (int32_t& available : scratch_.available) available -= blocks;
  }
  const bool sample = first + rows == s.committed;
  out_.rows.push_back({s.id, first, rows, blocks, sample, decode});
  out_.total_rows += rows;
  out_.decode_rows += decode ? 1 : 0;
  out_.sampled_rows += sample ? 1 : 0;
}

void StepPlanner::plan_decode(size_t i) {
  if (scratch_.row_of[i] == kPreempted) return;
  const SequenceState& s = running(i);
  if (s.full() || !decodes(s)) return;
  if (!make_room(i, new_blocks(s.scheduled, 1))) return;
  scratch_.row_of[i] = static_cast<int32_t>(out_.rows.size());
  add_rows(s, s.scheduled, 1, true);
}

int32_t StepPlanner::chunk_rows(const SequenceState& s, int32_t first, int32_t available) const {
  const int64_t room = int64_t{blocks_before(first, config_.block_tokens)} * config_.block_tokens - first +
                       int64_t{std::max(available, 0)} * config_.block_tokens;
  if (!config_.chunk_grid_rows) {
    return static_cast<int32_t>(std::min<int64_t>({s.committed - first, prefill_left_, room}));
  }
  const int32_t grid = *config_.chunk_grid_rows;
  const int32_t rows = std::min((first / grid + 1) * grid, std::max(s.prompt_tokens, first + 1)) - first;
  return rows <= prefill_left_ && rows <= room ? rows : 0;
}

void StepPlanner::plan_chunk(size_t i) {
  const SequenceState& s = running(i);
  if (scratch_.row_of[i] == kPreempted || s.full()) return;
  if (s.scheduled == s.committed || decodes(s)) return;
  int32_t planned = 0;
  if (prefill_left_ > 0) {
    const int32_t wanted = chunk_rows(s, s.scheduled, config_.context_tokens);
    // Fewer rows need nobody's blocks; only where not even one fits must another make room.
    planned = chunk_rows(s, s.scheduled, least_available());
    if (planned == 0 && wanted > 0) {
      const int32_t least = config_.chunk_grid_rows ? wanted : 1;
      if (make_room(i, new_blocks(s.scheduled, least))) planned = chunk_rows(s, s.scheduled, least_available());
    }
  }
  if (planned > 0) {
    scratch_.row_of[i] = static_cast<int32_t>(out_.rows.size());
    add_rows(s, s.scheduled, planned, false);
    prefill_left_ -= planned;
  }
  reserve(i, s.scheduled + planned);
  scratch_.charged[static_cast<size_t>(s.share)] += s.committed - s.cached;
}

bool StepPlanner::make_room(size_t asking, int32_t blocks) {
  while (least_available() < blocks) {
    starved_ = true;
    if (!preempt_one(asking + 1)) return false;
  }
  return true;
}

bool StepPlanner::preempt_one(size_t end) {
  for (size_t j = scratch_.row_of.size(); j-- > end;) {
    if (scratch_.row_of[j] == kPreempted || running(j).steps_in_flight > 0) continue;
    preempt(j);
    return true;
  }
  return false;
}

void StepPlanner::preempt(size_t i) {
  const SequenceState& s = running(i);
  know_holders();
  if (scratch_.row_of[i] >= 0) {
    PlannedRows& rows = out_.rows[static_cast<size_t>(scratch_.row_of[i])];
    for (int32_t& available : scratch_.available) available += rows.new_blocks;
    out_.total_rows -= rows.rows;
    out_.decode_rows -= rows.decode ? 1 : 0;
    out_.sampled_rows -= rows.sample ? 1 : 0;
    rows.rows = 0;
  }
  for (size_t c = 0; c < classes(); ++c) {
    for (int32_t block : s.tables[c].blocks()) {
      if (--scratch_.holders[c][static_cast<size_t>(block)] == 0) ++scratch_.available[c];
    }
    if (scratch_.reserved_from[i] >= 0) {
      const auto held = static_cast<int32_t>(s.tables[c].blocks().size());
      scratch_.reserved[c] -= outstanding(s, c, scratch_.reserved_from[i], held);
    }
  }
  scratch_.row_of[i] = kPreempted;
  out_.preemptions.push_back(s.id);
}

void StepPlanner::know_holders() {
  if (scratch_.holders_known) return;
  scratch_.holders_known = true;
  scratch_.holders.resize(classes());
  for (size_t c = 0; c < classes(); ++c) {
    const BlockPool& pool = state_.pool(static_cast<int32_t>(c));
    scratch_.holders[c].resize(static_cast<size_t>(pool.blocks()));
    for (int32_t block = 0; block < pool.blocks(); ++block) {
      scratch_.holders[c][static_cast<size_t>(block)] = pool.holders(block);
    }
  }
}

int32_t StepPlanner::outstanding(const SequenceState& s, size_t c, int32_t first, int32_t held) const {
  const int32_t all = new_blocks(first, s.committed - first);
  const std::optional<int32_t> window = config_.classes[c].window;
  if (!window) return all;
  // Chunks shrink to the free blocks, so a window asks for what the shortest one needs.
  const int32_t most =
      BlockTable::most_blocks(config_.block_tokens, std::min(*window, s.committed) + config_.block_tokens - 1,
                              s.committed, config_.chunk_grid_rows.value_or(1));
  return std::clamp(most - held, 0, all);
}

void StepPlanner::reserve(size_t i, int32_t first) {
  const SequenceState& s = running(i);
  for (size_t c = 0; c < classes(); ++c) {
    scratch_.reserved[c] += outstanding(s, c, first, static_cast<int32_t>(s.tables[c].blocks().size()));
  }
  scratch_.reserved_from[i] = first;
}

PrefixHit StepPlanner::usable_hit(const SequenceState& s) const {
  if (!config_.prefix_cache) return {};
  // The last position is always computed: its logits are wanted.
  const int32_t most = (config_.chunk_grid_rows ? s.prompt_tokens : s.committed) - 1;
  return state_.tree().match({s.root, s.units, s.hashes}, most, config_.chunk_grid_rows.value_or(config_.block_tokens));
}

bool StepPlanner::computes_block(const SequenceState& owner, const SequenceState& s, int32_t block) const {
  const auto index = static_cast<size_t>(block);
  const int32_t end = (block + 1) * config_.block_tokens;
  // Equal hashes of unequal prompts would only cost a wait.
  return owner.priority >= s.priority && owner.hashes.size() > index && owner.hashes[index] == s.hashes[index] &&
         owner.cached < end && state_.kept_end(owner, owner.committed) >= end;
}

bool StepPlanner::waits_for_another(const SequenceState& s, const PrefixHit& hit) const {
  if (!config_.prefix_cache) return false;
  const int32_t step = config_.chunk_grid_rows.value_or(config_.block_tokens);
  const int32_t most = (config_.chunk_grid_rows ? s.prompt_tokens : s.committed) - 1;
  if (hit.tokens + step > most) return false;
  const int32_t block = (hit.tokens + step) / config_.block_tokens - 1;
  for (size_t i = 0; i < state_.running().size(); ++i) {
    const SequenceState& owner = running(i);
    if (owner.cached < owner.committed - 1 && scratch_.row_of[i] != kPreempted && computes_block(owner, s, block)) {
      return true;
    }
  }
  return std::ranges::any_of(out_.admissions, [&](const Admission& admission) {
    return computes_block(state_.sequence(admission.sequence), s, block);
  });
}

int32_t StepPlanner::unheld(const PrefixHit& hit, size_t c) {
  state_.tree().blocks_of(hit, static_cast<int32_t>(c), scratch_.blocks);
  return static_cast<int32_t>(std::ranges::count_if(scratch_.blocks, [&](int32_t b) { return holders(c, b) == 0; }));
}

bool StepPlanner::fits(const SequenceState& s, const PrefixHit& hit) {
  const auto others = state_.running().size() + out_.admissions.size() - out_.preemptions.size();
  int32_t least = config_.context_tokens;
  for (size_t c = 0; c < classes(); ++c) {
    const int32_t left = scratch_.available[c] - unheld(hit, c);
    least = std::min(least, left);
    // A lone sequence runs in whatever there is; beside others, some blocks stay for what they will generate.
    if (others == 0) continue;
    const int32_t spare = std::min(static_cast<int32_t>(others), state_.pool(static_cast<int32_t>(c)).blocks() / 16);
    const int32_t held = config_.classes[c].window ? static_cast<int32_t>(scratch_.blocks.size()) : 0;
    if (left < outstanding(s, c, hit.tokens, held) + scratch_.reserved[c] + spare) return false;
  }
  return chunk_rows(s, hit.tokens, least) > 0;
}

bool StepPlanner::could_fit(const SequenceState& s, const PrefixHit& hit, size_t end) {
  if (chunk_rows(s, hit.tokens, config_.context_tokens) == 0) return false;  // it lacks budget, not blocks
  for (size_t c = 0; c < classes(); ++c) {
    int32_t most = scratch_.available[c] - unheld(hit, c);
    for (size_t j = end; j < scratch_.row_of.size(); ++j) {
      if (scratch_.row_of[j] == kPreempted || running(j).steps_in_flight > 0) continue;
      most += static_cast<int32_t>(running(j).tables[c].blocks().size());
      if (scratch_.row_of[j] >= 0) most += out_.rows[static_cast<size_t>(scratch_.row_of[j])].new_blocks;
    }
    const int32_t held = config_.classes[c].window ? static_cast<int32_t>(scratch_.blocks.size()) : 0;
    if (most < outstanding(s, c, hit.tokens, held)) return false;
  }
  return true;
}

bool StepPlanner::try_admit(const SequenceState& s, const PrefixHit& hit) {
  const std::span<const int32_t> order = state_.running();
  const auto higher = [&](int32_t index) { return state_.slot(index).priority >= s.priority; };
  const auto keep = static_cast<size_t>(std::ranges::partition_point(order, higher) - order.begin());
  if (!seat_free() || !fits(s, hit)) {
    if (!could_fit(s, hit, keep)) return false;
    while (!seat_free() || !fits(s, hit)) {
      if (!preempt_one(keep)) return false;
    }
  }
  if (hit.tokens > 0) know_holders();
  for (size_t c = 0; c < classes(); ++c) {
    state_.tree().blocks_of(hit, static_cast<int32_t>(c), scratch_.blocks);
    for (int32_t block : scratch_.blocks) {
      if (scratch_.holders[c][static_cast<size_t>(block)]++ == 0) --scratch_.available[c];
    }
  }
  const int32_t rows = chunk_rows(s, hit.tokens, least_available());
  out_.admissions.push_back({s.id, hit});
  add_rows(s, hit.tokens, rows, false);
  prefill_left_ -= rows;
  for (size_t c = 0; c < classes(); ++c) {
    const int32_t first = hit.tokens + rows;
    scratch_.reserved[c] += outstanding(s, c, first, new_blocks(0, first));
  }
  scratch_.charged[static_cast<size_t>(s.share)] += s.committed - hit.tokens;
  return true;
}

/// Lists who may be admitted; false if nobody can be.
bool StepPlanner::collect_candidates() {
  scratch_.candidates.clear();
  const bool seat = seat_free();
  for (int32_t index : state_.waiting()) {
    const SequenceState& s = state_.slot(index);
    if (s.deadline_ns && *s.deadline_ns <= out_.now_ns && s.preemptions == 0) {
      out_.expired.push_back(s.id);
      continue;
    }
    if (!seat && s.priority <= running(state_.running().size() - 1).priority) continue;
    const int64_t served = state_.served(s.share) + scratch_.charged[static_cast<size_t>(s.share)];
    scratch_.candidates.push_back({s.priority, s.preemptions > 0, served, s.order, index});
  }
  return prefill_left_ > 0 && !starved_ && !scratch_.candidates.empty();
}

void StepPlanner::admit_waiting() {
  if (!collect_candidates()) return;
  const auto later = [](const PlanScratch::Candidate& a, const PlanScratch::Candidate& b) {
    if (a.priority != b.priority) return a.priority < b.priority;
    if (a.preempted != b.preempted) return b.preempted;
    if (a.served != b.served) return a.served > b.served;
    return a.order > b.order;
  };
  std::vector<PlanScratch::Candidate>& heap = scratch_.candidates;
  std::ranges::make_heap(heap, later);
  while (!heap.empty() && prefill_left_ > 0) {
    std::ranges::pop_heap(heap, later);
    PlanScratch::Candidate next = heap.back();
    const SequenceState& s = state_.slot(next.slot);
    const int64_t served = state_.served(s.share) + scratch_.charged[static_cast<size_t>(s.share)];
    if (served != next.served) {  // its share was charged since: it goes back to where it belongs now
      heap.back().served = served;
      std::ranges::push_heap(heap, later);
      continue;
    }
    heap.pop_back();
    const PrefixHit hit = usable_hit(s);
    if (waits_for_another(s, hit)) continue;
    if (!try_admit(s, hit)) return;
  }
}

}  // namespace

void plan(const SchedState& state, int64_t now_ns, StepPlan& out) {
  StepPlanner(state, out).run(now_ns);
}

StepPlan plan(const SchedState& state, int64_t now_ns) {
  StepPlan out;
  plan(state, now_ns, out);
  return out;
}

std::string StepPlan::to_string() const {
  std::string text = fmt::format("step of {} rows, {} decode, {} sampled\n", total_rows, decode_rows, sampled_rows);
  for (SequenceId id : preemptions) text += fmt::format("preempt {}\n", static_cast<uint64_t>(id));
  for (const Admission& a : admissions) {
    text += fmt::format("admit {} behind {} cached tokens\n", static_cast<uint64_t>(a.sequence), a.hit.tokens);
  }
  for (const PlannedRows& r : rows) {
    text += fmt::format("{} rows {}+{}, {} new blocks{}{}\n", static_cast<uint64_t>(r.sequence), r.first_position,
                        r.rows, r.new_blocks, r.decode ? ", decode" : "", r.sample ? ", sampled" : "");
  }
  for (SequenceId id : expired) text += fmt::format("expired {}\n", static_cast<uint64_t>(id));
  return text;
}

}  // namespace vernier
