#include "sched/sched_state.h"

#include <algorithm>

namespace vernier {
namespace {

// An id is the order of arrival above, the slot below: 2^20 slots, 2^44 arrivals.
constexpr int kSlotBits = 20;

int32_t slot_of(SequenceId id) {
  return static_cast<int32_t>(static_cast<uint64_t>(id) & ((uint64_t{1} << kSlotBits) - 1));
}

std::vector<std::optional<int32_t>> windows_of(const SchedConfig& config) {
  std::vector<std::optional<int32_t>> windows;
  for (const SchedClass& c : config.classes) windows.push_back(c.window);
  return windows;
}

Status check_limits(const SchedConfig& config) {
  if (config.classes.empty() || config.classes.size() > 16) {
    return invalid_argument("{} cache classes, expected 1 to 16", config.classes.size());
  }
  if (config.block_tokens < 1 || config.max_queue < 1 || config.max_sequences < 1 || config.context_tokens < 2 ||
      config.prefill_rows_when_decoding < 1 || config.prefill_rows_alone < 1) {
    return invalid_argument(
        "blocks of {} tokens, queue of {}, {} sequences, context of {}, {} prompt rows beside decode rows; all must be "
        "positive and a context at least 2",
        config.block_tokens, config.max_queue, config.max_sequences, config.context_tokens,
        config.prefill_rows_when_decoding);
  }
  if (config.max_rows < config.max_sequences) {
    return invalid_argument("{} rows in a step cannot serve {} sequences; lower --max-sequences or raise --max-rows",
                            config.max_rows, config.max_sequences);
  }
  const int32_t grid = config.chunk_grid_rows.value_or(config.block_tokens);
  if (grid < 1 || grid % config.block_tokens != 0) {
    return invalid_argument("a chunk grid of {} rows, expected a multiple of the block's {} tokens", grid,
                            config.block_tokens);
  }
  const int32_t least = std::min(config.prefill_rows_when_decoding, config.prefill_rows_alone);
  if (config.chunk_grid_rows && (grid > least || grid + config.max_sequences - 1 > config.max_rows)) {
    return invalid_argument(
        "a chunk grid of {} rows does not fit a step of {} rows with {} sequences and {} prompt rows", grid,
        config.max_rows, config.max_sequences, least);
  }
  return {};
}

/// Tokens that a lone sequence may reach, or why it cannot live in the pools.
Result<int32_t> longest_sequence(const SchedConfig& config) {
  int32_t most = config.context_tokens;
  for (const SchedClass& c : config.classes) {
    if (c.blocks < 1 || c.window.value_or(1) < 1) {
      return invalid_argument("a cache class of {} blocks, window {}", c.blocks, c.window.value_or(0));
    }
    if (!c.window) most = static_cast<int32_t>(std::min<int64_t>(most, int64_t{c.blocks} * config.block_tokens));
  }
  for (const SchedClass& c : config.classes) {
    if (!c.window) continue;
    // Windows slide to the start of a block, so that the last whole block ends a prefix.
    const int64_t window = int64_t{*c.window} + (config.prefix_cache ? config.block_tokens - 1 : 0);
    const int32_t needed =
        BlockTable::most_blocks(config.block_tokens, static_cast<int32_t>(std::min<int64_t>(window, most)), most,
                                config.chunk_grid_rows.value_or(1));
    if (c.blocks < needed) {
      return invalid_argument("a window of {} tokens needs {} cache blocks of {} tokens for one sequence, there are {}",
                              *c.window, needed, config.block_tokens, c.blocks);
    }
  }
  if (most < 2) return invalid_argument("the cache holds {} tokens; a sequence needs 2", most);
  return most;
}

}  // namespace

SchedState::SchedState(const SchedConfig& config) : config_(config), tree_(config.block_tokens, windows_of(config)) {
  for (const SchedClass& c : config.classes) {
    pools_.emplace_back(c.blocks);
    windowed_ = windowed_ || c.window;
  }
}

Result<std::unique_ptr<SchedState>> SchedState::make(const SchedConfig& config) {
  TRY_STATUS(check_limits(config));
  TRY_BIND(int32_t most, longest_sequence(config));
  std::unique_ptr<SchedState> state(new SchedState(config));
  state->most_tokens_ = most;
  return state;
}

Result<SequenceId> SchedState::add(NewSequence sequence) {
  const auto prompt = static_cast<int64_t>(sequence.prompt.size());
  if (prompt == 0) return invalid_argument("no token to continue from; the prompt is empty");
  const int64_t answer = sequence.max_new_tokens.value_or(1);
  if (answer < 1) return invalid_argument("{} new tokens, expected at least 1", answer);
  // The last new token is drawn and never computed: it needs no place.
  if (prompt + answer - 1 > most_tokens_) {
    return invalid_argument("a prompt of {} tokens and {} new ones exceed the {} tokens that {}", prompt, answer,
                            most_tokens_,
                            most_tokens_ < config_.context_tokens ? "the cache holds" : "the context holds");
  }
  if (static_cast<int32_t>(waiting_.size()) >= config_.max_queue) {
    return make_error(ErrorCode::kUnavailable, "{} requests wait already; try again in {} s", waiting_.size(),
                      (retry_after_ns() + 999'999'999) / 1'000'000'000);
  }
  const int32_t index = take_slot();
  SequenceState& s = slots_[static_cast<size_t>(index)];
  s.order = next_order_++;
  s.id = SequenceId{s.order << kSlotBits | static_cast<uint64_t>(index)};
  s.prompt_tokens = s.committed = static_cast<int32_t>(prompt);
  s.most_tokens =
      static_cast<int32_t>(sequence.max_new_tokens ? prompt + answer : std::max<int64_t>(prompt + 1, most_tokens_));
  s.priority = sequence.priority;
  s.arrival_ns = sequence.arrival_ns;
  s.deadline_ns = sequence.deadline_ns;
  s.root = sequence.root;
  s.units = std::move(sequence.prompt);
  extend_hashes(s.root, s.units, config_.block_tokens, s.hashes);
  for (const SchedClass& c : config_.classes) s.tables.emplace_back(config_.block_tokens, c.window);
  s.share = join_share(sequence.fair_key);
  waiting_.push_back(index);
  return s.id;
}

int32_t SchedState::take_slot() {
  if (unused_.empty()) {
    CHECK(slots_.size() < size_t{1} << kSlotBits, "{} sequences at one time", slots_.size());
    unused_.push_back(static_cast<int32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const int32_t index = unused_.back();
  unused_.pop_back();
  return index;
}

int64_t SchedState::least_served() const {
  int64_t least = -1;
  for (const FairShare& share : shares_) {
    if (share.sequences > 0 && (least < 0 || share.served < least)) least = share.served;
  }
  return std::max<int64_t>(least, 0);
}

int32_t SchedState::join_share(uint64_t key) {
  auto found = share_of_key_.find(key);
  if (found == share_of_key_.end()) {
    if (shares_.size() - unused_shares_.size() > slots_.size() + 1024) forget_idle_shares();
    if (unused_shares_.empty()) {
      unused_shares_.push_back(static_cast<int32_t>(shares_.size()));
      shares_.emplace_back();
    }
    found = share_of_key_.emplace(key, unused_shares_.back()).first;
    unused_shares_.pop_back();
    shares_[static_cast<size_t>(found->second)] = {key, 0, 0};
  }
  FairShare& share = shares_[static_cast<size_t>(found->second)];
  // Idle time earns nothing: else a newcomer could hold all others up with what it never asked for.
  if (share.sequences == 0) share.served = std::max(share.served, least_served());
  ++share.sequences;
  return found->second;
}

void SchedState::forget_idle_shares() {
  std::erase_if(share_of_key_, [&](const auto& entry) {
    if (shares_[static_cast<size_t>(entry.second)].sequences > 0) return false;
    unused_shares_.push_back(entry.second);
    return true;
  });
}

void SchedState::forget_prefixes() {
  ++revision_;
  tree_.clear(pools_);
}

void SchedState::set_prefill_rows(int32_t when_decoding, int32_t alone) {
  const int32_t least = config_.chunk_grid_rows.value_or(1);
  config_.prefill_rows_when_decoding = std::max(when_decoding, least);
  config_.prefill_rows_alone = std::max(alone, least);
}

bool SchedState::contains(SequenceId id) const {
  const auto index = static_cast<size_t>(slot_of(id));
  return index < slots_.size() && id != SequenceId{} && slots_[index].id == id;
}

const SequenceState& SchedState::sequence(SequenceId id) const {
  CHECK(contains(id), "sequence {} is not here", static_cast<uint64_t>(id));
  return slots_[static_cast<size_t>(slot_of(id))];
}

SequenceState& SchedState::mutable_sequence(SequenceId id) {
  return const_cast<SequenceState&>(sequence(id));
}

int64_t SchedState::retry_after_ns() const {
  constexpr int64_t kSecond = 1'000'000'000;
  const auto half = static_cast<int64_t>(waiting_.size() + 1) / 2;
  return std::clamp(std::min(admission_interval_ns_, 60 * kSecond) * half, kSecond, 60 * kSecond);
}

int32_t SchedState::kept_end(const SequenceState& sequence, int32_t end) const {
  if (!config_.prefix_cache) return 0;
  if (!config_.chunk_grid_rows) return end;
  return std::min(end, sequence.prompt_tokens / *config_.chunk_grid_rows * *config_.chunk_grid_rows);
}

void SchedState::leave(std::vector<int32_t>& list, const SequenceState& sequence) {
  auto place = std::ranges::find(list, slot_of(sequence.id));
  CHECK(place != list.end(), "sequence {} is in no list", static_cast<uint64_t>(sequence.id));
  list.erase(place);
}

void SchedState::retire(SequenceId id) {
  if (!contains(id)) return;
  SequenceState& s = mutable_sequence(id);
  if (s.phase == SequencePhase::kRetiring) return;
  ++revision_;
  leave(s.phase == SequencePhase::kWaiting ? waiting_ : running_, s);
  if (s.steps_in_flight > 0) {
    s.phase = SequencePhase::kRetiring;
    return;
  }
  release(s);
  erase(s);
}

void SchedState::release(SequenceState& sequence) {
  for (size_t c = 0; c < pools_.size(); ++c) sequence.tables[c].clear(pools_[c]);
  tree_.leave(sequence.node, pools_);
  sequence.node = {};
}

void SchedState::erase(SequenceState& sequence) {
  --shares_[static_cast<size_t>(sequence.share)].sequences;
  const int32_t index = slot_of(sequence.id);
  sequence = SequenceState{};
  unused_.push_back(index);
}

void SchedState::enqueue(SequenceState& sequence) {
  leave(running_, sequence);
  release(sequence);
  sequence.phase = SequencePhase::kWaiting;
  sequence.cached = sequence.scheduled = 0;
  waiting_.push_back(slot_of(sequence.id));
}

void SchedState::start_running(SequenceState& sequence) {
  leave(waiting_, sequence);
  sequence.phase = SequencePhase::kRunning;
  auto ahead = [&](int32_t index) {
    const SequenceState& other = slot(index);
    return other.priority > sequence.priority || (other.priority == sequence.priority && other.order < sequence.order);
  };
  running_.insert(std::ranges::partition_point(running_, ahead), slot_of(sequence.id));
}

}  // namespace vernier
