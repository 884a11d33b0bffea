#include "sched/step_planner.h"

namespace vernier {

void StepPlanner::run(int64_t now_ns) {
  reset(now_ns);
  for (size_t i = 0; i < state_.running().size(); ++i) plan_decode(i);
  prefill_left_ = std::min(config_.max_rows - out_.total_rows,
                           out_.decode_rows > 0 ? config_.prefill_rows_when_decoding : config_.prefill_rows_alone);
  collect_prompts();
  collect_candidates();
  while (prefill_left_ > 0 && next_level()) plan_level();
  std::erase_if(out_.rows, [](const PlannedRows& rows) { return rows.rows == 0; });
}

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
  const int64_t room = int64_t{blocks_before(first)} * config_.block_tokens - first +
                       int64_t{std::max(available, 0)} * config_.block_tokens;
  if (!config_.chunk_grid_rows) {
    return static_cast<int32_t>(std::min<int64_t>({s.committed - first, prefill_left_, room}));
  }
  const int32_t grid = *config_.chunk_grid_rows;
  const int32_t rows = std::min((first / grid + 1) * grid, std::max(s.prompt_tokens, first + 1)) - first;
  return rows <= prefill_left_ && rows <= room ? rows : 0;
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
    if (!rows.decode) prefill_left_ += rows.rows;
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
  const int32_t before = scratch_.reserved_from[i];
  for (size_t c = 0; c < classes(); ++c) {
    const auto held = static_cast<int32_t>(s.tables[c].blocks().size());
    if (before >= 0) scratch_.reserved[c] -= outstanding(s, c, before, held);
    scratch_.reserved[c] += outstanding(s, c, first, held);
  }
  scratch_.reserved_from[i] = first;
}

}  // namespace vernier
