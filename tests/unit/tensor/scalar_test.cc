#include "tensor/scalar.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "codec_goldens.h"

namespace vernier {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Equal bits, or NaN of the same sign: payloads carry no meaning.
::testing::AssertionResult same(float found, float expected) {
  bool both_nan = std::isnan(found) && std::isnan(expected);
  if (std::signbit(found) == std::signbit(expected) &&
      (both_nan || std::bit_cast<uint32_t>(found) == std::bit_cast<uint32_t>(expected))) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << found << " instead of " << expected;
}

struct ByteFormat {
  const char* name;
  int codes;
  float (*decode)(uint8_t);
  uint8_t (*encode)(float);
};

const std::vector<ByteFormat> kByteFormats = {{"e4m3", 256, e4m3_to_f32, f32_to_e4m3},
                                              {"e5m2", 256, e5m2_to_f32, f32_to_e5m2},
                                              {"e2m1", 16, e2m1_to_f32, f32_to_e2m1}};

TEST(Scalar, TENSOR_2_EveryCodeDecodesAsTheReferenceHasIt) {
  for (const ByteFormat& format : kByteFormats) {
    testing::GoldenReader golden(std::string(format.name) + ".table");
    for (int code = 0; code < format.codes; ++code) {
      EXPECT_TRUE(same(format.decode(static_cast<uint8_t>(code)), golden.next<float>())) << format.name << " " << code;
    }
    EXPECT_TRUE(golden.at_end());
  }
  testing::GoldenReader golden("e8m0.table");
  for (int code = 0; code < 256; ++code) {
    EXPECT_TRUE(same(e8m0_to_f32(static_cast<uint8_t>(code)), golden.next<float>())) << code;
  }
}

TEST(Scalar, TENSOR_2_MinusZeroSurvivesInEveryFormat) {
  EXPECT_TRUE(same(e2m1_to_f32(8), -0.0f));
  EXPECT_TRUE(same(e4m3_to_f32(0x80), -0.0f));
  EXPECT_TRUE(same(e5m2_to_f32(0x80), -0.0f));
  EXPECT_TRUE(same(f16_to_f32(0x8000), -0.0f));
  EXPECT_TRUE(same(bf16_to_f32(0x8000), -0.0f));
  EXPECT_EQ(f32_to_e2m1(-0.0f), 8);
  EXPECT_EQ(f32_to_e2m1(-0.2f), 8);
  EXPECT_EQ(f32_to_e4m3(-0.0f), 0x80);
  EXPECT_EQ(f32_to_e4m3(-1e-30f), 0x80);
  EXPECT_EQ(f32_to_e5m2(-0.0f), 0x80);
  EXPECT_EQ(f32_to_f16(-1e-30f), 0x8000);
  EXPECT_EQ(f32_to_bf16(-0.0f), 0x8000);
}

TEST(Scalar, TENSOR_2_E8M0ReachesBothEndsAndNan) {
  EXPECT_EQ(std::bit_cast<uint32_t>(e8m0_to_f32(0)), 0x00400000u);
  EXPECT_EQ(e8m0_to_f32(127), 1.0f);
  EXPECT_EQ(e8m0_to_f32(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(e8m0_to_f32(255)));
}

TEST(Scalar, TENSOR_2_HalfPrecisionDecodesByItsDefinition) {
  for (int code = 0; code < 0x10000; ++code) {
    auto bits = static_cast<uint16_t>(code);
    int exponent = bits >> 10 & 0x1F;
    int mantissa = bits & 0x3FF;
    double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31) magnitude = mantissa == 0 ? kInfinity : kNan;
    float expected = std::copysign(static_cast<float>(magnitude), (bits & 0x8000) != 0 ? -1.0f : 1.0f);
    ASSERT_TRUE(same(f16_to_f32(bits), expected)) << code;
    // bfloat16 is the upper half of a float.
    ASSERT_TRUE(same(bf16_to_f32(bits), std::bit_cast<float>(uint32_t{bits} << 16))) << code;
  }
}

TEST(Scalar, TENSOR_3_EncodersAgreeWithTheReferenceOnTiesAndTheirNeighbours) {
  auto check = [](const std::string& name, auto encode, uint16_t nan_mask, uint16_t nan_bits) {
    testing::GoldenReader golden(name + ".encode");
    auto cases = golden.next<uint32_t>();
    ASSERT_GT(cases, 50u);
    for (uint32_t i = 0; i < cases; ++i) {
      auto value = golden.next<float>();
      auto expected = golden.next<uint16_t>();
      uint16_t found = encode(value);
      if (std::isnan(value)) {
        EXPECT_EQ(found & nan_mask, nan_bits) << name << ": NaN must stay NaN";
      } else {
        EXPECT_EQ(found, expected) << name << " of " << value;
      }
    }
    EXPECT_TRUE(golden.at_end());
  };
  check("e4m3", f32_to_e4m3, 0x7F, 0x7F);
  check("e5m2", f32_to_e5m2, 0x7E, 0x7E);
  check("e2m1", f32_to_e2m1, 0, 0);
  check("f16", f32_to_f16, 0x7E00, 0x7E00);
  check("bf16", f32_to_bf16, 0x7FC0, 0x7FC0);
}

TEST(Scalar, TENSOR_3_EveryFiniteCodeComesBack) {
  for (const ByteFormat& format : kByteFormats) {
    for (int code = 0; code < format.codes; ++code) {
      float value = format.decode(static_cast<uint8_t>(code));
      if (std::isfinite(value)) {
        EXPECT_EQ(format.encode(value), code) << format.name;
      }
    }
  }
  for (int code = 0; code < 0x10000; ++code) {
    auto bits = static_cast<uint16_t>(code);
    if (!std::isnan(f16_to_f32(bits))) {
      ASSERT_EQ(f32_to_f16(f16_to_f32(bits)), bits);
    }
    if (!std::isnan(bf16_to_f32(bits))) {
      ASSERT_EQ(f32_to_bf16(bf16_to_f32(bits)), bits);
    }
  }
  for (int code = 1; code <= 254; ++code) {
    EXPECT_EQ(f32_to_e8m0_ceil(e8m0_to_f32(static_cast<uint8_t>(code))), code);
  }
}

TEST(Scalar, TENSOR_3_NanStaysNanWithItsSign) {
  EXPECT_EQ(f32_to_e4m3(kNan), 0x7F);
  EXPECT_EQ(f32_to_e4m3(-kNan), 0xFF);
  EXPECT_TRUE(std::isnan(e5m2_to_f32(f32_to_e5m2(kNan))));
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(kNan))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(kNan))));
  // A NaN whose payload stands only in the bits that are dropped must not become an infinity.
  float quiet_bits_lost = std::bit_cast<float>(0x7F800001u);
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(quiet_bits_lost))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(quiet_bits_lost))));
  EXPECT_EQ(f32_to_e8m0_ceil(kNan), 0xFF);
}

