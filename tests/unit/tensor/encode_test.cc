#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tensor/qtensor.h"
#include "tensor/scalar.h"
#include "unit/tensor/sample_qtensor.h"

namespace vernier {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> normal_values(size_t count, uint32_t seed, float deviation) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// Largest error of one value, as a part of the largest magnitude in its group: half of the widest step, and the
/// rounding of the scales.
double error_bound(const Codec& codec) {
  switch (codec.id) {
    case CodecId::kF32:
      return 0;
    case CodecId::kF16:
      return 0x1p-11;
    case CodecId::kBF16:
      return 0x1p-8;
    case CodecId::kMxfp4:
    case CodecId::kGgufMxfp4:
      return 0.26;  // 8 saturates at 6
    case CodecId::kNvfp4:
      return 0.2;
    case CodecId::kQ4_0:
      return 0.13;  // the far side has one code less
    case CodecId::kQ4_1:
      return 0.07;
    case CodecId::kQ5_0:
      return 0.065;
    case CodecId::kQ5_1:
      return 0.035;
    case CodecId::kQ8_0:
      return 0.005;
    case CodecId::kQ2_K:
      return 0.5;
    case CodecId::kQ3_K:
      return 0.3;
    case CodecId::kQ4_K:
      return 0.11;
    case CodecId::kQ5_K:
      return 0.065;
    case CodecId::kQ6_K:
      return 0.05;
    default:
      return codec.element == Element::kE4M3 ? 0x1p-4 * 1.01 : 0x1p-3 * 1.01;
  }
}

TEST(Encode, ErrorStaysWithinTheFormat) {
  for (const Codec& codec : testing::codecs_under_test()) {
    std::vector<float> values = normal_values(6 * 512, 7, 0.37f);
    float largest = 0;
    for (float value : values) largest = std::max(largest, std::fabs(value));
    std::vector<float> found = encode(codec, 6, 512, values).value().decode();
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(std::fabs(found[i] - values[i]), error_bound(codec) * largest)
          << codec.name << " " << i << " " << values[i];
    }
  }
}

/// Cosine of the angle between what went in and what came out, for every number of rows.
TEST(Encode, DirectionIsKeptForEveryRowCount) {
  for (CodecId id : {CodecId::kMxfp4, CodecId::kNvfp4, CodecId::kQ4_K, CodecId::kE4M3Tensor}) {
    for (int64_t rows = 1; rows <= 129; rows += rows < 20 ? 1 : 36) {
      std::vector<float> values = normal_values(static_cast<size_t>(rows * 256), static_cast<uint32_t>(rows), 2.1f);
      std::vector<float> found = encode(codec(id), rows, 256, values).value().decode();
      double dot = 0;
      double left = 0;
      double right = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        dot += double{values[i]} * found[i];
        left += double{values[i]} * values[i];
        right += double{found[i]} * found[i];
      }
      EXPECT_GT(dot / std::sqrt(left * right), 0.97) << codec(id).name << " " << rows;
    }
  }
}

TEST(Encode, TENSOR_9_NoFiniteNumberBecomesNanOrInfinite) {
  for (const Codec& codec : testing::codecs_under_test()) {
    std::vector<std::vector<float>> rows = {std::vector<float>(256, 0.0f),           std::vector<float>(256, 1e-40f),
                                            std::vector<float>(256, -3.4028235e38f), std::vector<float>(256, 1e-45f),
                                            std::vector<float>(256, 6e-38f),         std::vector<float>(256, 0.7f)};
    rows[1][3] = 1e-36f;
    rows[4][7] = -1.0f;
    for (const std::vector<float>& row : rows) {
      std::vector<float> found = encode(codec, 1, 256, row).value().decode();
      for (float value : found) ASSERT_TRUE(std::isfinite(value)) << codec.name << " " << row[0];
      if (row[0] == 0) {
        EXPECT_EQ(found, row) << codec.name;
      }
    }
  }
}

TEST(Encode, TENSOR_3_InfinitySaturatesAndItsNeighboursStayFinite) {
  std::vector<float> values(32, 0.0f);
  values[0] = kInfinity;
  values[1] = -kInfinity;
  values[2] = 1.0f;
  QTensor mx = encode(codec(CodecId::kMxfp8), 1, 32, values).value();
  EXPECT_EQ(mx.view().codes[0], std::byte{0x7E});
  EXPECT_EQ(mx.view().codes[1], std::byte{0xFE});
  EXPECT_EQ(mx.view().inner_scales[0], std::byte{254});
  for (const Codec& codec : testing::codecs_under_test()) {
    std::vector<float> wide(256, 0.0f);
    wide[0] = kInfinity;
    wide[1] = -kInfinity;
    std::vector<float> found = encode(codec, 1, 256, wide).value().decode();
    // Of the others, only an E8M0 scale reaches beyond float32.
    bool has_infinity = codec.is_dense() || codec.inner == ScaleType::kE8M0;
    if (!has_infinity) {
      EXPECT_TRUE(std::isfinite(found[0])) << codec.name;
    }
    EXPECT_GT(found[0], 0) << codec.name;
    EXPECT_LE(found[1], 0) << codec.name;
    for (size_t i = 2; i < found.size(); ++i) EXPECT_FALSE(std::isnan(found[i])) << codec.name;
  }
}

TEST(Encode, TENSOR_3_DenseTypesSaturateFiniteNumbers) {
  EXPECT_EQ(encode(codec(CodecId::kF16), 1, 2, std::vector{1e6f, -1e6f}).value().decode(),
            (std::vector{65504.0f, -65504.0f}));
  EXPECT_TRUE(std::isfinite(encode(codec(CodecId::kBF16), 1, 1, std::vector{3.4028235e38f}).value().decode()[0]));
}

