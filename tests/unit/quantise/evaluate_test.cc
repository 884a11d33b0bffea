#include "audit/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/ref_backend.h"
#include "testing/golden_model.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

const std::string kData = VERNIER_TEST_DATA "/models/";

struct Model {
  explicit Model(const std::string& name) : decoder(testing::load_decoder(kData + name, backend).value()) {
    runner = SequenceRunner::make(backend, decoder, {.kv_type = CodecId::kF32, .context_tokens = 128}).value();
  }
  RefBackend backend;
  Decoder decoder;
  std::unique_ptr<SequenceRunner> runner;
};

std::vector<int32_t> some_tokens(int count) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((i * 37 + i * i) % 300 + 3);
  return tokens;
}

/// Straight from the definition: logits of the whole window at once.
std::vector<std::vector<double>> log_probabilities(Model& model, std::span<const int32_t> window) {
  std::vector<float> logits;
  model.runner->reset();
  CHECK(model.runner
            ->feed_for_logits(
                window, [&](std::span<const float> rows) { logits.insert(logits.end(), rows.begin(), rows.end()); })
            .ok(),
        "feeds");
  const auto vocab = static_cast<size_t>(model.decoder.spec().vocab);
  std::vector<std::vector<double>> all;
  for (size_t row = 0; row < window.size(); ++row) {
    std::vector<double> of_row(logits.begin() + static_cast<std::ptrdiff_t>(row * vocab),
                               logits.begin() + static_cast<std::ptrdiff_t>((row + 1) * vocab));
    double sum = 0;
    for (double logit : of_row) sum += std::exp(logit);
    for (double& logit : of_row) logit -= std::log(sum);
    all.push_back(std::move(of_row));
  }
  return all;
}

// Windows stand alone and their second halves are scored.
TEST(EvaluateTest, PerplexityIsThatOfTheDefinition) {
  Model model("llama");
  const std::vector<int32_t> tokens = some_tokens(70);
  double sum = 0;
  int64_t count = 0;
  for (size_t begin : {0, 31}) {
    std::vector<int32_t> window = {1};
    window.insert(window.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                  tokens.begin() + static_cast<std::ptrdiff_t>(begin) + 31);
    const auto rows = log_probabilities(model, window);
    for (size_t row = 16; row + 1 < window.size(); ++row, ++count)
      sum -= rows[row][static_cast<size_t>(window[row + 1])];
  }
  const auto found = measure_perplexity(*model.runner, tokens, {.window = 32, .prefix = {1}, .on_progress = {}});
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(found->scored, count);
  EXPECT_NEAR(found->nll, sum / static_cast<double>(count), 1e-6);
  EXPECT_NEAR(found->perplexity, std::exp(found->nll), 1e-9);
}

TEST(EvaluateTest, AModelIsNowhereFromItself) {
  Model a("llama"), b("llama");
  const auto found =
      measure_divergence(*a.runner, *b.runner, some_tokens(100), {.window = 50, .prefix = {}, .on_progress = {}});
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(found->largest, 0);
  EXPECT_EQ(found->top1_agreement, 1);
  EXPECT_EQ(found->rms_delta_p, 0);
  EXPECT_EQ(found->a.nll, found->b.nll);
}

// AUDIT-3, of A relative to B: the other way round is another number.
TEST(EvaluateTest, DivergenceIsThatOfTheDefinition) {
  Model a("llama"), b("llama-tied");
  const std::vector<int32_t> tokens = some_tokens(20);
  const auto of_a = log_probabilities(a, tokens), of_b = log_probabilities(b, tokens);
  std::vector<double> kl, reverse;
  int agreed = 0;
  for (size_t row = 0; row + 1 < tokens.size(); ++row) {
    double one = 0, other = 0;
    for (size_t i = 0; i < of_a[row].size(); ++i) {
      one += std::exp(of_a[row][i]) * (of_a[row][i] - of_b[row][i]);
      other += std::exp(of_b[row][i]) * (of_b[row][i] - of_a[row][i]);
    }
    kl.push_back(one);
    reverse.push_back(other);
    agreed += std::ranges::max_element(of_a[row]) - of_a[row].begin() ==
              std::ranges::max_element(of_b[row]) - of_b[row].begin();
  }
  const auto found = measure_divergence(*a.runner, *b.runner, tokens, {.window = 64, .prefix = {}, .on_progress = {}});
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  double mean = 0, mean_reverse = 0;
  for (double value : kl) mean += value / static_cast<double>(kl.size());
  for (double value : reverse) mean_reverse += value / static_cast<double>(kl.size());
  std::ranges::sort(kl);
  EXPECT_NEAR(found->mean, mean, 1e-6);
  EXPECT_GT(std::fabs(mean - mean_reverse), 1e-4);
  EXPECT_NEAR(found->median, kl[9], 1e-6);  // the 10th of 19
  EXPECT_NEAR(found->p99, kl[18], 1e-6);
  EXPECT_NEAR(found->largest, kl[18], 1e-6);
  EXPECT_NEAR(found->top1_agreement, agreed / 19.0, 1e-12);
}

TEST(EvaluateTest, TooShortATextIsRefused) {
  Model model("llama");
  const auto found = measure_perplexity(*model.runner, some_tokens(1), {});
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().message, HasSubstr("at least 2"));
}

TEST(EvaluateTest, TheBuiltInTextIsText) {
  EXPECT_GT(built_in_text().size(), 60000u);
  EXPECT_THAT(std::string(built_in_text().substr(0, 2000)), HasSubstr("hacker"));
}

}  // namespace
}  // namespace vernier
