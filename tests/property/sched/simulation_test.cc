#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>

#include "property/sched/fake_device.h"

namespace vernier::testing {
namespace {

/// VERNIER_PROPERTY_SCALE=20 runs twenty times as many operations.
int scale() {
  const char* text = std::getenv("VERNIER_PROPERTY_SCALE");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

/// How often the events came about that the test is for; a world without them would prove nothing.
struct Seen {
  int64_t operations = 0, steps = 0, hits = 0, preemptions = 0, undone = 0, retired_in_flight = 0, mixed = 0,
          tokens = 0, overlapped = 0, starved = 0;
};

/// A server in small: random requests, cancels, failures and overlap, against a model that notices each wrong slot.
class World {
 public:
  World(const SchedConfig& config, uint32_t seed, Seen& seen)
      : random_(seed), config_(config), seen_(seen), device_(config, model_of(config)) {
    state_ = SchedState::make(config).value();
    for (int i = 0; i < 3; ++i) {
      std::vector<PrefixUnit> stem;
      for (int32_t n = pick(0, state_->most_tokens() - 2); n > 0; --n) stem.push_back(random_unit());
      stems_.push_back(std::move(stem));
    }
  }

  void act() {
    const int choice = pick(0, 99);
    if (choice < 12) {
      add();
    } else if (choice < 15) {
      cancel_one();
    } else if (choice < 16 && pick(0, 20) == 0) {
      state_->forget_prefixes();
    } else if (choice < 20 && !flight_.empty()) {
      fail();
    } else if (choice < 60) {
      if (flight_.size() < 3) launch_one();
    } else if (!flight_.empty()) {
      commit_one();
    }
    ++seen_.operations;
    check();
  }

  /// No more comes in: all must end, in a number of steps that the work bounds.
  void drain() {
    while (!flight_.empty()) commit_one();
    int64_t rows = 0;
    for (const auto& [id, answer] : answers_) rows += static_cast<int64_t>(answer.digests.size());
    for (int64_t steps = 0; !state_->idle(); ++steps) {
      ASSERT_LE(steps, 50 + 20 * rows) << "SCHED-4: no end in sight";
      const size_t live = answers_.size();
      launch_one();
      if (flight_.empty()) {
        ASSERT_LT(answers_.size(), live) << "SCHED-4: nothing is planned, nothing ended";
      } else {
        commit_one();
      }
      check();
      if (::testing::Test::HasFailure()) return;
    }
    for (size_t c = 0; c < config_.classes.size(); ++c) {
      const BlockPool& pool = state_->pool(static_cast<int32_t>(c));
      ASSERT_EQ(pool.available_blocks(), pool.blocks());  // KV-9: nothing leaks
    }
  }

 private:
  static FakeModel model_of(const SchedConfig& config) {
    FakeModel model;
    for (const SchedClass& c : config.classes) model.windows.push_back(c.window);
    return model;
  }
  int32_t pick(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random_); }
  PrefixUnit random_unit() {
    if (pick(0, 30) == 0) return PrefixUnit::media(static_cast<uint64_t>(pick(0, 2)), 1);
    return PrefixUnit::token(pick(0, device_.model().vocabulary - 1));
  }

  void add() {
    NewSequence request;
    const std::vector<PrefixUnit>& stem = stems_[static_cast<size_t>(pick(0, 2))];
    request.prompt.assign(stem.begin(), stem.begin() + pick(0, static_cast<int32_t>(stem.size())));
    while (request.prompt.empty() ||
           (static_cast<int32_t>(request.prompt.size()) < state_->most_tokens() && pick(0, 3) > 0)) {
      request.prompt.push_back(random_unit());
    }
    if (pick(0, 4) > 0) request.max_new_tokens = pick(1, 12);
    request.priority = pick(0, 5) == 0 ? pick(-1, 2) : 0;
    request.fair_key = static_cast<uint64_t>(pick(0, 3));
    request.root = {static_cast<uint64_t>(pick(0, 8) == 0), static_cast<uint64_t>(pick(0, 8) == 0), 0};
    request.arrival_ns = now_ns_;
    if (pick(0, 9) == 0) request.deadline_ns = now_ns_ + pick(0, 30);
    const auto prompt = request.prompt;
    const PrefixRoot root = request.root;
    const auto tokens = static_cast<int64_t>(prompt.size()) + request.max_new_tokens.value_or(1);
    const bool queue_full = static_cast<int32_t>(state_->waiting().size()) >= config_.max_queue;
    Result<SequenceId> id = state_->add(std::move(request));
    if (tokens - 1 > state_->most_tokens()) {  // the last is drawn, not cached
      ASSERT_FALSE(id.ok());
      EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument);
    } else if (queue_full) {
      ASSERT_FALSE(id.ok());
      EXPECT_EQ(id.error().code, ErrorCode::kUnavailable);
    } else {
      ASSERT_TRUE(id.ok()) << id.error().message;
      answers_[*id] = device_.model().run_alone(prompt, root, state_->sequence(*id).most_tokens);
    }
  }

