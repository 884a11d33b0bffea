#include <gtest/gtest.h>

#include "ops/attn_spec.h"
#include "ops/cache_spec.h"

namespace vernier {
namespace {

RopeSpec rope(double base, int dim, decltype(RopeSpec::scaling) scaling = RopePlain{}) {
  return RopeSpec{base, dim, std::move(scaling)};
}

void expect_close(float found, double expected) {
  EXPECT_NEAR(found, expected, 2e-7 * expected);
}

// Reference numbers: the published formulas in NumPy's float32.
TEST(Rope, PlainFrequencies) {
  std::vector<float> found = rope(10000, 8).frequencies();
  ASSERT_EQ(found.size(), 4u);
  const double expected[] = {1.0, 0.10000000149011612, 0.009999999776482582, 0.0010000000474974513};
  for (size_t i = 0; i < 4; ++i) expect_close(found[i], expected[i]);
}

TEST(Rope, LinearDividesEachFrequency) {
  std::vector<float> plain = rope(1e6, 32).frequencies();
  std::vector<float> scaled = rope(1e6, 32, RopeLinear{3}).frequencies();
  for (size_t i = 0; i < plain.size(); ++i) expect_close(scaled[i], double{plain[i]} / 3);
}

// Pairs that turn often stay, those that turn seldom are divided, a ramp lies between; its ends are whole pairs or not.
TEST(Rope, YarnKeepsFastPairsAndDividesSlowOnes) {
  const std::vector<float> ramp = rope(150000, 64, RopeYarn{32, 4096, 32, 1, false, 1}).frequencies();
  ASSERT_EQ(ramp.size(), 32u);
  const std::pair<size_t, double> expected[] = {{0, 1.0},
                                                {8, 0.050813274815461475},
                                                {10, 0.019335001126540362},
                                                {12, 0.006794959489732219},
                                                {16, 0.00045648391922324086},
                                                {20, 1.818833668168956e-05},
                                                {31, 3.0235114281192144e-07}};
  for (auto [pair, frequency] : expected) EXPECT_NEAR(ramp[pair], frequency, 2e-6 * frequency) << pair;
  const std::vector<float> whole = rope(10000, 64, RopeYarn{40, 4096, 32, 1, true, 1}).frequencies();
  const std::pair<size_t, double> truncated[] = {{7, 0.1333521432163324},     {10, 0.056234132519034905},
                                                 {12, 0.026879360111431223},  {16, 0.0055},
                                                 {20, 0.0007905694150420945}, {24, 2.5e-05}};
  for (auto [pair, frequency] : truncated) EXPECT_NEAR(whole[pair], frequency, 2e-6 * frequency) << pair;
  EXPECT_EQ(rope(10000, 64, RopeYarn{40, 4096, 32, 1, true, 1.3}).magnitude(), 1.3f);
  EXPECT_EQ(rope(10000, 64).magnitude(), 1);
}

TEST(Rope, Llama3KeepsShortRampsBetweenAndDividesLong) {
  std::vector<float> found = rope(500000, 128, RopeLlama3{8, 1, 4, 8192}).frequencies();
  ASSERT_EQ(found.size(), 64u);
  const std::pair<size_t, double> expected[] = {
      {0, 1.0},
      {28, 0.0032114461064338684},
      {29, 0.0021665706299245358},
      {32, 0.0005248460220173001},
      {34, 0.0001785077911335975},
      {35, 9.556212171446532e-05},
      {63, 3.068925877869333e-07},
  };
  for (const auto& [pair, value] : expected) EXPECT_NEAR(found[pair], value, 2e-6 * value) << pair;
}

TEST(Rope, DivisorsActOnEachPairAlone) {
  std::vector<float> plain = rope(10000, 6).frequencies();
  std::vector<float> scaled = rope(10000, 6, RopeDivisors{{2.0f, 1.0f, 3.0f}}).frequencies();
  expect_close(scaled[0], plain[0] / 2.0);
  expect_close(scaled[1], plain[1]);
  expect_close(scaled[2], plain[2] / 3.0);
}

TEST(CacheSpec, BytesOfATokenAreKeysAndValues) {
  CacheSpec spec;
  spec.kv_heads = 3;
  spec.head_dim = 80;
  for (auto [stored, width] :
       {std::pair{CodecId::kF32, 4}, {CodecId::kF16, 2}, {CodecId::kBF16, 2}, {CodecId::kE4M3Tensor, 1}}) {
    spec.stored = stored;
    EXPECT_EQ(spec.bytes_per_token(), 2 * 3 * 80 * width);
  }
}

}  // namespace
}  // namespace vernier
