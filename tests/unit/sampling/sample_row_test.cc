#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "ops/sample_spec.h"

namespace vernier {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr SamplerDialect kDialects[] = {SamplerDialect::kOpenAI, SamplerDialect::kSglang, SamplerDialect::kLlama,
                                        SamplerDialect::kMlx};

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)) + 1.7F);
  return logits;
}

/// Every token that any of many seeds draws.
std::set<int32_t> support(const std::vector<float>& logits, SampleSpec spec) {
  std::set<int32_t> drawn;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::vector<float> row = logits;
    spec.seed = seed;
    drawn.insert(sample_row(row, spec).value().token);
  }
  return drawn;
}

TEST(SampleNoise, HashAndGumbelEqualTheReferenceVectors) {
  struct Vector {
    uint64_t seed;
    uint32_t position, token, hash;
    double gumbel;
  };
  const Vector vectors[] = {{42, 0, 0, 0x6f610fe4, 0.183638},
                            {42, 0, 1, 0x6ac7e06f, 0.134218},
                            {42, 7, 1, 0x860d65ec, 0.435491},
                            {42, 7, 151643, 0x3ec3cae3, -0.340594},
                            {1234567890123, 100, 5, 0x2cd31909, -0.555275},
                            {~0ULL, 3, 2, 0xda9a5c1b, 1.845665},
                            {0, 0, 0, 0x8134cdf8, 0.380138}};
  for (const Vector& v : vectors) {
    EXPECT_EQ(noise_hash(v.seed, v.position, v.token), v.hash);
    EXPECT_NEAR(gumbel_noise(v.seed, v.position, v.token), v.gumbel, 2e-6);
  }
}

TEST(SampleNoise, PolynomialsAgreeWithTheLibraryToAFewUlps) {
  for (int i = 0; i < 200000; ++i) {
    float x = -87.0F * static_cast<float>(i) / 200000;
    EXPECT_NEAR(portable_exp(x) / std::exp(static_cast<double>(x)), 1.0, 3e-7) << x;
    float u = std::ldexp(1.0F + static_cast<float>(i) / 200000, -(i % 33));
    double expected = std::log(static_cast<double>(u));
    EXPECT_NEAR(portable_log(u), expected, 3e-7 * std::max(1.0, std::abs(expected))) << u;
  }
  EXPECT_EQ(portable_exp(-kInfinity), 0.0F);
}

TEST(SampleRow, CutsOfEachDialectKeepWhatItsOrderKeeps) {
  const auto logits = logits_of({0.4, 0.3, 0.2, 0.1});
  SampleSpec joint{.temperature = 1, .top_k = 2, .top_p = 0.5F, .dialect = SamplerDialect::kSglang};
  EXPECT_EQ(support(logits, joint), (std::set<int32_t>{0, 1}));
  SampleSpec sequential = joint;
  sequential.dialect = SamplerDialect::kOpenAI;
  EXPECT_EQ(support(logits, sequential), (std::set<int32_t>{0}));
  SampleSpec cut_then_temperature{.temperature = 0.5F, .top_p = 0.5F, .dialect = SamplerDialect::kLlama};
  EXPECT_EQ(support(logits, cut_then_temperature), (std::set<int32_t>{0, 1}));
  SampleSpec temperature_then_cut = cut_then_temperature;
  temperature_then_cut.dialect = SamplerDialect::kOpenAI;
  EXPECT_EQ(support(logits, temperature_then_cut), (std::set<int32_t>{0}));
  // p before k: the mass 0.7 of {0, 1} is reached first, then k = 3 cuts nothing; k first keeps 0.4/0.9 + 0.3/0.9 >
  // 0.7.
  SampleSpec p_first{.temperature = 1, .top_k = 3, .top_p = 0.75F, .dialect = SamplerDialect::kMlx};
  EXPECT_EQ(support(logits, p_first), (std::set<int32_t>{0, 1, 2}));
  p_first.dialect = SamplerDialect::kOpenAI;
  EXPECT_EQ(support(logits, p_first), (std::set<int32_t>{0, 1}));
}

