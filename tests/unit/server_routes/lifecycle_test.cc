// A request's way through the server, and the server's own: loading, warm-up, deadlines, ledger, counters.

#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "server/warm_up.h"
#include "unit/server_routes/route_fixture.h"

namespace vernier {
namespace {

using nlohmann::json;
using testing::RecordedAnswer;
using testing::RouteFixture;

constexpr const char* kScript = R"({"tokenizer": "t", "format": "plain", "replies": [
  {"match": "[slow]", "delay_ms": 10, "pieces": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
   "o", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]},
  {"match": "", "pieces": ["one", " two"]}]})";

struct BrokenRunner : ScriptedStepRunner {
  explicit BrokenRunner(int32_t vocab) : ScriptedStepRunner(vocab, 4096) {}
  Result<StepOutput> run(const StepInput&) override { return make_error(ErrorCode::kInternal, "no power"); }
};

void expect_refused(const std::shared_ptr<RecordedAnswer>& answer, const char* code, const std::string& reason) {
  EXPECT_EQ(answer->status(), 503) << answer->body();
  EXPECT_EQ(answer->json()["error"]["code"], code);
  EXPECT_NE(answer->json()["error"]["message"].get<std::string>().find(reason), std::string::npos) << answer->body();
  EXPECT_EQ(answer->headers().get("Retry-After"), "1");
}

// T17: until the model is there, what needs it is answered with 503; the process lives and its counters can be read.
TEST(Lifecycle, TellsThatTheModelIsBeingLoaded) {
  RouteFixture fixture(kScript);
  fixture.context().readiness.set_stage(Readiness::Stage::kLoading);
  const auto model = std::exchange(fixture.context().model, nullptr);
  for (const char* path : {"/health", "/health/generate", "/v1/models", "/v1/models/tiny", "/props"}) {
    expect_refused(fixture.ask("GET", path, ""), "model_loading", "loaded");
  }
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/generate",
                           "/tokenize", "/detokenize", "/apply-template", "/flush_cache"}) {
    expect_refused(fixture.post(path, {{"model", "tiny"}}), "model_loading", "loaded");
  }
  for (const char* path : {"/live", "/health/live", "/version", "/metrics"}) {
    EXPECT_EQ(fixture.ask("GET", path, "")->status(), 200) << path;
  }
  fixture.context().model = model;
  fixture.context().readiness.set_stage(Readiness::Stage::kWarming);
  expect_refused(fixture.ask("GET", "/health", ""), "model_loading", "warmed up");
  expect_refused(fixture.chat("x"), "model_loading", "warmed up");
  EXPECT_EQ(fixture.post("/tokenize", {{"model", "tiny"}, {"prompt", "x"}})->status(), 200);
  fixture.context().readiness.set_stage(Readiness::Stage::kReady);
  EXPECT_EQ(fixture.chat("x")->status(), 200);
}

// What fails in warm-up answers 503 with the reason, in place of a 500 for each client.
TEST(Lifecycle, AFailedWarmUpIsTheAnswerOfWhatFailed) {
  RouteFixture fixture(kScript, false, RouteFixture::small_engine(),
                       [](int32_t vocab) { return std::make_unique<BrokenRunner>(vocab); });
  warm_up(fixture.model(), fixture.context().readiness);
  expect_refused(fixture.ask("GET", "/health", ""), "warm_up_failed", "generation failed: no power");
  expect_refused(fixture.ask("GET", "/health/generate", ""), "warm_up_failed", "no power");
  expect_refused(fixture.chat("x", {{"stream", true}}), "warm_up_failed", "no power");
  expect_refused(fixture.post("/v1/completions", {{"model", "tiny"}, {"prompt", "x"}}), "warm_up_failed", "no power");
  EXPECT_EQ(fixture.ask("GET", "/live", "")->status(), 200);
  EXPECT_EQ(fixture.ask("GET", "/v1/models", "")->status(), 200);
  EXPECT_EQ(fixture.model().engine->stats().failed_steps, 1);
}

// A scripted model has neither states nor grammars: neither is asked for.
TEST(Lifecycle, WarmUpProbesOnlyWhatIsPublished) {
  RouteFixture fixture(kScript);
  warm_up(fixture.model(), fixture.context().readiness);
  EXPECT_FALSE(fixture.context().readiness.any_refusal());
  EXPECT_EQ(fixture.model().engine->stats().requests_submitted, 1);
  EXPECT_EQ(fixture.ask("GET", "/health", "")->status(), 200);
}

TEST(Lifecycle, AWarmUpThatHangsIsGivenUp) {
  struct HangingRunner : ScriptedStepRunner {
    explicit HangingRunner(int32_t vocab) : ScriptedStepRunner(vocab, 4096) {}
    Result<StepOutput> run(const StepInput& step) override {
      std::this_thread::sleep_for(std::chrono::seconds(2));
      return ScriptedStepRunner::run(step);
    }
  };
  RouteFixture fixture(kScript, false, RouteFixture::small_engine(),
                       [](int32_t vocab) { return std::make_unique<HangingRunner>(vocab); });
  warm_up(fixture.model(), fixture.context().readiness, std::chrono::milliseconds(50));
  expect_refused(fixture.ask("GET", "/health", ""), "warm_up_failed", "no answer came");
}

