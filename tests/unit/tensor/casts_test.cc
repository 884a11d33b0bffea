#include "tensor/casts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tensor/fnuz.h"
#include "tensor/scalar.h"
#include "tensor/scale_level.h"
#include "unit/tensor/sample_qtensor.h"

namespace vernier {
namespace {

using testing::sample_qtensor;

std::vector<std::byte> f32_bytes(std::vector<float> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

QTensor make_tensor(const Codec& codec, int64_t rows, int64_t cols, std::vector<std::byte> codes,
                    std::vector<std::byte> scales) {
  return QTensor::make({codec, rows, cols, Bytes(std::move(codes)), Bytes(std::move(scales)), {}, {}, "made"}).value();
}

std::vector<float> gaussian(size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(Casts, TENSOR_13_ScalesAreRoundedUpToPowersOfTwo) {
  struct Rounded {
    float value;
    int byte;
    float scale;
  };
  for (const Rounded& at : {Rounded{1.0f, 127, 1.0f},
                            {1.5f, 128, 2.0f},
                            {0.75f, 127, 1.0f},
                            {0.001f, 118, 0x1p-9f},
                            {1e-4f / 448, 105, 0x1p-22f}}) {
    EXPECT_EQ(f32_to_e8m0_ceil(at.value), at.byte);
    EXPECT_EQ(e8m0_to_f32(f32_to_e8m0_ceil(at.value)), at.scale);
  }
}

// A scale of 0.75 that were rounded up to 1 alone would make every number a third larger.
TEST(Casts, TENSOR_13_CodesFollowTheRoundedScale) {
  const Codec block = block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32);
  const QTensor tensor =
      make_tensor(block, 128, 128, std::vector<std::byte>(128 * 128, std::byte{f32_to_e4m3(1.0f)}), f32_bytes({0.75f}));
  const Cast cast = with_e8m0_scales(tensor).value();
  EXPECT_EQ(cast.tensor.codec().inner, ScaleType::kE8M0);
  for (float value : cast.tensor.decode()) EXPECT_EQ(value, 0.75f);
  EXPECT_TRUE(cast.report.exact());
}

TEST(Casts, TENSOR_13_TheLossIsMeasuredAndCanBeRefused) {
  const Codec block = block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32);
  const QTensor tensor = encode(block, 256, 512, gaussian(256 * 512)).value();
  const CastReport report = with_e8m0_scales(tensor).value().report;
  EXPECT_GT(report.relative_rms, 0.015);
  EXPECT_LT(report.relative_rms, 0.035);
  EXPECT_GT(report.worst_relative, 0.0);
  EXPECT_LE(report.worst_relative, 0.0667);  // half a step of the largest binade
  EXPECT_EQ(report.elements, 256 * 512);
  EXPECT_EQ(report.saturated, 0);
  const Result<Cast> refused = with_e8m0_scales(tensor, CastLoss::kRefuse);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("numbers changed, relative RMS 0.02"), std::string::npos)
      << refused.error().message;
}

TEST(Casts, TENSOR_13_PowersOfTwoKeepTheirCodesAndTwiceChangesNothing) {
  const Codec block = block_codec(CodecId::kE4M3Block, 64, 128, ScaleType::kF32);
  const QTensor sample = sample_qtensor(block, 128, 128, 5);
  const QTensor tensor =
      make_tensor(block, 128, 128, {sample.view().codes.begin(), sample.view().codes.end()}, f32_bytes({0.25f, 8.0f}));
  const Cast once = with_e8m0_scales(tensor, CastLoss::kRefuse).value();
  EXPECT_TRUE(std::ranges::equal(once.tensor.view().codes, tensor.view().codes));
  const Cast twice = with_e8m0_scales(once.tensor, CastLoss::kRefuse).value();
  EXPECT_EQ(twice.tensor.view().codes.data(), once.tensor.view().codes.data());
}

TEST(Casts, TENSOR_13_AnyBlockSizeAndRaggedEnds) {
  for (auto [rows, cols] : {std::pair{128, 256}, {64, 64}, {1, 128}, {128, 1}, {32, 32}}) {
    const Codec block = block_codec(CodecId::kE4M3Block, rows, cols, ScaleType::kF32);
    const QTensor tensor = sample_qtensor(block, 129, 190, 3);
    const Cast cast = with_e8m0_scales(tensor).value();
    EXPECT_LT(cast.report.relative_rms, 0.05) << rows << "x" << cols;
    EXPECT_EQ(cast.tensor.view().inner_scales.size() * 4, tensor.view().inner_scales.size());
  }
}

/// One MXFP4 tile of 128x128: row r's groups have scale exponents given by `exponent`.
template <class Exponent>
QTensor fp4_tile(Exponent exponent) {
  std::vector<std::byte> codes(128 * 64), scales(128 * 4);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i * 2 % 16 | (i * 2 + 1) % 16 << 4);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(exponent(i));
  return make_tensor(codec(CodecId::kMxfp4), 128, 128, std::move(codes), std::move(scales));
}

TEST(Casts, TENSOR_14_Fp4TilesAreExactUpToAFactorOf2To14) {
  for (int apart = 0; apart <= 15; ++apart) {
    const QTensor tile = fp4_tile([&](size_t i) { return i == 77 ? 130 - apart : 130; });
    const Result<Cast> cast = mxfp4_to_e4m3(tile);
    ASSERT_EQ(cast.ok(), apart <= 14) << apart;
    if (!cast.ok()) continue;
    EXPECT_TRUE(same_bits(cast->tensor.decode(), tile.decode())) << apart;
    EXPECT_EQ(cast->report.widest_ratio, std::ldexp(1.0, apart));
    // The block's scale is its largest group's / 64.
    EXPECT_EQ(cast->tensor.view().inner_scales[0], std::byte{130 - 6});
  }
  const QTensor wide = fp4_tile([](size_t i) { return i == 77 ? 115 : 130; });
  const Cast lossy = mxfp4_to_e4m3(wide, {}, CastLoss::kReport).value();
  EXPECT_EQ(lossy.report.inexact, 2 * 4);  // +-0.5 and +-1.5 of a group of 32, which has every code twice
  EXPECT_NE(mxfp4_to_e4m3(wide).error().message.find("32768"), std::string::npos);
}