TEST(SampleRow, MinPDropsWhatIsBelowItsShareOfTheBest) {
  const auto logits = logits_of({0.5, 0.26, 0.14, 0.1});
  SampleSpec spec{.temperature = 1, .min_p = 0.3F};
  EXPECT_EQ(support(logits, spec), (std::set<int32_t>{0, 1}));
}

TEST(SampleRow, FrequenciesFollowTheDistribution) {
  const std::vector<double> p = {0.35, 0.05, 0.3, 0.2, 0.1};
  const auto logits = logits_of(p);
  std::vector<int> counts(p.size());
  const int draws = 40000;
  for (int i = 0; i < draws; ++i) {
    auto row = logits;
    SampleSpec spec{.temperature = 1, .seed = 77, .position = static_cast<uint32_t>(i)};
    ++counts[static_cast<size_t>(sample_row(row, spec).value().token)];
  }
  double chi2 = 0;
  for (size_t i = 0; i < p.size(); ++i) chi2 += std::pow(counts[i] - draws * p[i], 2) / (draws * p[i]);
  EXPECT_LT(chi2, 18.5);  // 4 degrees of freedom, 0.1 %
}

TEST(SampleRow, LeavingOutHopelessTokensChangesNoDraw) {
  // The noise is keyed on the token, so a tail below every possible win must not move the draw.
  std::vector<float> few = logits_of({0.6, 0.3, 0.1});
  std::vector<float> many = few;
  many.resize(5000, few[0] - 60.0F);
  for (uint64_t seed = 0; seed < 500; ++seed) {
    auto a = few, b = many;
    SampleSpec spec{.temperature = 1.3F, .seed = seed};
    EXPECT_EQ(sample_row(a, spec).value().token, sample_row(b, spec).value().token);
    spec.top_p = 0.95F;
    a = few, b = many;
    EXPECT_EQ(sample_row(a, spec).value().token, sample_row(b, spec).value().token);
  }
}

TEST(SampleRow, GreedyTakesTheLowestIdOfEqualLogits) {
  std::vector<float> row = {1.0F, 5.5F, -2.0F, 5.5F};
  EXPECT_EQ(sample_row(row, {.temperature = 0}).value().token, 1);
  row = {1.0F, 5.5F, -2.0F, 5.5F};
  EXPECT_EQ(sample_row(row, {.temperature = 1, .top_k = 1, .seed = 9}).value().token, 1);
}

TEST(SampleRow, NaNAndAFullyBannedRowAreErrors) {
  std::vector<float> row = {1.0F, std::nanf(""), 2.0F};
  EXPECT_FALSE(sample_row(row, {.temperature = 0}).ok());
  row = {1.0F, 2.0F};
  SampleSpec spec{.edits = {{.token = 0, .bias = -kInfinity}, {.token = 1, .bias = -kInfinity}}};
  EXPECT_FALSE(sample_row(row, spec).ok());
}

// G17: a head may be wider than its tokenizer; what stands there is neither drawn nor scored, whatever asks for it.
TEST(SampleRow, ATokenThatTheTokenizerDoesNotKnowIsNeverDrawn) {
  for (const float unknown : {9.0F, kInfinity, std::nanf("")}) {
    const std::vector<float> logits = {1.0F, 1.2F, unknown, unknown};
    for (SamplerDialect dialect : kDialects) {
      SampleSpec spec{.temperature = 0, .dialect = dialect, .top_logprobs = 4, .known_tokens = 2};
      EXPECT_EQ(support(logits, spec), (std::set<int32_t>{1}));
      spec.temperature = 2;
      EXPECT_EQ(support(logits, spec), (std::set<int32_t>{0, 1}));
      spec.edits = {{.token = 3, .bias = kInfinity}, {.token = 2, .bias = 100, .repetition = 0}};
      EXPECT_EQ(support(logits, spec), (std::set<int32_t>{0, 1}));
      std::vector<float> row = logits;
      const SampledToken sampled = sample_row(row, spec).value();
      EXPECT_NEAR(std::exp(sampled.top[0].logprob) + std::exp(sampled.top[1].logprob), 1, 1e-6);
    }
  }
  std::vector<float> row = {1.0F, std::nanf(""), 2.0F};
  EXPECT_FALSE(sample_row(row, {.temperature = 0, .known_tokens = 2}).ok()) << "of a known token";
}