// L08: a step that does not end is told by /health, and by nothing once it has ended; a prompt of many steps is none.
TEST(Lifecycle, HealthTellsOfAStepThatDoesNotEnd) {
  struct HeldRunner : ScriptedStepRunner {
    HeldRunner(int32_t vocab, std::shared_ptr<std::atomic<bool>> held)
        : ScriptedStepRunner(vocab, 4096), held_(std::move(held)) {}
    Result<StepOutput> run(const StepInput& step) override {
      do {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      } while (held_->load());
      return ScriptedStepRunner::run(step);
    }
    std::shared_ptr<std::atomic<bool>> held_;
  };
  const auto held = std::make_shared<std::atomic<bool>>(true);
  RouteFixture fixture(kScript, false, RouteFixture::small_engine(),
                       [&](int32_t vocab) { return std::make_unique<HeldRunner>(vocab, held); });
  fixture.context().options.stalled_after = std::chrono::milliseconds(200);
  EXPECT_EQ(fixture.ask("GET", "/health", "")->status(), 200);
  const auto running =
      fixture.open("POST", "/v1/chat/completions",
                   R"({"model":"tiny","messages":[{"role":"user","content":"[slow]"}],"stream":true})");
  const auto wait_for = [&](int status) {
    for (int i = 0; i < 400 && fixture.ask("GET", "/health", "")->status() != status; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  };
  wait_for(503);
  expect_refused(fixture.ask("GET", "/health", ""), "stalled", "has not ended for 0.");
  EXPECT_EQ(fixture.ask("GET", "/live", "")->status(), 200);
  held->store(false);
  wait_for(200);
  for (int i = 0; i < 30; ++i) {  // of its 36 steps, longer together than the limit
    EXPECT_EQ(fixture.ask("GET", "/health", "")->status(), 200);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(running->wait());
}

// F131: late anywhere is 504, or an error event once the stream flows; nothing is held after it.
TEST(Lifecycle, ALateRequestEndsWithATimeout) {
  EngineOptions engine = RouteFixture::small_engine();
  engine.max_sequences = 1;
  RouteFixture fixture(kScript, false, engine);
  fixture.context().options.request_timeout = std::chrono::milliseconds(60);
  const auto running =
      fixture.open("POST", "/v1/chat/completions",
                   R"({"model":"tiny","messages":[{"role":"user","content":"[slow]"}],"max_tokens":36,"stream":true})");
  const auto waiting = fixture.chat("[slow]");
  ASSERT_TRUE(running->wait());
  EXPECT_EQ(waiting->status(), 504);
  EXPECT_EQ(waiting->json()["error"]["code"], "timeout");
  EXPECT_EQ(running->status(), 200);
  ASSERT_GT(running->events().size(), 2U);
  EXPECT_EQ(running->events().back()["error"]["code"], "timeout");
  EXPECT_EQ(running->events().back()["error"].size(), 4U);
  EXPECT_TRUE(running->body().ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(fixture.model().engine->idle());
  EXPECT_EQ(fixture.model().engine->stats().cache[0].held_blocks, 0);
  EXPECT_EQ(fixture.chat("x")->status(), 200);
}

double sum_of_parts(const json& timings) {
  double sum = 0;
  for (const char* part :
       {"queue_ms", "prefill_ms", "waiting_ms", "decode_ms", "padding_ms", "preemption_ms", "client_ms"}) {
    EXPECT_GE(timings[part].get<double>(), 0) << part;
    sum += timings[part].get<double>();
  }
  return sum;
}

// F136: the parts of `timings` and of the log line sum to the time since the request was received.
TEST(Lifecycle, TheLedgerSumsToTheWallTimeOfTheAnswer) {
  RouteFixture fixture(kScript);
  for (bool stream : {false, true}) {
    const int64_t received_ns = monotonic_ns() - 30'000'000;  // it took a worker 30 ms to come to it
    const auto answer = fixture.open("POST", "/v1/chat/completions",
                                     json{{"model", "tiny"},
                                          {"messages", {{{"role", "user"}, {"content", "[slow]"}}}},
                                          {"stream", stream},
                                          {"max_tokens", 4}}
                                         .dump(),
                                     received_ns);
    ASSERT_TRUE(answer->wait());
    const double wall_ms = static_cast<double>(monotonic_ns() - received_ns) * 1e-6;
    const json timings = stream ? answer->events().back()["timings"] : answer->json()["timings"];
    EXPECT_NEAR(sum_of_parts(timings), timings["total_ms"], 0.01);
    EXPECT_LE(timings["total_ms"].get<double>(), wall_ms);
    EXPECT_GE(timings["total_ms"].get<double>(), wall_ms - 20);
    EXPECT_GE(timings["queue_ms"].get<double>(), 30);
    EXPECT_GE(timings["first_token_ms"].get<double>(), 40);
    EXPECT_EQ(answer->time_parts().size(), 6U) << "the client's part is the log's";
  }
}

// L02: tokens are counted as they are delivered, not when their answer ends.
TEST(Lifecycle, TokenCountersRiseDuringAnAnswer) {
  RouteFixture fixture(kScript);
  const auto answer =
      fixture.open("POST", "/v1/chat/completions",
                   R"({"model":"tiny","messages":[{"role":"user","content":"[slow]"}],"max_tokens":36,"stream":true})");
  auto count = [&](const std::string& name) {
    const std::string metrics = fixture.metrics();
    const std::string line = "\n" + name + "{model_name=\"tiny\"} ";
    const size_t at = metrics.find(line);
    return at == std::string::npos ? -1.0 : std::stod(metrics.substr(at + line.size()));
  };
  double seen = 0;
  for (int i = 0; i < 500 && seen == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    seen = count("vllm:generation_tokens_total");
  }
  EXPECT_GT(seen, 0);
  EXPECT_LT(seen, 36);
  EXPECT_GT(count("vernier_prompt_tokens_total"), 0);
  ASSERT_TRUE(answer->wait());
  EXPECT_EQ(count("vernier_generated_tokens_total"), 36);
}

}  // namespace
}  // namespace vernier