TEST(Casts, TENSOR_14_Fp4Code8StaysMinusZero) {
  const Cast cast = mxfp4_to_e4m3(fp4_tile([](size_t) { return 127; })).value();
  EXPECT_EQ(cast.tensor.view().codes[8], std::byte{0x80});
  EXPECT_EQ(cast.tensor.view().codes[0], std::byte{0x00});
  EXPECT_TRUE(std::signbit(cast.tensor.decode()[8]));
}

TEST(Casts, TENSOR_14_Fp4AtTheEndsOfE8M0) {
  for (int exponent : {0, 3, 6, 254}) {
    const QTensor tile = fp4_tile([&](size_t) { return exponent; });
    EXPECT_TRUE(same_bits(mxfp4_to_e4m3(tile).value().tensor.decode(), tile.decode())) << exponent;
  }
  EXPECT_FALSE(mxfp4_to_e4m3(sample_qtensor(codec(CodecId::kMxfp4), 96, 128, 1)).ok());
  EXPECT_TRUE(mxfp4_to_e4m3(encode(codec(CodecId::kMxfp4), 96, 128, gaussian(96 * 128)).value(), {32, 32}).ok());
}

TEST(Casts, TENSOR_14_Mxfp8FoldsWhereItIsExact) {
  // Codes with few bits below their group's largest, groups a factor of 8 apart.
  std::vector<std::byte> codes(130 * 160), scales(130 * 5);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = std::byte{f32_to_e4m3(static_cast<float>(i % 15) - 7.0f)};
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(120 + i % 4);
  const QTensor tensor = make_tensor(codec(CodecId::kMxfp8), 130, 160, codes, scales);
  const Cast cast = mxfp8_to_blocks(tensor).value();
  EXPECT_TRUE(same_bits(cast.tensor.decode(), tensor.decode()));
  EXPECT_EQ(cast.tensor.view().inner_scales.size(), 4u);
  // The smallest number under a scale 2^9 smaller than its neighbours' has no code left.
  codes[0] = std::byte{1};
  scales[0] = std::byte{111};
  const Result<Cast> refused = mxfp8_to_blocks(make_tensor(codec(CodecId::kMxfp8), 130, 160, codes, scales));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("cannot become e4m3[128x128,e8m0] without loss"), std::string::npos);
}

TEST(Casts, TENSOR_7_SmallerBlocksCopyTheirScale) {
  const QTensor tensor = sample_qtensor(block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32), 300, 130, 9);
  const QTensor smaller = with_smaller_blocks(tensor, {64, 32}).value();
  EXPECT_EQ(smaller.codec().group_rows, 64);
  EXPECT_TRUE(same_bits(smaller.decode(), tensor.decode()));
  EXPECT_TRUE(smaller.slice_rows(64, 192).ok());
  EXPECT_FALSE(with_smaller_blocks(tensor, {48, 32}).ok());
}

TEST(Fnuz, TENSOR_15_TheSameBitsAreOtherNumbers) {
  std::vector<std::byte> codes(256);
  for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<std::byte>(i);
  const auto parts = [&](CodecId id) {
    return QTensorParts{codec(id), 1, 256, Bytes(codes), Bytes(f32_bytes({0.6f})), {}, {}, "made"};
  };
  const FnuzTensor e4m3 = FnuzTensor::make(parts(CodecId::kE4M3Tensor)).value();
  EXPECT_EQ(e4m3.decode()[0x7F], 240.0f * 0.6f);
  EXPECT_TRUE(std::isnan(e4m3.decode()[0x80]));
  EXPECT_EQ(e4m3.decode()[0x08], 0x1p-7f * 0.6f);
  // Only +-240 have no FN code under half the scale: 480 is above 448.
  const Cast cast = e4m3.to_fn().value();
  EXPECT_EQ(cast.report.inexact, 2);
  EXPECT_EQ(cast.report.saturated, 2);
  EXPECT_EQ(cast.tensor.decode()[0x7F], 448.0f * 0.3f);
  EXPECT_TRUE(std::isnan(cast.tensor.decode()[0x80]));
  const FnuzTensor e5m2 = FnuzTensor::make(parts(CodecId::kE5M2Tensor)).value();
  EXPECT_EQ(e5m2.to_fn().value().report.saturated, 8);
  EXPECT_FALSE(FnuzTensor::make({codec(CodecId::kF32), 1, 64, Bytes(codes), {}, {}, {}, "made"}).ok());
}

TEST(Fnuz, TENSOR_15_FromFnLosesMinusZeroAlone) {
  std::vector<std::byte> codes(256);
  for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<std::byte>(i);
  const QTensor fn = make_tensor(codec(CodecId::kE4M3Tensor), 1, 256, codes, f32_bytes({0.6f}));
  auto [fnuz, report] = FnuzTensor::from_fn(fn).value();
  EXPECT_EQ(report.inexact, 1);
  EXPECT_EQ(fnuz.decode()[0x7E], 448.0f * 0.6f);
  EXPECT_TRUE(std::isnan(fnuz.decode()[0xFF]));
  EXPECT_FALSE(std::signbit(fnuz.decode()[0x80]));
  // Back again without another loss.
  EXPECT_TRUE(fnuz.to_fn().value().report.exact());
}

}  // namespace
}  // namespace vernier
