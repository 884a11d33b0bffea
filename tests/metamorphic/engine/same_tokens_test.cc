#include <gtest/gtest.h>

#include <cmath>

#include "engine/decoder_step_runner.h"
#include "engine/engine.h"
#include "engine/sequence_runner.h"
#include "testing/backends.h"
#include "testing/gathering_sink.h"
#include "testing/golden_model.h"

// ENGINE-6: the same prompts give the same greedy tokens alone, batched, chunked, preempted, from cache and in another
// order.

namespace vernier {
namespace {

using testing::GatheringSink;

constexpr int32_t kAnswer = 24;

struct Model {
  std::unique_ptr<Backend> backend;
  std::optional<Decoder> decoder;
};

Model load(const std::string& name) {
  Model model;
  model.backend = testing::BackendCase{"cpu_exact", Numerics::kExact, 2}.make().value();
  model.decoder.emplace(
      testing::load_decoder(std::string(VERNIER_TEST_DATA "/models/") + name, *model.backend).value());
  return model;
}

std::unique_ptr<Engine> start(Model& model, const EngineOptions& options) {
  auto runner = std::make_unique<DecoderStepRunner>(*model.backend, *model.decoder,
                                                    cache_specs(model.decoder->spec(), CodecId::kF32));
  return Engine::start(std::move(runner), options).value();
}

Request greedy(std::vector<int32_t> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = kAnswer;
  request.sampling.temperature = 0;
  request.top_logprobs = 0;
  return request;
}

/// Prompts of many lengths, some of which begin alike.
std::vector<std::vector<int32_t>> prompts(int32_t vocab) {
  std::vector<std::vector<int32_t>> all;
  for (int i = 0; i < 8; ++i) {
    std::vector<int32_t> prompt;
    for (int t = 0; t < 10 + 9 * i; ++t) prompt.push_back((t < 40 ? 5 * t + 3 : 7 * t + i) % vocab);
    all.push_back(std::move(prompt));
  }
  return all;
}

std::vector<std::shared_ptr<GatheringSink>> run(Engine& engine, const std::vector<std::vector<int32_t>>& asked) {
  std::vector<std::shared_ptr<GatheringSink>> sinks;
  for (const auto& prompt : asked) {
    sinks.push_back(std::make_shared<GatheringSink>());
    EXPECT_TRUE(engine.submit(greedy(prompt), sinks.back()).ok());
  }
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->wait_end());
    EXPECT_FALSE(sink->failed()) << sink->failed()->to_string();
  }
  return sinks;
}

void expect_same(const std::vector<std::shared_ptr<GatheringSink>>& found,
                 const std::vector<std::shared_ptr<GatheringSink>>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i]->tokens(), expected[i]->tokens()) << "prompt " << i;
    for (size_t t = 0; t < std::min(found[i]->sampled().size(), expected[i]->sampled().size()); ++t) {
      EXPECT_NEAR(found[i]->sampled()[t].logprob, expected[i]->sampled()[t].logprob, 1e-3) << i << " " << t;
    }
  }
}

class SameTokens : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    model_ = load(GetParam());
    asked_ = prompts(static_cast<int32_t>(model_.decoder->spec().vocab));
    for (const auto& prompt : asked_) {
      // Each alone, in an engine of its own.
      auto engine = start(model_, {.context_tokens = 128, .max_sequences = 1, .prefix_cache = false});
      alone_.push_back(run(*engine, {prompt}).front());
      EXPECT_EQ(alone_.back()->tokens().size(), static_cast<size_t>(kAnswer));
    }
  }

  Model model_;
  std::vector<std::vector<int32_t>> asked_;
  std::vector<std::shared_ptr<GatheringSink>> alone_;
};

TEST_P(SameTokens, BatchedAndChunked) {
  for (int32_t rows : {16, 33, 512}) {
    auto engine = start(model_, {.context_tokens = 128, .max_sequences = 8, .max_step_rows = rows, .block_tokens = 16});
    expect_same(run(*engine, asked_), alone_);
    EXPECT_EQ(engine->stats().cache[0].held_blocks, 0);
  }
}

TEST_P(SameTokens, FromTheCache) {
  auto engine = start(model_, {.context_tokens = 128, .max_sequences = 4, .block_tokens = 8});
  expect_same(run(*engine, asked_), alone_);
  auto again = run(*engine, asked_);
  expect_same(again, alone_);
  EXPECT_GT(again.back()->finished()->cached_tokens, 0);
  engine->flush_cache();
  again = run(*engine, {asked_.back()});
  EXPECT_EQ(again.front()->finished()->cached_tokens, 0);
}

