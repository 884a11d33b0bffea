#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tensor/qtensor.h"
#include "tensor/scalar.h"
#include "unit/tensor/sample_qtensor.h"

namespace vernier {
namespace {

/// Any float that is a number, every exponent as likely as another.
float draw_number() {
  float value = std::bit_cast<float>(*rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<uint32_t>()));
  return std::isnan(value) ? 0.0f : value;
}

struct Format {
  const char* name;
  float largest;
  bool has_infinity;
  float (*round)(float);
};

const std::vector<Format> kFormats = {
    {"f16", 65504.0f, true, [](float x) { return f16_to_f32(f32_to_f16(x)); }},
    {"bf16", 0x1.FEp127f, true, [](float x) { return bf16_to_f32(f32_to_bf16(x)); }},
    {"e4m3", 448.0f, false, [](float x) { return e4m3_to_f32(f32_to_e4m3(x)); }},
    {"e5m2", 57344.0f, false, [](float x) { return e5m2_to_f32(f32_to_e5m2(x)); }},
    {"e2m1", 6.0f, false, [](float x) { return e2m1_to_f32(f32_to_e2m1(x)); }},
};

RC_GTEST_PROP(ScalarLaws, TENSOR_3_RoundingIsMonotonicOddAndIdempotent, ()) {
  float a = draw_number();
  // Half of the time a close neighbour, where order is hard to keep.
  float b = *rc::gen::arbitrary<bool>() ? draw_number()
                                        : a * (1.0f + static_cast<float>(*rc::gen::inRange(-100, 100)) * 0x1p-12f);
  RC_PRE(!std::isnan(b));
  for (const Format& format : kFormats) {
    float low = format.round(std::min(a, b));
    float high = format.round(std::max(a, b));
    RC_ASSERT(low <= high);
    RC_ASSERT(std::bit_cast<uint32_t>(format.round(-a)) == (std::bit_cast<uint32_t>(format.round(a)) ^ 0x80000000u));
    if (std::isfinite(low)) RC_ASSERT(std::bit_cast<uint32_t>(format.round(low)) == std::bit_cast<uint32_t>(low));
  }
}

RC_GTEST_PROP(ScalarLaws, TENSOR_3_NoResultIsBeyondTheLargest, ()) {
  float value = draw_number();
  for (const Format& format : kFormats) {
    float rounded = format.round(value);
    RC_ASSERT(!std::isnan(rounded));
    RC_ASSERT(std::fabs(rounded) <= format.largest || format.has_infinity);
    if (std::fabs(value) > format.largest && !format.has_infinity) RC_ASSERT(std::fabs(rounded) == format.largest);
    RC_ASSERT(std::signbit(rounded) == std::signbit(value));
  }
}

RC_GTEST_PROP(ScalarLaws, TENSOR_3_TheRoundedScaleIsNeverBelowAndLessThanTwice, ()) {
  float value = std::fabs(draw_number());
  float scale = e8m0_to_f32(f32_to_e8m0_ceil(value));
  RC_ASSERT(scale >= std::min(value, 0x1p127f));
  RC_ASSERT(scale / 2 < value || scale == 0x1p-126f);
}

std::vector<float> draw_values(int64_t rows, int64_t cols) {
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
  std::normal_distribution<float> normal(0, 1);
  float size = std::array{0.3f, 1.7f, 0.0006f, 23.0f}[random() % 4];
  std::vector<float> values(static_cast<size_t>(rows * cols));
  for (float& value : values) value = normal(random) * size * (random() % 16 == 0 ? 30.0f : 1.0f);
  return values;
}

bool is_k_format(CodecId id) {
  return id >= CodecId::kQ2_K && id <= CodecId::kQ6_K;
}

RC_GTEST_PROP(EncodeLaws, TENSOR_9_EncodingWhatWasDecodedChangesNothing, ()) {
  const Codec codec = *rc::gen::elementOf(testing::codecs_under_test());
  RC_PRE(!is_k_format(codec.id));
  int64_t rows = *rc::gen::inRange<int64_t>(1, 9);
  int64_t cols = 64 * *rc::gen::inRange<int64_t>(1, 4);
  std::vector<float> once = encode(codec, rows, cols, draw_values(rows, cols)).value().decode();
  std::vector<float> twice = encode(codec, rows, cols, once).value().decode();
  for (size_t i = 0; i < once.size(); ++i) RC_ASSERT(once[i] == twice[i]);
}

/// Codes that nobody's encoder chose, in the formats whose scales are narrow.
RC_GTEST_PROP(EncodeLaws, TENSOR_9_EveryBlockOf32ComesBack, ()) {
  CodecId id = *rc::gen::element(CodecId::kMxfp8, CodecId::kMxfp4, CodecId::kGgufMxfp4, CodecId::kQ4_0, CodecId::kQ5_0,
                                 CodecId::kQ8_0);
  std::vector<float> values = testing::sample_qtensor(codec(id), 3, 64, *rc::gen::arbitrary<uint32_t>()).decode();
  std::vector<float> again = encode(codec(id), 3, 64, values).value().decode();
  for (size_t i = 0; i < values.size(); ++i) RC_ASSERT(values[i] == again[i]);
}

RC_GTEST_PROP(EncodeLaws, TENSOR_9_EveryBlockWithAnOffsetComesBack, ()) {
  CodecId id = *rc::gen::element(CodecId::kQ4_1, CodecId::kQ5_1);
  std::vector<float> values = testing::sample_qtensor(codec(id), 3, 64, *rc::gen::arbitrary<uint32_t>()).decode();
  std::vector<float> again = encode(codec(id), 3, 64, values).value().decode();
  for (size_t i = 0; i < values.size(); ++i) RC_ASSERT(values[i] == again[i]);
}

}  // namespace
}  // namespace vernier
