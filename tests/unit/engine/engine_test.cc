#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "engine/scripted_step_runner.h"
#include "testing/gathering_sink.h"

namespace vernier {
namespace {

using testing::GatheringSink;

constexpr int32_t kVocab = 1000, kEnd = 7;

std::unique_ptr<Engine> scripted(EngineOptions options = {}) {
  if (options.context_tokens == 0) options.context_tokens = 256;
  return Engine::start(std::make_unique<ScriptedStepRunner>(kVocab, 4096), options).value();
}

Request request(std::vector<int32_t> answer, int64_t step_ns = 0) {
  auto script = std::make_shared<ScriptedAnswer>();
  for (int32_t token : answer) script->steps.push_back({token, ""});
  script->end_token = kEnd;
  script->step_ns = step_ns;
  Request made;
  made.prompt = {1, 2, 3};
  made.max_tokens = 100;
  made.end_tokens = {kEnd};
  made.script = script;
  return made;
}

struct Submitted {
  RequestId id;
  std::shared_ptr<GatheringSink> sink;
};

Submitted submit(Engine& engine, Request made) {
  auto sink = std::make_shared<GatheringSink>();
  return {engine.submit(std::move(made), sink).value(), sink};
}

TEST(Engine, DeliversTheTokensInOrderAndTheEndTokenApart) {
  auto engine = scripted();
  Submitted one = submit(*engine, request({10, 11, 12}));
  ASSERT_TRUE(one.sink->wait_end());
  EXPECT_EQ(one.sink->tokens(), (std::vector<int32_t>{10, 11, 12}));
  ASSERT_TRUE(one.sink->finished());
  EXPECT_EQ(one.sink->finished()->reason, FinishReason::kStop);
  EXPECT_EQ(one.sink->finished()->end_token, kEnd);
  EXPECT_EQ(one.sink->finished()->prompt_tokens, 3);
}

TEST(Engine, EndsAtMaxTokensAndAtTheContext) {
  auto engine = scripted({.context_tokens = 32});
  Request limited = request(std::vector<int32_t>(100, 10));
  limited.max_tokens = 5;
  Submitted one = submit(*engine, limited);
  limited.max_tokens = 1000;
  Submitted two = submit(*engine, limited);
  ASSERT_TRUE(one.sink->wait_end() && two.sink->wait_end());
  EXPECT_EQ(one.sink->tokens().size(), 5u);
  EXPECT_EQ(one.sink->finished()->reason, FinishReason::kLength);
  EXPECT_EQ(two.sink->tokens().size(), 29u);  // ENGINE-5
  EXPECT_EQ(two.sink->finished()->reason, FinishReason::kContext);
}

TEST(Engine, RefusesWhatCanNeverRunWithTheNumbers) {
  auto engine = scripted({.context_tokens = 32});
  auto refused = [&](Request made) {
    auto result = engine->submit(std::move(made), std::make_shared<GatheringSink>());
    EXPECT_FALSE(result.ok());
    return result.ok() ? Error{} : result.error();
  };
  Request made = request({});
  made.prompt.assign(32, 1);
  EXPECT_THAT(refused(made).message, ::testing::HasSubstr("32 tokens"));
  made.max_tokens = 0;  // nothing is drawn: the prompt may fill the context
  Submitted whole = submit(*engine, made);
  ASSERT_TRUE(whole.sink->wait_end());
  EXPECT_TRUE(whole.sink->finished());
  made.prompt = {};
  EXPECT_EQ(refused(made).code, ErrorCode::kInvalidArgument);
  made.prompt = {kVocab};
  EXPECT_THAT(refused(made).message, ::testing::HasSubstr("1000"));
  made.prompt = {1};
  made.sampling.top_p = 2;
  EXPECT_EQ(refused(made).code, ErrorCode::kInvalidArgument);
}

// ENGINE-8.
TEST(Engine, AFailingRowEndsItsRequestAndNoOther) {
  auto engine = scripted();
  Request failing = request({10, 11, 12}, 1'000'000);
  auto script = std::make_shared<ScriptedAnswer>(*failing.script);
  script->steps[1].failure = "the device is on fire";
  failing.script = script;
  Submitted good = submit(*engine, request({20, 21, 22, 23, 24}, 1'000'000));
  Submitted bad = submit(*engine, failing);
  ASSERT_TRUE(bad.sink->wait_end() && good.sink->wait_end());
  ASSERT_TRUE(bad.sink->failed());
  EXPECT_EQ(bad.sink->failed()->message, "the device is on fire");
  EXPECT_EQ(bad.sink->tokens(), std::vector<int32_t>{10});
  EXPECT_EQ(good.sink->tokens().size(), 5u);
  EXPECT_EQ(submit(*engine, request({1})).sink->wait_end(), true);  // it lives on
}

TEST(Engine, CancelEndsARequestWhereverItIs) {
  auto engine = scripted({.max_sequences = 1});
  Submitted running = submit(*engine, request(std::vector<int32_t>(90, 10), 2'000'000));
  Submitted waiting = submit(*engine, request({11}));
  ASSERT_TRUE(running.sink->wait_tokens(2));
  engine->cancel(waiting.id);
  ASSERT_TRUE(waiting.sink->wait_end());
  EXPECT_EQ(waiting.sink->finished()->reason, FinishReason::kCancelled);
  engine->cancel(running.id);
  engine->cancel(running.id);
  engine->cancel(12345);
  ASSERT_TRUE(running.sink->wait_end());
  EXPECT_EQ(running.sink->finished()->reason, FinishReason::kCancelled);
  EXPECT_LT(running.sink->tokens().size(), 90u);
  for (int i = 0; i < 500 && engine->stats().running > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(engine->idle());
  EXPECT_EQ(engine->stats().cache[0].held_blocks, 0);
  EXPECT_EQ(running.sink->late() + waiting.sink->late(), 0);
}

TEST(Engine, AFullQueueRefusesOneMoreAndADrainingEngineAll) {
  auto engine = scripted({.max_sequences = 1, .max_queue = 2});
  std::vector<Submitted> held;
  for (int i = 0; i < 3; ++i) held.push_back(submit(*engine, request({10, 11}, 20'000'000)));
  auto refused = engine->submit(request({1}), std::make_shared<GatheringSink>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  for (Submitted& one : held) ASSERT_TRUE(one.sink->wait_end());
  EXPECT_EQ(engine->stats().requests_refused, 1);
  engine->drain();
  refused = engine->submit(request({1}), std::make_shared<GatheringSink>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
}

TEST(Engine, ADeadlineEndsWaitingAndRunningRequests) {
  auto engine = scripted({.max_sequences = 1});
  Request made = request(std::vector<int32_t>(90, 10), 3'000'000);
  made.deadline_ns = monotonic_ns() + 40'000'000;
  Submitted running = submit(*engine, made);
  Submitted waiting = submit(*engine, made);
  ASSERT_TRUE(running.sink->wait_end() && waiting.sink->wait_end());
  for (const Submitted& one : {running, waiting}) {
    ASSERT_TRUE(one.sink->failed());
    EXPECT_EQ(one.sink->failed()->code, ErrorCode::kTimeout);
  }
  EXPECT_GT(running.sink->tokens().size(), 0u);
  EXPECT_EQ(waiting.sink->tokens().size(), 0u);
}

// ENGINE-9.
TEST(Engine, TheLedgerSumsToTheWallTime) {
  auto engine = scripted({.max_sequences = 1});
  const int64_t begin_ns = monotonic_ns();
  Submitted first = submit(*engine, request({10, 11, 12}, 5'000'000));
  Submitted second = submit(*engine, request({10, 11, 12}, 5'000'000));
  ASSERT_TRUE(first.sink->wait_end() && second.sink->wait_end());
  const int64_t wall_ns = monotonic_ns() - begin_ns;
  const RequestLedger& ledger = second.sink->ledger();
  EXPECT_GE(ledger.queue_ns, 15'000'000);  // it waited for the first
  EXPECT_GE(ledger.prefill_ns, 5'000'000);
  EXPECT_GE(ledger.decode_ns, 15'000'000);
  EXPECT_LE(ledger.total_ns(), wall_ns);
  EXPECT_GE(ledger.first_token_ns, ledger.queue_ns + ledger.prefill_ns);
  EXPECT_LE(ledger.first_token_ns, ledger.total_ns());
  EXPECT_GE(ledger.total_ns(), first.sink->ledger().total_ns() + 20'000'000);
}

// ENGINE-9: rows that only fill up a shape have their own part, of failed requests too.
TEST(Engine, TheLedgerHasPaddingApart) {
  struct PaddingRunner : ScriptedStepRunner {
    PaddingRunner() : ScriptedStepRunner(kVocab, 4096) {}
    Result<StepOutput> run(const StepInput& step) override {
      Result<StepOutput> output = ScriptedStepRunner::run(step);
      if (output.ok()) output->padded_rows = 3 * static_cast<int32_t>(step.view.tokens.size());
      return output;
    }
  };
  auto engine = Engine::start(std::make_unique<PaddingRunner>(), {.context_tokens = 256}).value();
  Request failing = request({10, 11, 12}, 4'000'000);
  auto script = std::make_shared<ScriptedAnswer>(*failing.script);
  script->steps[2].failure = "the device is on fire";
  failing.script = script;
  for (const Request& made : {request({10, 11}, 4'000'000), failing}) {
    Submitted one = submit(*engine, made);
    ASSERT_TRUE(one.sink->wait_end());
    const RequestLedger& ledger = one.sink->ledger();
    EXPECT_GE(ledger.padding_ns, 9'000'000);
    EXPECT_GE(ledger.prefill_ns, 1'000'000);
    EXPECT_NEAR(static_cast<double>(ledger.padding_ns), 3.0 * static_cast<double>(ledger.prefill_ns + ledger.decode_ns),
                1000);
    EXPECT_GT(ledger.end_ns, 0);
  }
}

// G17: every row that is drawn knows how many tokens the tokenizer has.
TEST(Engine, TokensThatTheTokenizerDoesNotKnowAreNotDrawn) {
  struct RecordingRunner : ScriptedStepRunner {
    explicit RecordingRunner(std::vector<int32_t>& known_tokens)
        : ScriptedStepRunner(kVocab, 4096), known_tokens_(known_tokens) {}
    Result<StepOutput> run(const StepInput& step) override {
      for (const SampleSpec& spec : step.specs) known_tokens_.push_back(spec.known_tokens);
      return ScriptedStepRunner::run(step);
    }
    std::vector<int32_t>& known_tokens_;
  };
  std::vector<int32_t> known_tokens;
  auto engine = Engine::start(std::make_unique<RecordingRunner>(known_tokens),
                              {.context_tokens = 256, .known_tokens = kVocab - 20})
                    .value();
  ASSERT_TRUE(submit(*engine, request({10, 11})).sink->wait_end());
  EXPECT_EQ(known_tokens, (std::vector<int32_t>(3, kVocab - 20)));
}

// A prompt takes many steps; each of them ends a late request, and so does a seat that another has.
TEST(Engine, ADeadlineEndsARequestInItsPrompt) {
  auto engine = scripted({.context_tokens = 4096, .max_step_rows = 64});
  Request made = request({10}, 4'000'000);
  made.prompt.assign(4000, 1);
  made.deadline_ns = monotonic_ns() + 30'000'000;
  Submitted one = submit(*engine, made);
  ASSERT_TRUE(one.sink->wait_end());
  ASSERT_TRUE(one.sink->failed());
  EXPECT_EQ(one.sink->failed()->code, ErrorCode::kTimeout);
  EXPECT_LT(one.sink->ledger().total_ns(), 150'000'000);  // of 250 ms
  EXPECT_EQ(engine->stats().cache[0].held_blocks, 0);
  EXPECT_TRUE(engine->idle());
}

// ENGINE-8 for a whole step, ENGINE-10.
TEST(Engine, AFailingStepEndsItsRequestsAndSinksRunElsewhere) {
  struct FailingRunner : ScriptedStepRunner {
    FailingRunner() : ScriptedStepRunner(kVocab, 4096) {}
    Result<StepOutput> run(const StepInput& step) override {
      thread = std::this_thread::get_id();
      if (step.requests[0]->name == "bad") return make_error(ErrorCode::kInternal, "out of power");
      return ScriptedStepRunner::run(step);
    }
    std::thread::id thread;
  };
  struct Sink : GatheringSink {
    void deliver(RequestUpdate update) override {
      thread = std::this_thread::get_id();
      GatheringSink::deliver(std::move(update));
    }
    std::thread::id thread;
  };
  auto runner = std::make_unique<FailingRunner>();
  FailingRunner& failing = *runner;
  auto engine = Engine::start(std::move(runner), {.context_tokens = 256, .max_sequences = 1}).value();
  Request bad = request({10, 11});
  bad.name = "bad";
  auto first = std::make_shared<Sink>(), second = std::make_shared<Sink>();
  ASSERT_TRUE(engine->submit(bad, first).ok());
  ASSERT_TRUE(engine->submit(request({10, 11}), second).ok());
  ASSERT_TRUE(first->wait_end() && second->wait_end());
  ASSERT_TRUE(first->failed());
  EXPECT_EQ(first->failed()->message, "out of power");
  EXPECT_EQ(second->tokens().size(), 2u);
  EXPECT_NE(second->thread, failing.thread);
  EXPECT_EQ(engine->stats().cache[0].held_blocks, 0);
}

TEST(Engine, DestructionCancelsWhatRuns) {
  Submitted one{};
  {
    auto engine = scripted();
    one = submit(*engine, request(std::vector<int32_t>(90, 10), 2'000'000));
    ASSERT_TRUE(one.sink->wait_tokens(1));
  }
  ASSERT_TRUE(one.sink->wait_end());
  EXPECT_EQ(one.sink->finished()->reason, FinishReason::kCancelled);
}

// ENGINE-7: each ends once, and late news are counted.
TEST(Engine, ManyThreadsSubmitAndCancel) {
  auto engine = scripted({.max_sequences = 8, .max_queue = 10000});
  std::vector<std::thread> threads;
  std::atomic<int> ended{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        Submitted one = submit(*engine, request({10, 11, 12, 13}));
        if (i % 3 == t % 3) engine->cancel(one.id);
        if (one.sink->wait_end()) ++ended;
        EXPECT_EQ(one.sink->late(), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended.load(), 400);
  EXPECT_TRUE(engine->idle());
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.requests_finished + stats.requests_cancelled + stats.requests_failed, 400);
  EXPECT_EQ(stats.cache[0].held_blocks, 0);
}

}  // namespace
}  // namespace vernier