TEST_P(SameTokens, Preempted) {
  // Blocks for about two and a half of the longest: the rest of them is taken away now and then.
  int64_t token_bytes = 0;
  bool full_layers = false;
  for (const CacheSpec& layer : cache_specs(model_.decoder->spec(), CodecId::kF32)) {
    token_bytes += layer.bytes_per_token();
    full_layers = full_layers || !layer.window;
  }
  auto engine =
      start(model_, {.context_tokens = 128, .max_sequences = 8, .cache_bytes = 256 * token_bytes, .block_tokens = 8});
  // How many run at once depends on when the threads are given a processor.
  for (int round = 0; round < (full_layers ? 50 : 1) && engine->stats().preemptions == 0; ++round) {
    engine->flush_cache();
    expect_same(run(*engine, asked_), alone_);
  }
  if (full_layers) {
    EXPECT_GT(engine->stats().preemptions, 0) << "this test needs a smaller cache";
  }
}

TEST_P(SameTokens, InAnotherOrder) {
  auto engine = start(model_, {.context_tokens = 128, .max_sequences = 3, .max_step_rows = 48, .block_tokens = 8});
  std::vector<std::vector<int32_t>> reversed(asked_.rbegin(), asked_.rend());
  auto found = run(*engine, reversed);
  std::reverse(found.begin(), found.end());
  expect_same(found, alone_);
}

TEST_P(SameTokens, PromptLogprobsAreThoseOfTheLogits) {
  const std::vector<int32_t>& prompt = asked_.back();
  auto runner =
      SequenceRunner::make(*model_.backend, *model_.decoder, {.kv_type = CodecId::kF32, .context_tokens = 128});
  std::vector<float> logits;
  ASSERT_TRUE(
      (*runner)
          ->feed_for_logits(prompt,
                            [&](std::span<const float> rows) { logits.insert(logits.end(), rows.begin(), rows.end()); })
          .ok());
  auto engine = start(model_, {.context_tokens = 128, .max_sequences = 2, .max_step_rows = 32, .block_tokens = 8});
  run(*engine, asked_);  // the prompt is in the cache, and is computed all the same
  Request request = greedy(prompt);
  request.prompt_logprobs = 2;
  request.max_tokens = 0;
  auto sink = std::make_shared<GatheringSink>();
  ASSERT_TRUE(engine->submit(request, sink).ok());
  ASSERT_TRUE(sink->wait_end());
  ASSERT_EQ(sink->prompt().size(), prompt.size() - 1);
  EXPECT_TRUE(sink->tokens().empty());
  const auto vocab = static_cast<size_t>(model_.decoder->spec().vocab);
  for (size_t i = 0; i + 1 < prompt.size(); ++i) {
    std::span<const float> row = std::span<const float>(logits).subspan(i * vocab, vocab);
    double sum = 0;
    for (float logit : row) sum += std::exp(static_cast<double>(logit));
    EXPECT_EQ(sink->prompt()[i].token, prompt[i + 1]);
    EXPECT_NEAR(sink->prompt()[i].logprob, row[static_cast<size_t>(prompt[i + 1])] - std::log(sum), 1e-3);
    EXPECT_EQ(sink->prompt()[i].top.size(), 2u);
  }
}

TEST_P(SameTokens, EmbeddingsDoNotDependOnTheCut) {
  for (RequestKind kind : {RequestKind::kEmbedLast, RequestKind::kEmbedMean}) {
    std::vector<float> first;
    for (int32_t rows : {512, 24}) {
      auto engine =
          start(model_, {.context_tokens = 128, .max_sequences = 4, .max_step_rows = rows, .block_tokens = 8});
      auto sink = std::make_shared<GatheringSink>();
      Request request = greedy(asked_.back());
      request.kind = kind;
      ASSERT_TRUE(engine->submit(request, sink).ok());
      auto others = run(*engine, asked_);
      ASSERT_TRUE(sink->wait_end());
      ASSERT_EQ(sink->embedding().size(), static_cast<size_t>(model_.decoder->spec().hidden));
      if (first.empty()) first = sink->embedding();
      for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(sink->embedding()[i], first[i], 1e-3) << i;
      EXPECT_NE(first[0], 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, SameTokens,
                         ::testing::Values("llama", "gemma2", "gemma3", "gpt-oss", "mistral", "qwen3-moe",
                                           "longcat-flash"),
                         [](const auto& info) { return testing::test_name(info.param); });

}  // namespace
}  // namespace vernier