TEST(Encode, NanStaysOrIsRefusedByName) {
  for (const Codec& codec : testing::codecs_under_test()) {
    std::vector<float> values(512, 0.25f);
    values[300] = kNan;
    Result<QTensor> result = encode(codec, 2, 256, values);
    if (codec.element == Element::kInt || codec.element == Element::kE2M1) {
      ASSERT_FALSE(result.ok()) << codec.name;
      EXPECT_NE(result.error().message.find("[1, 44]"), std::string::npos) << result.error().message;
    } else {
      std::vector<float> found = result.value().decode();
      EXPECT_TRUE(std::isnan(found[300])) << codec.name;
      EXPECT_NEAR(found[0], 0.25f, 1e-6f) << codec.name;
    }
  }
}

TEST(Encode, TENSOR_3_MinusZeroSurvives) {
  for (const Codec& codec : testing::codecs_under_test()) {
    if (codec.element == Element::kInt) continue;
    std::vector<float> values(256, 1.0f);
    values[9] = -0.0f;
    std::vector<float> found = encode(codec, 1, 256, values).value().decode();
    EXPECT_EQ(found[9], 0.0f) << codec.name;
    EXPECT_TRUE(std::signbit(found[9])) << codec.name;
  }
}

TEST(Encode, TENSOR_1_RefusesExtentsThatDoNotFitTheValues) {
  std::vector<float> values(256, 1.0f);
  EXPECT_FALSE(encode(codec(CodecId::kF32), 1, 255, values).ok());
  EXPECT_FALSE(encode(codec(CodecId::kF32), 0, 256, values).ok());
  EXPECT_FALSE(encode(codec(CodecId::kF32), int64_t{1} << 32, int64_t{1} << 32, values).ok());
  EXPECT_FALSE(encode(codec(CodecId::kQ4_K), 2, 128, values).ok());
  EXPECT_FALSE(encode(codec(CodecId::kMxfp8), 8, 30, values).ok());
}

TEST(Encode, TENSOR_9_CodesFollowTheRoundedScale) {
  // Largest 300: the power of two above 300 / 448 is 1, so every code is the number itself.
  std::vector<float> values(32, 0.5f);
  values[4] = 300.0f;
  QTensor mx = encode(codec(CodecId::kMxfp8), 1, 32, values).value();
  EXPECT_EQ(mx.view().inner_scales[0], std::byte{127});
  EXPECT_EQ(mx.decode()[0], 0.5f);
  EXPECT_NEAR(mx.decode()[4], 300.0f, 16.0f);
  // 0.75 / 448 has a scale of its own in f32.
  QTensor block =
      encode(block_codec(CodecId::kE4M3Block, 1, 32, ScaleType::kF32), 1, 32, std::vector<float>(32, 0.75f)).value();
  float scale;
  std::memcpy(&scale, block.view().inner_scales.data(), 4);
  EXPECT_NEAR(scale, 0.75f / 448, 0.75f / 448 * 0x1p-18f);
}

/// A block of a K format in which every group spans its codes, and the first group has the largest scale and minimum.
std::vector<float> spanning_super_block(CodecId id, uint32_t seed) {
  std::mt19937 random(seed);
  struct Format {
    int groups;
    int lowest;
    int highest;
    int highest_scale;
    bool minimum;
  };
  Format format = id == CodecId::kQ2_K   ? Format{16, 0, 3, 15, true}
                  : id == CodecId::kQ3_K ? Format{16, -4, 3, -32, false}
                  : id == CodecId::kQ4_K ? Format{8, 0, 15, 63, true}
                  : id == CodecId::kQ5_K ? Format{8, 0, 31, 63, true}
                                         : Format{16, -32, 31, -128, false};
  float d = f16_to_f32(f32_to_f16(0.0031f));
  float dmin = f16_to_f32(f32_to_f16(0.0047f));
  std::vector<float> values;
  int size = 256 / format.groups;
  for (int j = 0; j < format.groups; ++j) {
    int largest = std::abs(format.highest_scale);
    int scale = j == 0 ? format.highest_scale : static_cast<int>(random() % static_cast<unsigned>(largest - 1)) + 1;
    // A scale large enough that the range of a group reaches above 0.
    int minimum = !format.minimum ? 0
                  : j == 0        ? largest
                                  : static_cast<int>(random() % static_cast<unsigned>(scale + 1));
    for (int i = 0; i < size; ++i) {
      int span = format.highest - format.lowest + 1;
      int code = i == 0   ? format.lowest
                 : i == 1 ? format.highest
                          : static_cast<int>(random() % static_cast<unsigned>(span)) + format.lowest;
      values.push_back(d * static_cast<float>(scale) * static_cast<float>(code) - dmin * static_cast<float>(minimum));
    }
  }
  return values;
}

TEST(Encode, TENSOR_9_SpanningKBlocksComeBackExactly) {
  for (CodecId id : {CodecId::kQ2_K, CodecId::kQ3_K, CodecId::kQ4_K, CodecId::kQ5_K, CodecId::kQ6_K}) {
    for (uint32_t seed = 0; seed < 50; ++seed) {
      std::vector<float> values = spanning_super_block(id, seed);
      ASSERT_EQ(encode(codec(id), 1, 256, values).value().decode(), values) << codec(id).name << " " << seed;
    }
  }
}

}  // namespace
}  // namespace vernier