  void cancel_one() {
    if (answers_.empty()) return;
    auto it = answers_.begin();
    std::advance(it, pick(0, static_cast<int32_t>(answers_.size()) - 1));
    end(it->first);
  }
  void end(SequenceId id) {
    if (state_->sequence(id).steps_in_flight > 0) ++seen_.retired_in_flight;
    state_->cancel(id);
    answers_.erase(id);
  }

  void launch_one() {
    now_ns_ += 1;
    plan(*state_, now_ns_, plan_);
    StepPlan again = plan(*state_, now_ns_);
    ASSERT_EQ(plan_.to_string(), again.to_string()) << "a plan depends on more than the state";
    check_plan();
    if (!plan_.empty()) {
      launch(*state_, plan_);
      flight_.push_back(FakeDevice::capture(*state_, plan_));
      seen_.overlapped += flight_.size() > 1;
      ++seen_.steps;
    }
    for (SequenceId id : std::vector<SequenceId>(plan_.expired)) end(id);
  }

  void check_plan() {
    int32_t rows = 0, prefill = 0, decode = 0;
    std::map<SequenceId, const PlannedRows*> of;
    for (const PlannedRows& r : plan_.rows) {
      ASSERT_TRUE(of.emplace(r.sequence, &r).second) << "a sequence is planned twice";
      rows += r.rows;
      (r.decode ? decode : prefill) += r.rows;
      const SequenceState& s = state_->sequence(r.sequence);
      if (config_.chunk_grid_rows && !r.decode) {  // SCHED-9
        EXPECT_EQ(r.first_position % *config_.chunk_grid_rows, 0);
        EXPECT_EQ(r.first_position + r.rows, std::min(s.prompt_tokens, r.first_position + *config_.chunk_grid_rows));
      }
    }
    EXPECT_EQ(rows, plan_.total_rows);
    EXPECT_LE(rows, config_.max_rows);  // SCHED-3
    if (decode > 0) {
      EXPECT_LE(prefill, config_.prefill_rows_when_decoding) << plan_.to_string();
    } else if (plan_.preemptions.empty()) {  // else the decode rows may have been preempted
      EXPECT_LE(prefill, config_.prefill_rows_alone) << plan_.to_string();
    }
    seen_.mixed += decode > 0 && prefill > 0;
    seen_.preemptions += static_cast<int64_t>(plan_.preemptions.size());
    for (const Admission& a : plan_.admissions) {
      seen_.hits += a.hit.tokens > 0;
      EXPECT_LT(a.hit.tokens, state_->sequence(a.sequence).committed);  // the last position is computed
    }
    bool first = true;
    for (int32_t index : state_->running()) {
      const SequenceState& s = state_->slot(index);
      if (s.full() || s.scheduled == s.committed) continue;
      const bool planned = of.contains(s.id);
      if (first && flight_.empty()) {
        // Only one that comes before it in precedence, and is admitted, may take its rows.
        const bool replaced = std::ranges::any_of(plan_.admissions, [&](const Admission& a) {
          const SequenceState& other = state_->sequence(a.sequence);
          return other.priority > s.priority || (other.priority == s.priority && other.order < s.order);
        });
        EXPECT_TRUE(planned || replaced) << "SCHED-4: the first in precedence does not get on: " << describe()
                                         << plan_.to_string();
      }
      first = false;
      if (s.scheduled + 1 < s.committed || s.scheduled < s.prompt_tokens || planned) continue;
      const bool preempted = std::ranges::find(plan_.preemptions, s.id) != plan_.preemptions.end();
      // A stream without a row was preempted, or the pools are so short that nobody is admitted either.
      EXPECT_TRUE(preempted || plan_.admissions.empty());
      ++seen_.starved;
    }
  }

  std::string describe() const {
    std::string text =
        fmt::format("blocks of {}, grid {}, rows {}, beside decode {}\n", config_.block_tokens,
                    config_.chunk_grid_rows.value_or(0), config_.max_rows, config_.prefill_rows_when_decoding);
    for (size_t c = 0; c < config_.classes.size(); ++c) {
      const BlockPool& pool = state_->pool(static_cast<int32_t>(c));
      text += fmt::format("class {}: {} blocks, {} free, {} cached, window {}\n", c, pool.blocks(), pool.free_blocks(),
                          pool.cached_blocks(), config_.classes[c].window.value_or(0));
    }
    for (int32_t index : state_->running()) {
      const SequenceState& s = state_->slot(index);
      text += fmt::format("{}: prompt {}, cached {}, scheduled {}, committed {} of {}\n", static_cast<uint64_t>(s.id),
                          s.prompt_tokens, s.cached, s.scheduled, s.committed, s.most_tokens);
    }
    return text;
  }