TEST(SampleRow, ABannedTokenStaysBannedUnderRepetition) {
  for (SamplerDialect dialect : kDialects) {
    SampleSpec spec{
        .temperature = 2, .dialect = dialect, .edits = {{.token = 0, .bias = -kInfinity, .repetition = 0.5F}}};
    EXPECT_EQ(support({9.0F, 1.0F, 1.2F}, spec), (std::set<int32_t>{1, 2}));
  }
}

TEST(SampleRow, EditsActInTheOrderOfTheDialect) {
  // openai: (2 + 1) / 1.5 - 0.6 = 1.4 ; sglang: (2 - 0.6) / 1.5 + 1 = 1.9333. The rival stands between.
  LogitEdit edit{.token = 0, .bias = 1, .repetition = 1.5F, .penalty = 0.6F};
  std::vector<float> row = {2.0F, 1.6F};
  EXPECT_EQ(sample_row(row, {.temperature = 0, .edits = {edit}}).value().token, 1);
  row = {2.0F, 1.6F};
  EXPECT_EQ(sample_row(row, {.temperature = 0, .dialect = SamplerDialect::kSglang, .edits = {edit}}).value().token, 0);
}

// behaviour 19.6: a grammar's mask cannot be bypassed by any later edit, cut or temperature.
TEST(SampleRow, NoSettingDrawsAMaskedToken) {
  std::vector<float> logits(70, 0.5F);
  logits[3] = 40;
  logits[40] = 0.7F;
  logits[69] = kInfinity;
  const std::vector<uint32_t> mask = {0x00000012, 0x00000100, 0};  // tokens 1, 4 and 40
  const LogitEdit edits[] = {{.token = 3, .bias = 100},           {.token = 3, .bias = kInfinity},
                             {.token = 3, .repetition = 0},       {.token = 3, .repetition = -1},
                             {.token = 3, .penalty = -kInfinity}, {.token = 1, .bias = -100, .repetition = 2}};
  for (SamplerDialect dialect : kDialects) {
    for (const LogitEdit& edit : edits) {
      for (float temperature : {0.0F, 0.7F, 5.0F}) {
        for (int32_t top_k : {0, 1, 3}) {
          SampleSpec spec{
              .temperature = temperature, .top_k = top_k, .dialect = dialect, .edits = {edit}, .mask = mask};
          if (top_k == 3) spec.top_p = 0.3F;
          if (top_k == 1) spec.min_p = 0.9F;
          for (uint64_t seed = 0; seed < 20; ++seed) {
            std::vector<float> row = logits;
            spec.seed = seed;
            int32_t token = sample_row(row, spec).value().token;
            EXPECT_TRUE(token == 1 || token == 4 || token == 40) << token;
          }
        }
      }
    }
  }
}

TEST(SampleRow, AMaskThatLeavesNothingIsAnErrorThatNamesIt) {
  std::vector<float> row = {1.0F, 2.0F};
  const std::vector<uint32_t> none = {0};
  Result<SampledToken> sampled = sample_row(row, {.temperature = 0, .mask = none});
  ASSERT_FALSE(sampled.ok());
  EXPECT_NE(sampled.error().message.find("the grammar allows no further token"), std::string::npos);
  EXPECT_EQ(sampled.error().code,
            ErrorCode::kInvalidArgument);  // the request's grammar has the dead end, not the server
  // The one token left is banned by the caller.
  row = {1.0F, 2.0F};
  const std::vector<uint32_t> second = {2};
  sampled = sample_row(row, {.temperature = 0, .edits = {{.token = 1, .bias = -kInfinity}}, .mask = second});
  ASSERT_FALSE(sampled.ok());
  EXPECT_EQ(sampled.error().code, ErrorCode::kInvalidArgument);
  // min_tokens and allowed_token_ids ban as a bias does, and none need have been sent: each that can is named.
  for (const char* field : {"logit_bias", "allowed_token_ids", "min_tokens"}) {
    EXPECT_NE(sampled.error().message.find(field), std::string::npos) << field;
  }
  // A mask of another vocabulary.
  const std::vector<uint32_t> wide = {~0U, ~0U};
  row = {1.0F, 2.0F};
  EXPECT_FALSE(sample_row(row, {.mask = wide}).ok());
}

