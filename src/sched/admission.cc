#include "sched/step_planner.h"

namespace vernier {

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

bool StepPlanner::try_admit(const SequenceState& s, const PrefixHit& hit, int32_t share) {
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
  const int32_t rows = std::min(share, chunk_rows(s, hit.tokens, least_available()));
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

}  // namespace vernier
