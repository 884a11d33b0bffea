#include "sched/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

namespace vernier {
namespace {

/// A server whose model always samples token 1, one step after another.
class Desk {
 public:
  explicit Desk(SchedConfig config) { state_ = SchedState::make(config).value(); }

  static SchedConfig config(int32_t blocks, std::optional<int32_t> window = {}) {
    SchedConfig config;
    config.block_tokens = 4;
    config.classes = {{blocks, {}}};
    if (window) config.classes.push_back({blocks, window});
    config.max_rows = 32;
    config.max_sequences = 8;
    config.max_queue = 64;
    config.context_tokens = 64;
    config.prefill_rows_when_decoding = 8;
    return config;
  }
  static NewSequence request(int32_t prompt, int32_t answer, int32_t first_token = 100) {
    NewSequence request;
    for (int32_t i = 0; i < prompt; ++i) request.prompt.push_back(PrefixUnit::token(first_token + i));
    request.max_new_tokens = answer;
    return request;
  }

  SchedState& state() { return *state_; }
  SequenceId add(NewSequence request) { return state_->add(std::move(request)).value(); }
  const StepPlan& plan_only() {
    plan(*state_, now_ns, plan_);
    return plan_;
  }
  const StepPlan& step() {
    plan_only();
    if (!plan_.empty()) {
      launch(*state_, plan_);
      finish_step(plan_);
    }
    const Status status = state_->check();
    EXPECT_TRUE(status.ok()) << status.error().message;
    return plan_;
  }
  void finish_step(const StepPlan& plan) {
    commit(*state_, plan, std::vector<int32_t>(static_cast<size_t>(plan.sampled_rows), 1));
    for (const PlannedRows& rows : plan.rows) {
      if (state_->contains(rows.sequence) && state_->sequence(rows.sequence).full()) {
        ended.push_back(rows.sequence);
        state_->finish(rows.sequence);
      }
    }
  }
  void run_out() {
    for (int steps = 0; !state_->idle(); ++steps) {
      ASSERT_LT(steps, 10000);
      step();
    }
  }
  int32_t rows_of(SequenceId id) const {
    for (const PlannedRows& rows : plan_.rows) {
      if (rows.sequence == id) return rows.rows;
    }
    return 0;
  }

  int64_t now_ns = 0;
  std::vector<SequenceId> ended;

