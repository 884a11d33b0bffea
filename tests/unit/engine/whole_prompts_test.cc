#include <gtest/gtest.h>

#include <mutex>

#include "engine/engine.h"
#include "testing/gathering_sink.h"

namespace vernier {
namespace {

using testing::GatheringSink;

/// A model whose rows see each other: the state of a row is its token and how many rows its sequence has in the step.
class WholePromptRunner : public StepRunner {
 public:
  explicit WholePromptRunner(std::vector<std::vector<SequenceRows>>& steps) : steps_(steps) {
    shape_ = {1000, 2, 64, {CacheSpec()}, true};
  }
  const ModelShape& shape() const override { return shape_; }
  Status prepare(std::span<const int32_t>, int32_t, int32_t) override { return {}; }
  Result<StepOutput> run(const StepInput& step) override {
    steps_.emplace_back(step.view.sequences.begin(), step.view.sequences.end());
    StepOutput output;
    for (const SequenceRows& rows : step.view.sequences) {
      for (int32_t row = 0; row < rows.rows; ++row) {
        output.hidden.push_back(static_cast<float>(step.view.tokens[static_cast<size_t>(rows.first_row + row)]));
        output.hidden.push_back(static_cast<float>(rows.rows));
      }
    }
    return output;
  }

 private:
  ModelShape shape_;
  std::vector<std::vector<SequenceRows>>& steps_;
};

// ENGINE-12: whatever the budget of a step, each prompt is in one step from its first token to its last, the longest
// that the context takes too; short ones share a step.
TEST(Engine, PromptsWhoseRowsSeeEachOtherAreNeverCut) {
  std::vector<std::vector<SequenceRows>> steps;
  std::vector<std::shared_ptr<GatheringSink>> sinks;
  std::vector<int32_t> lengths;
  {
    EngineOptions options;
    options.max_sequences = 8;
    options.max_step_rows = 8;  // too few for the longest prompt beside the others: more are taken
    auto engine = Engine::start(std::make_unique<WholePromptRunner>(steps), options);
    ASSERT_TRUE(engine.ok()) << engine.error().to_string();
    EXPECT_EQ((*engine)->options().context_tokens, 64);
    EXPECT_EQ((*engine)->options().max_step_rows, 71);
    for (int32_t i = 0; i < 40; ++i) {
      Request request;
      request.kind = i % 2 == 0 ? RequestKind::kEmbedMean : RequestKind::kEmbedFirst;
      const int32_t length = i % 5 == 0 ? 64 : 1 + i * 7 % 33;
      for (int32_t t = 0; t < length; ++t) request.prompt.push_back(t + i);
      request.max_tokens = 0;
      lengths.push_back(length);
      sinks.push_back(std::make_shared<GatheringSink>());
      ASSERT_TRUE((*engine)->submit(std::move(request), sinks.back()).ok());
    }
    for (auto& sink : sinks) ASSERT_TRUE(sink->wait_end());
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    ASSERT_TRUE(sinks[i]->finished());
    const auto length = static_cast<float>(lengths[i]);
    const auto first = static_cast<float>(i);
    const std::vector<float> embedding = sinks[i]->embedding();
    ASSERT_EQ(embedding.size(), 2u);
    EXPECT_NEAR(embedding[0], i % 2 == 0 ? first + (length - 1) / 2 : first, 1e-3);
    EXPECT_NEAR(embedding[1], length, 1e-3);
  }
  size_t most = 0;
  for (const auto& step : steps) {
    most = std::max(most, step.size());
    for (const SequenceRows& rows : step) EXPECT_EQ(rows.first_position, 0);
  }
  EXPECT_GT(most, 1u);
}

}  // namespace
}  // namespace vernier
