#include "tensor/quantise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tensor/tensor.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

QTensor dense(int64_t rows, int64_t cols, const std::vector<float>& values) {
  return *QTensor::from_dense(Tensor::from_floats(Shape{rows, cols}, values), "test");
}

/// Bell-shaped numbers of several sizes, as weights are.
std::vector<float> weights(int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.3f);
  std::vector<float> values(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = normal(random) * (1 + 0.7f * static_cast<float>(static_cast<int64_t>(i) / cols % 5));
  }
  return values;
}

std::vector<Codec> searched_codecs() {
  return {codec(CodecId::kE4M3Tensor),
          codec(CodecId::kE4M3Channel),
          block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32),
          codec(CodecId::kMxfp8),
          codec(CodecId::kMxfp4),
          codec(CodecId::kNvfp4)};
}

bool same_bits(const QTensor& a, const QTensor& b) {
  const QTensor::View x = a.view(), y = b.view();
  return std::ranges::equal(x.codes, y.codes) && std::ranges::equal(x.inner_scales, y.inner_scales) &&
         std::ranges::equal(x.outer_scales, y.outer_scales);
}

// The scale of least error is never worse than the usual one, and for narrow codes clearly better.
TEST(QuantiseTest, LosesNoMoreThanTheUsualScaleDoes) {
  const int64_t rows = 200, cols = 384;
  const std::vector<float> values = weights(rows, cols, 3);
  const QTensor source = dense(rows, cols, values);
  for (const Codec& target : searched_codecs()) {
    const double usual = measure_loss(source, *encode(target, rows, cols, values)).snr_db();
    const double found = measure_loss(source, *quantise(source, target)).snr_db();
    EXPECT_GE(found, usual - 1e-9) << target.name;
    if (target.element == Element::kE2M1) {
      EXPECT_GT(found, usual + 0.2) << target.name;
    }
  }
}

// TENSOR-9 for searched scales that are powers of two. An f32 scale is made for the new largest number.
TEST(QuantiseTest, NumbersThatACodecHoldsAreKept) {
  const int64_t rows = 130, cols = 256;
  const QTensor source = dense(rows, cols, weights(rows, cols, 5));
  for (const Codec& target : searched_codecs()) {
    const QTensor once = *quantise(source, target);
    EXPECT_TRUE(same_bits(once, *quantise(once, target))) << target.name;
    if (target.inner != ScaleType::kE8M0) continue;
    EXPECT_EQ(measure_loss(once, *quantise(dense(rows, cols, once.decode()), target)).noise, 0) << target.name;
  }
}

TEST(QuantiseTest, ThreadsChangeNoBit) {
  const int64_t rows = 3000, cols = 512;  // several slabs
  const QTensor source = dense(rows, cols, weights(rows, cols, 7));
  for (const Codec& target : searched_codecs()) {
    EXPECT_TRUE(same_bits(*quantise(source, target, {0, 1}), *quantise(source, target, {0, 3}))) << target.name;
  }
}

TEST(QuantiseTest, ZerosKeepTheirSignsAndLoseNothing) {
  const int64_t rows = 128, cols = 256;
  std::vector<float> values(static_cast<size_t>(rows * cols), 0.0f);
  for (size_t i = 0; i < values.size(); i += 3) values[i] = -0.0f;
  const QTensor source = dense(rows, cols, values);
  for (const Codec& target : searched_codecs()) {
    const std::vector<float> back = quantise(source, target)->decode();
    for (size_t i = 0; i < back.size(); ++i) {
      ASSERT_EQ(back[i], 0) << target.name;
      ASSERT_EQ(std::signbit(back[i]), std::signbit(values[i])) << target.name << " " << i;
    }
  }
}

// Numbers below the smallest normal float, beside the largest: every scale and every number stays finite.
TEST(QuantiseTest, ExtremesStayFinite) {
  const int64_t rows = 128, cols = 128;
  for (const float size : {1e-44f, 1e-40f, 1e-36f, 1.0f, 1e36f, std::numeric_limits<float>::max()}) {
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (size_t i = 0; i < values.size(); ++i) values[i] = size * (i % 2 == 0 ? 1.0f : -0.7f);
    const QTensor source = dense(rows, cols, values);
    for (const Codec& target : searched_codecs()) {
      const Result<QTensor> made = quantise(source, target);
      ASSERT_TRUE(made.ok()) << target.name << " " << size << ": " << made.error().to_string();
      for (float value : made->decode()) ASSERT_TRUE(std::isfinite(value)) << target.name << " " << size;
    }
  }
}

TEST(QuantiseTest, RefusesWhatNoScaleIsRightFor) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(4 * 64, 1.0f);
    values[2 * 64 + 5] = bad;
    for (const Codec& target : searched_codecs()) {
      const Result<QTensor> made = quantise(dense(4, 64, values), target);
      ASSERT_FALSE(made.ok()) << target.name;
      EXPECT_THAT(made.error().message, AllOf(HasSubstr("[2, 5]"), HasSubstr(std::isnan(bad) ? "NaN" : "infinite")));
    }
  }
  const Result<QTensor> ragged = quantise(dense(2, 40, std::vector<float>(80, 1.0f)), codec(CodecId::kMxfp4));
  ASSERT_FALSE(ragged.ok());
  EXPECT_THAT(ragged.error().message, HasSubstr("32 and 64"));
}

// A block format's last block may be smaller; each keeps a scale of its own.
TEST(QuantiseTest, RaggedBlocksAreBlocks) {
  const int64_t rows = 130, cols = 200;
  const QTensor source = dense(rows, cols, weights(rows, cols, 9));
  const QTensor made = *quantise(source, block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32));
  EXPECT_EQ(made.view().inner_scales.size(), 4u * sizeof(float));
  EXPECT_GT(measure_loss(source, made).snr_db(), 30);
}

// Files store NVFP4's global scale as its reciprocal.
TEST(QuantiseTest, TheGlobalScaleSurvivesItsReciprocal) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const QTensor made = *quantise(dense(1, 16, weights(1, 16, seed)), codec(CodecId::kNvfp4));
    const float outer = made.view().outer_scales.front();
    EXPECT_EQ(1 / (1 / outer), outer) << seed;
  }
}

TEST(QuantiseTest, PartsCanShareAGlobalScale) {
  const QTensor small = dense(4, 32, weights(4, 32, 1));
  const Codec& target = codec(CodecId::kNvfp4);
  const float alone = quantise(small, target)->view().outer_scales.front();
  const float shared = quantise(small, target, {100.0f, 1})->view().outer_scales.front();
  EXPECT_GT(shared, 10 * alone);
  EXPECT_EQ(shared, quantise(dense(1, 16, std::vector<float>(16, 100.0f)), target)->view().outer_scales.front());
}

TEST(QuantLossTest, NamesTheWorstBlock) {
  std::vector<float> values(3 * 64, 1.0f);
  for (size_t i = 64 + 32; i < 128; ++i) values[i] = i % 2 == 0 ? 1.0f : 0.07f;  // row 1, columns 32 on
  const QTensor source = dense(3, 64, values);
  const QuantLoss loss = measure_loss(source, *quantise(source, codec(CodecId::kMxfp4)));
  EXPECT_EQ(loss.worst_row, 1);
  EXPECT_EQ(loss.worst_col, 32);
  EXPECT_LT(loss.worst_db, loss.snr_db());
  EXPECT_TRUE(std::isinf(measure_loss(source, source).snr_db()));
}

}  // namespace
}  // namespace vernier
