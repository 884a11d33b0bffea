#include "engine/sequence_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "api/loaded_model.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<LoadedModel> tiny(const std::string& name) {
  LoadOptions options;
  options.backend.name = "reference";
  auto model = LoadedModel::load(std::string(VERNIER_TEST_DATA "/models/") + name, options);
  EXPECT_TRUE(model.ok()) << model.error().to_string();
  return std::move(model).value();
}

std::unique_ptr<SequenceRunner> runner_of(const LoadedModel& model, const RunnerOptions& options) {
  auto runner = SequenceRunner::make(model.backend(), model.decoder(), options);
  EXPECT_TRUE(runner.ok()) << runner.error().to_string();
  return std::move(runner).value();
}

std::vector<int32_t> tokens_of(size_t count) {
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>((i * 37 + 11) % 320);
  return tokens;
}

std::vector<float> logits_of(SequenceRunner& runner, std::span<const int32_t> tokens) {
  std::vector<float> logits;
  Status fed = runner.feed_for_logits(
      tokens, [&](std::span<const float> rows) { logits.insert(logits.end(), rows.begin(), rows.end()); });
  EXPECT_TRUE(fed.ok()) << fed.error().to_string();
  return logits;
}

SampleSpec greedy() {
  SampleSpec spec;
  spec.temperature = 0;
  return spec;
}

// ENGINE-1: the position moves only after the device succeeded, and `reset` makes a failed runner whole again.
TEST(SequenceRunner, AFailedStepMovesNothing) {
  auto model = tiny("gemma3");
  const std::vector<int32_t> tokens = tokens_of(20);
  auto untouched = runner_of(*model, {.kv_type = CodecId::kF32, .context_tokens = 64, .chunk_rows = 8});
  const int32_t expected = untouched->feed_and_sample(tokens, greedy()).value().token;
  EXPECT_EQ(untouched->position(), 20);

  auto runner = runner_of(*model, {.kv_type = CodecId::kF32, .context_tokens = 64, .chunk_rows = 8});
  SampleSpec none = greedy();
  for (int32_t token = 0; token < 320; ++token) {
    none.edits.push_back({.token = token, .bias = -std::numeric_limits<float>::infinity()});
  }
  ASSERT_FALSE(runner->feed_and_sample(tokens, none).ok());
  EXPECT_EQ(runner->position(), 16) << "two whole chunks succeeded, the third did not";
  runner->reset();
  EXPECT_EQ(runner->position(), 0);
  EXPECT_EQ(runner->feed_and_sample(tokens, greedy()).value().token, expected);
}

// ENGINE-2: however a prompt is cut, its logits are the same.
TEST(SequenceRunner, ChunksChangeNoLogit) {
  for (const char* name : {"llama", "gemma3"}) {
    auto model = tiny(name);
    const std::vector<int32_t> tokens = tokens_of(33);
    auto whole = runner_of(*model, {.kv_type = CodecId::kF32, .context_tokens = 64, .chunk_rows = 64});
    const std::vector<float> expected = logits_of(*whole, tokens);
    ASSERT_EQ(expected.size(), 33u * 320u);
    for (int32_t chunk : {1, 5, 32}) {
      auto cut =
          runner_of(*model, {.kv_type = CodecId::kF32, .context_tokens = 64, .chunk_rows = chunk, .block_tokens = 4});
      const std::vector<float> found = logits_of(*cut, tokens);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], 1e-4 * std::max(1.0f, std::abs(expected[i]))) << name << " chunk " << chunk;
      }
    }
  }
}

// ENGINE-3: what a longer context adds is the cache of the layers without a window, and nothing of the others.
TEST(SequenceRunner, WindowLayersHoldTheirWindowOnly) {
  auto model = tiny("gemma3");
  RunnerOptions options{.kv_type = CodecId::kF32, .context_tokens = 64, .chunk_rows = 4, .block_tokens = 4};
  auto short_runner = runner_of(*model, options);
  options.context_tokens = 120;
  auto long_runner = runner_of(*model, options);
  int64_t full_bytes = 0, window_layers = 0;
  for (const CacheSpec& layer : cache_specs(model->decoder().spec(), CodecId::kF32)) {
    if (layer.window) {
      ++window_layers;
    } else {
      full_bytes += layer.bytes_per_token();
    }
  }
  ASSERT_GT(window_layers, 0);
  EXPECT_EQ(long_runner->cache_bytes() - short_runner->cache_bytes(), 56 * full_bytes);
  // And that is enough to feed the whole context.
  EXPECT_TRUE(long_runner->feed(tokens_of(120)).ok());
}

// ENGINE-5
TEST(SequenceRunner, APromptThatDoesNotFitIsRefusedWithBothNumbers) {
  auto model = tiny("llama");
  auto runner = runner_of(*model, {.context_tokens = 24, .chunk_rows = 8});
  Status fed = runner->feed(tokens_of(25));
  ASSERT_FALSE(fed.ok());
  EXPECT_THAT(fed.error().message, AllOf(HasSubstr("25"), HasSubstr("24")));
  EXPECT_EQ(runner->position(), 0);
  EXPECT_TRUE(runner->feed(tokens_of(24)).ok());
  EXPECT_FALSE(runner->feed(tokens_of(1)).ok());
}

TEST(SequenceRunner, OptionsAndTokensAreChecked) {
  auto model = tiny("llama");
  auto made = [&](const RunnerOptions& options) {
    return SequenceRunner::make(model->backend(), model->decoder(), options).ok();
  };
  EXPECT_FALSE(made({.context_tokens = 0}));
  EXPECT_FALSE(made({.context_tokens = std::numeric_limits<int32_t>::max()}));
  EXPECT_FALSE(made({.context_tokens = 24, .chunk_rows = 0}));
  auto runner = runner_of(*model, {.context_tokens = 24, .chunk_rows = 8});
  EXPECT_FALSE(runner->feed(std::vector<int32_t>{320}).ok());
  EXPECT_FALSE(runner->feed(std::vector<int32_t>{-1}).ok());
  EXPECT_FALSE(runner->feed_and_sample({}, greedy()).ok());
}

}  // namespace
}  // namespace vernier