  void commit_one() {
    const FakeStep step = std::move(flight_.front());
    flight_.pop_front();
    const std::vector<uint64_t> digests = device_.run(step);
    std::vector<int32_t> sampled;
    for (size_t i = 0; i < step.plan.rows.size(); ++i) {
      const PlannedRows& r = step.plan.rows[i];
      auto answer = answers_.find(r.sequence);
      if (answer != answers_.end()) {  // SCHED-2
        ASSERT_EQ(digests[i], answer->second.digests[static_cast<size_t>(r.first_position + r.rows - 1)])
            << "row " << r.first_position + r.rows - 1 << " saw something else than it would alone";
      }
      if (r.sample) sampled.push_back(static_cast<int32_t>(device_.model().token(digests[i]).low));
    }
    commit(*state_, step.plan, sampled);
    seen_.tokens += static_cast<int64_t>(sampled.size());
    for (const PlannedRows& r : step.plan.rows) {
      if (!answers_.contains(r.sequence)) continue;
      const SequenceState& s = state_->sequence(r.sequence);
      if (s.full() || (r.sample && pick(0, 15) == 0)) end(r.sequence);
    }
  }

  /// The newest steps fail: all in flight must be taken back then.
  void fail() {
    while (!flight_.empty()) {
      device_.run(flight_.back(), true);
      undo(*state_, flight_.back().plan);
      flight_.pop_back();
      ++seen_.undone;
      check();
    }
  }

  void check() {
    const Status status = state_->check();
    ASSERT_TRUE(status.ok()) << status.error().message;
    if (seen_.operations % 8 == 0) device_.poison_free(*state_);
  }

  std::mt19937 random_;
  SchedConfig config_;
  Seen& seen_;
  FakeDevice device_;
  std::unique_ptr<SchedState> state_;
  std::vector<std::vector<PrefixUnit>> stems_;
  std::map<SequenceId, FakeModel::Answer> answers_;
  std::deque<FakeStep> flight_;
  StepPlan plan_;
  int64_t now_ns_ = 0;
};

SchedConfig random_config(std::mt19937& random) {
  auto pick = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random); };
  SchedConfig config;
  config.block_tokens = pick(1, 8);
  config.max_sequences = pick(1, 6);
  config.max_rows = config.max_sequences + pick(0, 24);
  config.max_queue = pick(1, 8);
  config.context_tokens = pick(2, 48);
  config.prefill_rows_when_decoding = pick(1, 16);
  if (pick(0, 1) == 0) config.prefill_rows_alone = pick(1, 24);
  config.prefix_cache = pick(0, 9) > 0;
  if (pick(0, 3) == 0) {
    config.chunk_grid_rows = config.block_tokens * pick(1, 2);
    config.prefill_rows_when_decoding = *config.chunk_grid_rows + pick(0, 8);
    config.max_rows = config.max_sequences - 1 + *config.chunk_grid_rows + pick(0, 16);
    config.prefill_rows_alone = config.max_rows;
  }
  for (int c = pick(1, 3); c > 0; --c) {
    SchedClass cache_class;
    const int32_t whole = (config.context_tokens + config.block_tokens - 1) / config.block_tokens;
    cache_class.blocks = pick(1, 3 * whole);
    if (pick(0, 1) == 0) {
      cache_class.window = pick(1, 20);
      cache_class.blocks += BlockTable::most_blocks(config.block_tokens, *cache_class.window + config.block_tokens - 1,
                                                    config.context_tokens, config.chunk_grid_rows.value_or(1));
    }
    config.classes.push_back(cache_class);
  }
  return config;
}

/// SCHED-1 to SCHED-10 and KV-1 to KV-9 at once, in many small worlds that are short of everything.
TEST(Simulation, EverySequenceSeesWhatItWouldSeeAlone) {
  Seen seen;
  std::mt19937 random(11);
  for (int round = 0; round < 400 * scale(); ++round) {
    SchedConfig config = random_config(random);
    if (!SchedState::make(config).ok()) continue;
    World world(config, random(), seen);
    for (int i = 0; i < 1000; ++i) {
      world.act();
      if (HasFailure()) FAIL() << "round " << round << ", operation " << i;
    }
    world.drain();
    if (HasFailure()) FAIL() << "round " << round << ", draining";
  }
  fmt::print(
      "{} operations, {} steps ({} overlapped, {} mixed), {} tokens, {} hits, {} preemptions, {} undone, {} retired "
      "in flight, {} starved\n",
      seen.operations, seen.steps, seen.overlapped, seen.mixed, seen.tokens, seen.hits, seen.preemptions, seen.undone,
      seen.retired_in_flight, seen.starved);
  for (int64_t count :
       {seen.hits, seen.preemptions, seen.undone, seen.retired_in_flight, seen.mixed, seen.overlapped}) {
    EXPECT_GT(count, 1000) << "a world without these proves nothing";
  }
}

}  // namespace
}  // namespace vernier::testing