 private:
  std::unique_ptr<SchedState> state_;
  StepPlan plan_;
};

// SCHED-4; public fault: a request larger than the pool blocked the queue for ever (vllm 39734).
TEST(Planner, WhatCouldNotRunAloneIsRefusedWithTheNumbersAndBlocksNobody) {
  Desk desk(Desk::config(10));  // 40 tokens, context 64
  EXPECT_EQ(desk.state().most_tokens(), 40);
  Result<SequenceId> id = desk.state().add(Desk::request(40, 2));
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(id.error().message, testing::HasSubstr("40 tokens and 2 new ones exceed the 40"));
  EXPECT_FALSE(desk.state().add(Desk::request(41, 1)).ok());
  desk.add(Desk::request(40, 1));  // the new token is drawn and needs no place
  desk.add(Desk::request(3, 2));
  desk.run_out();
  EXPECT_EQ(desk.ended.size(), 2U);
}

TEST(Planner, WithoutALimitAnAnswerFillsTheContext) {
  Desk desk(Desk::config(100));
  NewSequence request = Desk::request(10, 1);
  request.max_new_tokens.reset();
  EXPECT_EQ(desk.state().sequence(desk.add(std::move(request))).most_tokens, 64);
}

// SCHED-10; public fault: an unbounded waiting queue (vllm 18826, 2901).
TEST(Planner, AFullQueueRefusesAndSaysWhenToComeBack) {
  SchedConfig config = Desk::config(100);
  config.max_queue = 2;
  Desk desk(config);
  desk.add(Desk::request(4, 4));
  desk.add(Desk::request(4, 4, 200));
  Result<SequenceId> id = desk.state().add(Desk::request(4, 4, 300));
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(id.error().message, testing::HasSubstr("try again in 1 s"));
  EXPECT_GE(desk.state().retry_after_ns(), 1'000'000'000);
  desk.run_out();
  EXPECT_TRUE(desk.state().add(Desk::request(4, 4, 300)).ok());
}

TEST(Planner, TheRetryEstimateFollowsThePaceOfAdmission) {
  SchedConfig config = Desk::config(100);
  config.max_sequences = 1;
  Desk desk(config);
  for (int i = 0; i < 64; ++i) desk.add(Desk::request(4, 1, i * 100));
  for (int i = 0; i < 40; ++i) {
    desk.now_ns += 1'000'000'000;
    desk.step();
  }
  // A second apart, 24 left: half of them in about 12 s.
  EXPECT_NEAR(static_cast<double>(desk.state().retry_after_ns()) * 1e-9, 12, 2);
}

// SCHED-3: decode first, then prompts under their own limit.
TEST(Planner, EveryStreamGetsItsRowAndPromptsShareTheRest) {
  Desk desk(Desk::config(100));
  std::vector<SequenceId> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(desk.add(Desk::request(5, 40, 100 * i)));
  EXPECT_EQ(desk.step().total_rows, 15);
  SequenceId late = desk.add(Desk::request(30, 4, 1000));
  for (int32_t chunk : {8, 8, 8, 6}) {
    const StepPlan& plan = desk.step();
    for (SequenceId id : streams) EXPECT_EQ(desk.rows_of(id), 1);
    EXPECT_EQ(desk.rows_of(late), chunk);
    EXPECT_EQ(plan.decode_rows, 3);
  }
  desk.state().set_prefill_rows(2, 32);
  SequenceId next = desk.add(Desk::request(9, 4, 2000));
  desk.step();
  EXPECT_EQ(desk.rows_of(next), 2);
}

/// Steps until the sequence has its first token; at most 1000.
int32_t steps_to_first_token(Desk& desk, SequenceId id) {
  for (int32_t steps = 1; steps <= 1000; ++steps) {
    desk.step();
    if (!desk.state().contains(id) || desk.state().sequence(id).committed > desk.state().sequence(id).prompt_tokens) {
      return steps;
    }
  }
  return 1001;
}

SchedConfig long_prompts() {
  SchedConfig config = Desk::config(1000);
  config.context_tokens = 1024;
  return config;
}

// SCHED-11
TEST(Planner, AShortPromptDoesNotWaitForALongOneToEnd) {
  for (int32_t streams : {0, 3}) {
    Desk desk(long_prompts());
    for (int32_t i = 0; i < streams; ++i) desk.add(Desk::request(4, 500, 20'000 + 100 * i));
    if (streams > 0) desk.step();
    const SequenceId first = desk.add(Desk::request(900, 4));
    desk.step();
    const SequenceId second = desk.add(Desk::request(900, 4, 2000));  // waits, and is no obstacle either
    const SequenceId brief = desk.add(Desk::request(4, 4, 5000));
    EXPECT_EQ(steps_to_first_token(desk, brief), 1) << streams;
    EXPECT_GE(desk.rows_of(first), streams > 0 ? 4 : 16) << streams;
    EXPECT_EQ(desk.rows_of(second), 0) << streams;
  }
}

// SCHED-11: what counts is what is left to compute, not how long the prompt is.
TEST(Planner, ALongPromptOfWhichLittleIsLeftIsAShortOne) {
  Desk desk(long_prompts());
  desk.add(Desk::request(800, 1));
  desk.run_out();
  desk.add(Desk::request(900, 4, 3000));
  desk.step();
  desk.add(Desk::request(500, 4, 5000));
  const SequenceId cached = desk.add(Desk::request(801, 4));
  EXPECT_EQ(steps_to_first_token(desk, cached), 1);
  EXPECT_EQ(desk.state().sequence(cached).hit_tokens, 800);
}

// SCHED-11: however many short prompts come, the oldest has half of the rows, and then the next.
TEST(Planner, ShortPromptsNeverStarveALongOne) {
  Desk desk(long_prompts());
  std::vector<SequenceId> longs;
  for (int32_t i = 0; i < 3; ++i) longs.push_back(desk.add(Desk::request(640, 2, 2000 * i)));
  int32_t next = 10'000;
  for (int32_t i = 0; i < 3; ++i) {
    for (int32_t step = 0; step < 640 / 16 + 2; ++step) {
      while (desk.state().waiting().size() < 8) desk.add(Desk::request(16, 1, next += 100));
      desk.step();
    }
    EXPECT_TRUE(std::ranges::count(desk.ended, longs[static_cast<size_t>(i)])) << i;
  }
  EXPECT_GE(desk.ended.size(), 100U);  // of the short ones
}

// SCHED-11, and precedence: a prompt of higher priority does not share.
TEST(Planner, APromptOfHigherPriorityGoesBeforeOneThatRuns) {
  Desk desk(long_prompts());
  const SequenceId low = desk.add(Desk::request(900, 4));
  desk.step();
  NewSequence urgent = Desk::request(70, 4, 2000);
  urgent.priority = 1;
  const SequenceId high = desk.add(std::move(urgent));
  desk.step();
  EXPECT_EQ(desk.rows_of(high), 32);
  EXPECT_EQ(desk.rows_of(low), 0);
  desk.step();
  desk.step();
  EXPECT_EQ(desk.rows_of(high), 6);
  EXPECT_EQ(desk.rows_of(low), 26);
}

// SCHED-8: a key that asks for little at a time is at most a step ahead of one that asks for much.
TEST(Planner, ShortPromptsOfOneKeyAreNoWayAroundTheShareOfAnother) {
  SchedConfig config = long_prompts();
  config.max_sequences = 4;
  Desk desk(config);
  std::array<int64_t, 3> rows{};
  std::array<int32_t, 3> asked{};
  std::map<SequenceId, size_t> key_of;
  int32_t next = 0;
  const auto ask = [&](size_t key, int32_t prompt) {
    NewSequence request = Desk::request(prompt, 1, 1000 * ++next);
    request.fair_key = key;
    key_of[desk.add(std::move(request))] = key;
    ++asked[key];
  };
  for (int step = 0; step < 600; ++step) {
    while (asked[0] < 10) ask(0, 16);
    while (asked[1] < 10) ask(1, 240);
    while (asked[2] < 10) ask(2, 240);
    for (const PlannedRows& planned : desk.step().rows) rows[key_of[planned.sequence]] += planned.rows;
    for (SequenceId id : desk.ended) --asked[key_of[id]];
    desk.ended.clear();
  }
  EXPECT_GT(rows[0], 4000);
  for (size_t key : {1U, 2U}) {
    EXPECT_NEAR(static_cast<double>(rows[key]) / static_cast<double>(rows[0]), 1, 0.1) << key;
  }
}

// SCHED-6: n choices of one request compute their prompt once.
TEST(Planner, ChoicesWaitForTheFirstOneAndShareItsPrompt) {
  Desk desk(Desk::config(100));
  SequenceId first = desk.add(Desk::request(41, 4));
  std::vector<SequenceId> others;
  for (int i = 0; i < 3; ++i) others.push_back(desk.add(Desk::request(41, 4)));
  SequenceId stranger = desk.add(Desk::request(3, 4, 900));
  desk.step();  // the stranger overtakes those who wait for the first
  EXPECT_EQ(desk.rows_of(first), 29);
  EXPECT_EQ(desk.rows_of(stranger), 3);
  for (int32_t chunk : {8, 4}) {  // beside the stranger's decode row
    desk.step();
    EXPECT_EQ(desk.rows_of(first), chunk);
    for (SequenceId id : others) EXPECT_EQ(desk.rows_of(id), 0);
  }
  desk.step();
  for (SequenceId id : others) EXPECT_EQ(desk.state().sequence(id).hit_tokens, 40);
  desk.run_out();
}

// SCHED-6: when the one they wait for goes, another takes over.
TEST(Planner, WhenTheFirstIsCancelledOrUndoneAnotherTakesOver) {
  for (bool undone : {false, true}) {
    Desk desk(Desk::config(100));
    SequenceId first = desk.add(Desk::request(41, 4));
    SequenceId second = desk.add(Desk::request(41, 4));
    StepPlan running = desk.plan_only();
    launch(desk.state(), running);
    EXPECT_TRUE(desk.plan_only().rows.empty() || desk.rows_of(second) == 0);
    if (undone) {
      undo(desk.state(), running);
      EXPECT_EQ(desk.state().sequence(first).phase, SequencePhase::kWaiting);
      EXPECT_EQ(desk.state().pool(0).free_blocks(), 100);
      desk.state().cancel(first);
    } else {
      desk.state().cancel(first);
      EXPECT_EQ(desk.state().sequence(first).phase, SequencePhase::kRetiring);
      EXPECT_LT(desk.state().pool(0).available_blocks(), 100);  // SCHED-5
      desk.finish_step(running);
    }
    EXPECT_FALSE(desk.state().contains(first));
    desk.step();
    EXPECT_EQ(desk.rows_of(second), 32);
    desk.run_out();
  }
}

// Public fault: requests with n > 1 could not be aborted and left their bookkeeping behind (vllm 14326).
TEST(Planner, CancelledChoicesLeaveNothingBehind) {
  Desk desk(Desk::config(100, 8));
  std::vector<SequenceId> choices;
  for (int i = 0; i < 4; ++i) choices.push_back(desk.add(Desk::request(10, 40)));
  for (int i = 0; i < 4; ++i) desk.step();
  for (SequenceId id : choices) desk.state().cancel(id);
  for (SequenceId id : choices) desk.state().cancel(id);  // again: nothing happens
  EXPECT_TRUE(desk.state().idle());
  EXPECT_TRUE(desk.state().check().ok());
  desk.state().forget_prefixes();
  EXPECT_EQ(desk.state().pool(0).free_blocks(), 100);
  EXPECT_EQ(desk.state().pool(1).free_blocks(), 100);
}

// SCHED-4, SCHED-7: the last in precedence gives way, and what it computed is found again.
TEST(Planner, TheLastInPrecedenceIsPreemptedAndRecomputesFromCache) {
  Desk desk(Desk::config(8));  // 32 tokens
  SequenceId first = desk.add(Desk::request(9, 20, 100));
  SequenceId second = desk.add(Desk::request(9, 20, 200));
  int32_t preemptions = 0;
  while (!desk.state().idle()) {
    const StepPlan& plan = desk.step();
    for (SequenceId id : plan.preemptions) EXPECT_EQ(id, second);
    preemptions += static_cast<int32_t>(plan.preemptions.size());
    for (const Admission& a : plan.admissions) {
      if (preemptions > 0) {
        EXPECT_GT(a.hit.tokens, 0);
      }
    }
  }
  EXPECT_GT(preemptions, 0);
  EXPECT_THAT(desk.ended, testing::ElementsAre(first, second));
}

TEST(Planner, HigherPriorityComesFirstAndTakesASeat) {
  SchedConfig config = Desk::config(100);
  config.max_sequences = 1;
  Desk desk(config);
  SequenceId low = desk.add(Desk::request(8, 20, 100));
  desk.step();
  NewSequence urgent = Desk::request(8, 2, 200);
  urgent.priority = 1;
  SequenceId high = desk.add(std::move(urgent));
  EXPECT_THAT(desk.step().preemptions, testing::ElementsAre(low));
  EXPECT_EQ(desk.rows_of(high), 8);
  desk.run_out();
  EXPECT_THAT(desk.ended, testing::ElementsAre(high, low));
}

// SCHED-8: one key floods, the other asks one at a time; both get half of the rows while both ask.
TEST(Planner, TwoKeysShareWhateverTheyAsk) {
  SchedConfig config = Desk::config(200);
  config.max_sequences = 4;
  Desk desk(config);
  std::map<SequenceId, int> key_of;
  int next = 0;
  std::array<int, 2> waiting{}, ended{};
  auto ask = [&](int key) {
    NewSequence request = Desk::request(12, 8, 100 * ++next);
    request.fair_key = static_cast<uint64_t>(key);
    key_of[desk.add(std::move(request))] = key;
    ++waiting[static_cast<size_t>(key)];
  };
  for (int i = 0; i < 40; ++i) ask(0);
  for (int i = 0; i < 3; ++i) ask(1);
  for (int step = 0; step < 300; ++step) {
    desk.step();
    for (SequenceId id : desk.ended) {
      ++ended[static_cast<size_t>(key_of[id])];
      ask(key_of[id]);
    }
    desk.ended.clear();
  }
  EXPECT_GT(ended[0], 50);
  EXPECT_NEAR(static_cast<double>(ended[1]) / ended[0], 1, 0.05);
}

TEST(Planner, ADeadlineEndsWaitingAndNothingElse) {
  SchedConfig config = Desk::config(100);
  config.max_sequences = 1;
  Desk desk(config);
  NewSequence runs = Desk::request(4, 20, 100);
  runs.deadline_ns = 10;
  desk.add(std::move(runs));
  desk.step();
  NewSequence late = Desk::request(4, 4, 200);
  late.deadline_ns = 10;
  SequenceId waits = desk.add(std::move(late));
  EXPECT_TRUE(desk.step().expired.empty());
  desk.now_ns = 10;
  EXPECT_THAT(desk.step().expired, testing::ElementsAre(waits));
  EXPECT_EQ(desk.rows_of(waits), 0);
  desk.state().cancel(waits);
  EXPECT_TRUE(desk.step().expired.empty());
  EXPECT_EQ(desk.state().running().size(), 1U);
}

// Public fault: window blocks were returned after the next chunk was allocated, so long prompts never ran (xllm 1689).
TEST(Planner, AWindowPoolOfOneWindowAndOneChunkRunsALongPrompt) {
  SchedConfig config = Desk::config(16);
  config.max_rows = 8;
  config.prefix_cache = false;
  config.classes.push_back({BlockTable::most_blocks(4, 8, 64, 8), 8});
  Desk desk(config);
  desk.add(Desk::request(60, 4));
  int steps = 0;
  for (; !desk.state().idle(); ++steps) desk.step();
  EXPECT_LE(steps, 8 + 4);
}

// Public fault: a step exceeded its budget because the estimated hit was evicted meanwhile (TensorRT-LLM 12665).
TEST(PlannerDeathTest, APlanForAnotherStateIsNotLaunched) {
  Desk desk(Desk::config(100));
  desk.add(Desk::request(33, 4));
  desk.step();
  desk.step();
  desk.add(Desk::request(33, 4));
  StepPlan stale = desk.plan_only();
  EXPECT_EQ(stale.admissions.front().hit.tokens, 32);
  desk.state().forget_prefixes();
  EXPECT_DEATH(launch(desk.state(), stale), "the plan is for revision");
  desk.plan_only();
  EXPECT_LE(desk.plan_only().total_rows, 32);
}

TEST(Planner, LimitsThatNobodyCouldLiveInAreRefused) {
  SchedConfig config = Desk::config(100);
  config.max_rows = 7;
  EXPECT_THAT(SchedState::make(config).error().message, testing::HasSubstr("7 rows in a step cannot serve 8"));
  config = Desk::config(100, 16);
  config.classes[1].blocks = 4;
  EXPECT_THAT(SchedState::make(config).error().message, testing::HasSubstr("a window of 16 tokens needs"));
  config = Desk::config(100);
  config.chunk_grid_rows = 6;
  EXPECT_FALSE(SchedState::make(config).ok());
  config.chunk_grid_rows = 8;
  EXPECT_TRUE(SchedState::make(config).ok());
}

}  // namespace
}  // namespace vernier