TEST(ScalarDeathTest, TENSOR_3_E2M1IsHandedNoNan) {
  EXPECT_DEATH((void)f32_to_e2m1(kNan), "no NaN");
}

TEST(Scalar, TENSOR_3_SaturationIsTheSameForEveryKindOfTooLarge) {
  for (float value : {448.0f, 464.0f, 465.0f, 1000.0f, 3.4e38f, kInfinity}) {
    EXPECT_EQ(f32_to_e4m3(value), 0x7E) << value;
    EXPECT_EQ(f32_to_e4m3(-value), 0xFE) << value;
  }
  for (float value : {57344.0f, 61440.0f, 1e6f, 3.4e38f, kInfinity}) {
    EXPECT_EQ(f32_to_e5m2(value), 0x7B) << value;
    EXPECT_EQ(f32_to_e5m2(-value), 0xFB) << value;
  }
  for (float value : {6.0f, 7.0f, 100.0f, kInfinity}) {
    EXPECT_EQ(f32_to_e2m1(value), 7) << value;
    EXPECT_EQ(f32_to_e2m1(-value), 15) << value;
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7C00);
}

TEST(Scalar, TENSOR_3_StickyBitsDecideTies) {
  EXPECT_EQ(f32_to_e2m1(0.25f), 0);
  EXPECT_EQ(f32_to_e2m1(0.25000006f), 1);
  EXPECT_EQ(f32_to_e2m1(0.75f), 2);
  EXPECT_EQ(f32_to_e2m1(2.5f), 4);
  EXPECT_EQ(f32_to_e2m1(5.0f), 6);
  EXPECT_EQ(f32_to_e2m1(5.0000005f), 7);
}

TEST(Scalar, TENSOR_3_E8M0ScaleIsTheSmallestPowerNotBelow) {
  struct Case {
    float value;
    int code;
  };
  for (auto [value, code] : {Case{1.0f, 127}, {1.5f, 128}, {0.75f, 127}, {0.001f, 118}, {1e-4f / 448, 105}}) {
    EXPECT_EQ(f32_to_e8m0_ceil(value), code) << value;
  }
  EXPECT_EQ(f32_to_e8m0_ceil(0.0f), 1);
  EXPECT_EQ(f32_to_e8m0_ceil(1e-45f), 1);
  EXPECT_EQ(f32_to_e8m0_ceil(-2.0f), 1);
  EXPECT_EQ(f32_to_e8m0_ceil(3.4e38f), 254);
  EXPECT_EQ(f32_to_e8m0_ceil(kInfinity), 254);
}

}  // namespace
}  // namespace vernier
