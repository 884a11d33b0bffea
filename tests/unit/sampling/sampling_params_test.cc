#include "sampling/sampling_params.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace vernier {
namespace {

const LogitEdit* find(const SampleSpec& spec, int32_t token) {
  auto it = std::ranges::find(spec.edits, token, &LogitEdit::token);
  return it == spec.edits.end() ? nullptr : &*it;
}

bool equal(const LogitEdit& a, const LogitEdit& b) {
  return a.token == b.token && a.bias == b.bias && a.repetition == b.repetition && a.penalty == b.penalty;
}

// SAMPLING-1: what another request generates beside this one changes nothing.
TEST(TokenHistory, ASpecDependsOnItsOwnTokensAlone) {
  const std::vector<int32_t> prompt = {3, 5}, other_prompt = {5, 5, 9};
  SamplingParams params{.repetition_penalty = 1.3F, .frequency_penalty = 0.6F, .logit_bias = {{7, 1.7F}}, .seed = 42};
  TokenHistory alone(prompt), beside(prompt), other(other_prompt);
  for (int32_t token : {5, 7, 3}) {
    alone.append(token);
    beside.append(token);
    other.append(token + 1);
    (void)other.next_spec(params, 1);
    const SampleSpec expected = alone.next_spec(params, 0), found = beside.next_spec(params, 0);
    EXPECT_EQ(found.seed, expected.seed);
    EXPECT_EQ(found.position, expected.position);
    EXPECT_TRUE(std::ranges::equal(found.edits, expected.edits, equal));
  }
}

// SAMPLING-2
TEST(TokenHistory, OpenAIPenaltiesSeeTheOutputAndRepetitionThePromptToo) {
  const std::vector<int32_t> prompt = {3, 3, 5};
  TokenHistory history(prompt);
  history.append(5);
  history.append(5);
  history.append(7);
  SamplingParams params{.repetition_penalty = 1.3F, .frequency_penalty = 0.6F, .presence_penalty = 0.3F};
  SampleSpec spec = history.next_spec(params, 0);
  EXPECT_EQ(spec.position, 3U);
  EXPECT_EQ(spec.edits.size(), 3U);
  EXPECT_FLOAT_EQ(find(spec, 3)->penalty, 0);
  EXPECT_FLOAT_EQ(find(spec, 3)->repetition, 1.3F);
  EXPECT_FLOAT_EQ(find(spec, 5)->penalty, 2 * 0.6F + 0.3F);
  EXPECT_FLOAT_EQ(find(spec, 7)->penalty, 0.6F + 0.3F);
}

// SAMPLING-2
TEST(TokenHistory, LlamaPenaltiesSeeTheLast64TokensWithThePrompt) {
  std::vector<int32_t> prompt(70, 1);
  prompt.back() = 2;
  TokenHistory history(prompt);
  for (int i = 0; i < 62; ++i) history.append(9);
  SamplingParams params{.frequency_penalty = 0.5F, .dialect = SamplerDialect::kLlama};
  SampleSpec spec = history.next_spec(params, 0);
  ASSERT_NE(find(spec, 1), nullptr);
  EXPECT_FLOAT_EQ(find(spec, 1)->penalty, 0.5F);
  EXPECT_FLOAT_EQ(find(spec, 2)->penalty, 0.5F);
  EXPECT_FLOAT_EQ(find(spec, 9)->penalty, 62 * 0.5F);
  history.append(9);
  EXPECT_EQ(find(history.next_spec(params, 0), 1), nullptr);
}

// SAMPLING-3
TEST(TokenHistory, FurtherChoicesHaveSeedsOfTheirOwn) {
  TokenHistory history({});
  SamplingParams params{.seed = 42};
  EXPECT_EQ(history.next_spec(params, 0).seed, 42U);
  EXPECT_NE(history.next_spec(params, 1).seed, history.next_spec(params, 2).seed);
  EXPECT_EQ(choice_seed(1, 1), 0U);  // fmix64(0) = 0: the bijection's fixed point
}

TEST(TokenHistory, BansTheLastTokenOfASequenceWhereTheAnswerHasTheOthers) {
  const std::vector<int32_t> prompt = {1, 2};
  TokenHistory history(prompt);
  SamplingParams params{.banned_sequences = {{7}, {1, 2, 3}}};
  EXPECT_LT(find(history.next_spec(params, 0), 7)->bias, -1e30F);
  EXPECT_EQ(find(history.next_spec(params, 0), 3), nullptr) << "1, 2 stand in the prompt, not in the answer";
  history.append(1);
  history.append(2);
  EXPECT_LT(find(history.next_spec(params, 0), 3)->bias, -1e30F);
}

TEST(SamplingParams, AllowOnlySetsTheBitsOfItsTokens) {
  EXPECT_EQ(allow_only(std::vector<int32_t>{0, 33}, 40), (std::vector<uint32_t>{1, 2}));
}

// SAMPLING-4
TEST(SamplingParams, OutOfRangeFieldsAreNamed) {
  SamplingParams params{.top_p = 7};
  EXPECT_NE(params.check(10).error().message.find("top_p"), std::string::npos);
  params = {.temperature = -1};
  EXPECT_NE(params.check(10).error().message.find("temperature"), std::string::npos);
  params = {.logit_bias = {{10, 1.0F}}};
  EXPECT_NE(params.check(10).error().message.find("token 10"), std::string::npos);
  EXPECT_TRUE(SamplingParams{}.check(10).ok());
}

// No share at all is the smallest share, on every surface: one token. A number that is none as a float is the same.
TEST(SamplingParams, NoShareKeepsOneToken) {
  for (double share : {0.0, 1e-300}) {
    const SamplingParams params{.top_k = 5, .top_p = static_cast<float>(share)};
    EXPECT_TRUE(params.check(10).ok());
    const SampleSpec spec = TokenHistory({}).next_spec(params, 0);
    EXPECT_EQ(spec.top_k, 1);
    EXPECT_EQ(spec.top_p, 1);
  }
}

TEST(SamplerDialect, UnknownNamesAreRefusedWithTheList) {
  EXPECT_EQ(parse_sampler_dialect("llama").value(), SamplerDialect::kLlama);
  EXPECT_NE(parse_sampler_dialect("gpt").error().message.find("openai, sglang, llama or mlx"), std::string::npos);
}

}  // namespace
}  // namespace vernier