TEST(SampleRow, LogprobIsThatOfTheRawLogitsUnderAMask) {
  auto row = logits_of({0.4, 0.3, 0.2, 0.1});
  const std::vector<uint32_t> mask = {0b1100};
  SampledToken sampled = sample_row(row, {.temperature = 0, .top_logprobs = 0, .mask = mask}).value();
  EXPECT_EQ(sampled.token, 2);
  EXPECT_NEAR(sampled.logprob, std::log(0.2), 1e-6);
}

TEST(SampleRow, LogprobIsThatOfTheRawLogits) {
  auto row = logits_of({0.4, 0.3, 0.2, 0.1});
  SampleSpec spec{.temperature = 0, .top_logprobs = 0, .edits = {{.token = 0, .bias = -kInfinity}}};
  SampledToken sampled = sample_row(row, spec).value();
  EXPECT_EQ(sampled.token, 1);
  EXPECT_NEAR(sampled.logprob, std::log(0.3), 1e-6);
}

TEST(SampleRow, TheLikeliestTokensAreThoseBeforeEdits) {
  auto row = logits_of({0.1, 0.3, 0.3, 0.2, 0.1});
  SampleSpec spec{.temperature = 0, .top_logprobs = 3, .edits = {{.token = 1, .bias = -kInfinity}}};
  SampledToken sampled = sample_row(row, spec).value();
  EXPECT_EQ(sampled.token, 2);
  ASSERT_EQ(sampled.top.size(), 3u);
  EXPECT_EQ(sampled.top[0].token, 1);  // ties by id
  EXPECT_EQ(sampled.top[1].token, 2);
  EXPECT_EQ(sampled.top[2].token, 3);
  EXPECT_NEAR(sampled.top[2].logprob, std::log(0.2), 1e-6);
}

// Surprises 0.92, 1.20, 1.61, 2.30 with the mean 1.28: the likeliest token is not the most typical one.
TEST(SampleRow, TypicalKeepsTheTokensNearestToTheExpectedSurprise) {
  const auto row = logits_of({0.4, 0.3, 0.2, 0.1});
  EXPECT_EQ(support(row, {.typical_p = 0.25F}), (std::set<int32_t>{1}));
  EXPECT_EQ(support(row, {.typical_p = 0.45F}), (std::set<int32_t>{1, 2}));
  EXPECT_EQ(support(row, {.typical_p = 0.6F}), (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(support(row, {.typical_p = 1}), (std::set<int32_t>{0, 1, 2, 3}));
}

TEST(SampleRow, DrawsAnAllowedTokenWhateverTheBias) {
  const auto row = logits_of({0.4, 0.3, 0.2, 0.1});
  const std::vector<uint32_t> allowed = {0b1010};
  SampleSpec spec{.edits = {{.token = 0, .bias = 100}}, .allowed = allowed};
  EXPECT_EQ(support(row, spec), (std::set<int32_t>{1, 3}));
  const std::vector<uint32_t> wide = {~0U, ~0U};
  auto copy = row;
  EXPECT_FALSE(sample_row(copy, {.allowed = wide}).ok()) << "made for another vocabulary";
}

TEST(SampleRow, AForcedTokenIsScoredAndNotDrawn) {
  auto row = logits_of({0.4, 0.3, 0.2, 0.1});
  SampledToken sampled = sample_row(row, {.top_logprobs = 0, .forced = 3}).value();
  EXPECT_EQ(sampled.token, 3);
  EXPECT_NEAR(sampled.logprob, std::log(0.1), 1e-6);
}

}  // namespace
}  // namespace vernier
