#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "client/load_report.h"
#include "unit/client/fake_server.h"

namespace vernier {
namespace {

using ::testing::DoubleNear;
using testing::FakePeer;
using testing::FakeRequest;
using testing::FakeServer;
using ::testing::HasSubstr;

void stream_tokens(FakePeer& peer, int tokens, int first_ms, int gap_ms, bool usage = true) {
  peer.begin_chunks("Content-Type: text/event-stream\r\n");
  peer.chunk(": nothing yet\n\ndata: {\"choices\":[{\"index\":0,\"text\":\"\"}]}\n\n");
  for (int i = 0; i < tokens; ++i) {
    ::usleep(static_cast<useconds_t>(1000 * (i == 0 ? first_ms : gap_ms)));
    peer.chunk("data: {\"choices\":[{\"index\":0,\"text\":\"a\"}],\"usage\":null}\n\n");
  }
  if (usage) {
    peer.chunk(
        fmt::format("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":{},"
                    "\"total_tokens\":{},\"prompt_tokens_details\":{{\"cached_tokens\":4}}}}}}\n\n",
                    tokens, tokens + 10));
  }
  peer.chunk("data: [DONE]\n\n");
  peer.chunk("");
}

LoadSpec spec_for(const FakeServer& server) {
  LoadSpec spec;
  spec.url = server.url();
  spec.model = "m";
  spec.requests = 6;
  spec.warmup = 0;
  spec.limits = {.connect_s = 2, .silence_s = 2, .total_s = 5};
  return spec;
}

TEST(Load, MeasuresWhatTheServerDid) {
  FakeServer server([](const FakeRequest&, FakePeer& peer) { stream_tokens(peer, 5, 40, 10); });
  LoadSpec spec = spec_for(server);
  spec.concurrency = 3;
  spec.warmup = 2;
  const LoadSummary summary = summarize(run_load(spec, 1), {});
  EXPECT_EQ(summary.served, 6);
  EXPECT_EQ(server.requests(), 8);
  EXPECT_EQ(summary.prompt_tokens, 60);
  EXPECT_EQ(summary.cached_tokens, 24);
  EXPECT_EQ(summary.output_tokens, 30);
  // At least what the server slept, and not the empty event before it.
  EXPECT_GE(summary.ttft.p50_ms, 39);
  EXPECT_GE(summary.e2e.p50_ms, 79);
  // A first token that is read late takes from the others what it adds to its own.
  const double last_token_ms = summary.ttft.mean_ms + 4 * summary.tpot.mean_ms;
  EXPECT_GE(last_token_ms, 79);
  EXPECT_LE(last_token_ms, summary.e2e.mean_ms + 1e-6);
  EXPECT_NEAR(summary.tokens_per_event, 1, 1e-9);
  EXPECT_NEAR(summary.output_tokens_per_s, 30 / summary.seconds, 1e-6);
}

TEST(Load, SharesAPrefixAndKeepsThreeInFlight) {
  std::atomic<int> now{0}, most{0};
  std::mutex mutex;
  std::set<std::string> prompts;
  FakeServer server([&](const FakeRequest& request, FakePeer& peer) {
    const int running = ++now;
    for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
    }
    const auto body = nlohmann::json::parse(request.body);
    {
      const std::lock_guard lock(mutex);
      prompts.insert(body["prompt"].get<std::string>());
    }
    EXPECT_EQ(body["ignore_eos"], true);
    EXPECT_EQ(body["max_tokens"], 64);
    stream_tokens(peer, 1, 30, 0, /*usage=*/false);
    --now;
  });
  LoadSpec spec = spec_for(server);
  spec.concurrency = 3;
  spec.requests = 9;
  spec.shared_prefix_tokens = 20;
  spec.prompt_tokens = {4, 4};
  spec.extra = {{"ignore_eos", true}};
  const LoadSummary summary = summarize(run_load(spec, 5), {});
  EXPECT_EQ(summary.output_tokens, 9) << "without usage, events are counted";
  EXPECT_EQ(most, 3);
  ASSERT_EQ(prompts.size(), 9U) << "each request has a tail of its own";
  auto prefix = [](const std::string& prompt) {
    size_t end = 0;
    for (int i = 0; i < 20; ++i) end = prompt.find(' ', end) + 1;
    return prompt.substr(0, end);
  };
  for (const std::string& prompt : prompts) EXPECT_EQ(prefix(prompt), prefix(*prompts.begin()));
}

// CLIENT-5: the same spec and seed make the same requests at the same times.
TEST(Load, CLIENT_5_SeedsDecide) {
  LoadSpec spec;
  spec.requests = 4000;
  spec.arrival = ArrivalProcess::kPoisson;
  spec.requests_per_s = 20;
  spec.prompt_tokens = {10, 30};
  const std::vector<int64_t> times = arrival_times_ns(spec);
  EXPECT_EQ(times, arrival_times_ns(spec));
  EXPECT_EQ(load_body(spec, 3, 7), load_body(spec, 3, 7));
  EXPECT_NE(load_body(spec, 3, 7), load_body(spec, 3, 8));
  EXPECT_NE(load_body(spec, 4, 7), load_body(spec, 3, 7));
  // Gaps of a Poisson process: mean and standard deviation are both 1 / rate.
  double sum = 0, squares = 0;
  for (size_t i = 1; i < times.size(); ++i) {
    const double gap = static_cast<double>(times[i] - times[i - 1]) * 1e-9;
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / 3999;
  EXPECT_THAT(mean, DoubleNear(0.05, 0.003));
  EXPECT_THAT(std::sqrt(squares / 3999 - mean * mean), DoubleNear(0.05, 0.005));
  spec.seed = 2;
  EXPECT_NE(times, arrival_times_ns(spec));
  spec.arrival = ArrivalProcess::kConstant;
  EXPECT_EQ(arrival_times_ns(spec)[40], 2'000'000'000);
}

TEST(Load, AClockSendsWithoutWaitingForAnswers) {
  FakeServer server([](const FakeRequest&, FakePeer& peer) { stream_tokens(peer, 1, 300, 0); });
  LoadSpec spec = spec_for(server);
  spec.arrival = ArrivalProcess::kConstant;
  spec.requests_per_s = 50;
  spec.concurrency = 16;
  const LoadRun run = run_load(spec, 1);
  // Six requests are due within 100 ms; one after another they would take 1.8 s.
  EXPECT_LT(static_cast<double>(run.end_ns - run.start_ns) * 1e-9, 1.2);
  for (size_t i = 1; i < run.records.size(); ++i) {
    EXPECT_EQ(run.records[i].due_ns - run.records[i - 1].due_ns, 20'000'000);
  }
}

// CLIENT-6: a request that failed is counted by kind and never part of a latency or a rate.
TEST(Load, CLIENT_6_FaultsAreCountedByKind) {
  FakeServer server([](const FakeRequest& request, FakePeer& peer) {
    switch (request.number) {
      case 0:
        return peer.answer(429, R"({"error":{"message":"full"}})");
      case 1:
        peer.begin_chunks("");
        peer.chunk("data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n");
        return peer.hang_up();
      case 2:
        peer.begin_chunks("");
        peer.chunk("data: {\"error\":{\"message\":\"device\"}}\n\ndata: [DONE]\n\n");
        return peer.chunk("");
      case 3:
        peer.begin_chunks("");
        peer.chunk("data: {\"choices\":\n\ndata: [DONE]\n\n");
        return peer.chunk("");
      case 4:
        peer.begin_chunks("");
        peer.chunk("data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n");
        return peer.chunk("");
      case 5:
        peer.begin_chunks("");
        peer.chunk("data: {\"choices\":[5,{\"delta\":7}],\"usage\":{\"prompt_tokens_details\":3}}\n\ndata: [DONE]\n\n");
        return peer.chunk("");
      case 6:
        peer.gone(3000);
        return peer.hang_up();
      default:
        stream_tokens(peer, 3, 1, 1);
    }
  });
  LoadSpec spec = spec_for(server);
  spec.requests = 8;
  spec.limits.silence_s = 0.3;
  const LoadSummary summary = summarize(run_load(spec, 1), {});
  const std::map<std::string, int> wanted = {{"status 429", 1}, {"hang-up", 1}, {"error event", 1}, {"malformed", 1},
                                             {"no [DONE]", 1},  {"no text", 1}, {"timeout", 1}};
  EXPECT_EQ(summary.faults, wanted);
  EXPECT_THAT(summary.examples.at("status 429"), HasSubstr("full"));
  EXPECT_EQ(summary.served, 1);
  EXPECT_EQ(summary.output_tokens, 3);
  EXPECT_LT(summary.e2e.p99_ms, 250);
}

LoadRun two_requests() {
  LoadRun run;
  run.end_ns = 2'000'000'000;
  LoadRecord fast{.sent_ns = 1, .end_ns = 500'000'001, .text_ns = {100'000'001, 200'000'001, 400'000'001}};
  fast.output_tokens = 3;
  LoadRecord slow = fast;
  slow.text_ns = {300'000'001, 400'000'001, 1'300'000'001};
  run.records = {fast, slow};
  return run;
}

TEST(LoadReport, MeansWhatItSays) {
  const LoadSummary summary = summarize(two_requests(), {.ttft_ms = 200, .tpot_ms = 160});
  EXPECT_DOUBLE_EQ(summary.ttft.p50_ms, 100);
  EXPECT_DOUBLE_EQ(summary.ttft.p99_ms, 300);
  EXPECT_DOUBLE_EQ(summary.tpot.p50_ms, 150);
  EXPECT_DOUBLE_EQ(summary.tpot.p99_ms, 500);
  EXPECT_DOUBLE_EQ(summary.itl.p50_ms, 100);
  EXPECT_DOUBLE_EQ(summary.itl.mean_ms, 325);
  EXPECT_DOUBLE_EQ(summary.output_tokens_per_s, 3);
  EXPECT_DOUBLE_EQ(summary.requests_per_s, 1);
  EXPECT_DOUBLE_EQ(summary.good_requests_per_s, 0.5);
  EXPECT_DOUBLE_EQ(summarize(two_requests(), {.ttft_ms = 50}).good_requests_per_s, 0);
  EXPECT_DOUBLE_EQ(summarize(two_requests(), {}).good_requests_per_s, 1);
}

TEST(LoadReport, PercentilesByNearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const LatencySpread spread = spread_of(values);
  EXPECT_DOUBLE_EQ(spread.p50_ms, 50);
  EXPECT_DOUBLE_EQ(spread.p90_ms, 90);
  EXPECT_DOUBLE_EQ(spread.p99_ms, 99);
  EXPECT_DOUBLE_EQ(spread_of({7}).p99_ms, 7);
  EXPECT_DOUBLE_EQ(spread_of({}).p99_ms, 0);
}

TEST(LoadReport, DrawsEveryLevel) {
  std::vector<LoadLevel> levels;
  for (double value : {1.0, 4.0, 16.0}) levels.push_back({value, {summarize(two_requests(), {})}});
  const std::string picture = draw_sweep(levels, "a <model> & more", "concurrency");
  EXPECT_THAT(picture, HasSubstr("a &lt;model&gt; &amp; more"));
  EXPECT_THAT(picture, HasSubstr(">16</text>"));
  size_t lines = 0;
  for (size_t at = picture.find("<polyline"); at != std::string::npos; at = picture.find("<polyline", at + 1)) ++lines;
  EXPECT_EQ(lines, 7U);
  EXPECT_EQ(picture.find("nan"), std::string::npos);
  EXPECT_THAT(draw_sweep({{{1, {LoadSummary{}}}}}, "nothing was served", "concurrency"), HasSubstr("</svg>"));
}

TEST(LoadSpec, ReadsLengths) {
  EXPECT_EQ(parse_length_range("64:256")->most, 256);
  EXPECT_EQ(parse_length_range("64")->most, 64);
  for (const char* bad : {"", "a", "5:", ":5", "9:5", "-1", "1:2:3"}) EXPECT_FALSE(parse_length_range(bad).ok()) << bad;
}

}  // namespace
}  // namespace vernier
