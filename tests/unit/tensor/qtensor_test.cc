#include "tensor/qtensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tensor/scalar.h"
#include "tensor/tensor.h"
#include "unit/tensor/sample_qtensor.h"

namespace vernier {
namespace {

Bytes bytes_of(std::vector<uint8_t> values) {
  std::vector<std::byte> bytes(values.size());
  std::memcpy(bytes.data(), values.data(), values.size());
  return Bytes(std::move(bytes));
}

Bytes bytes_of_floats(std::vector<float> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return Bytes(std::move(bytes));
}

QTensorParts parts_of(const Codec& codec, int64_t rows, int64_t cols) {
  QTensor sample = testing::sample_qtensor(codec, rows, cols, 1);
  QTensor::View view = sample.view();
  QTensorParts parts{codec, rows, cols, Bytes({view.codes.begin(), view.codes.end()}), std::nullopt, {}, {}, "w"};
  if (codec.inner != ScaleType::kNone) parts.inner_scales = Bytes({view.inner_scales.begin(), view.inner_scales.end()});
  parts.outer_scales.assign(view.outer_scales.begin(), view.outer_scales.end());
  return parts;
}

Bytes with_byte(const Bytes& bytes, size_t at, uint8_t value) {
  std::vector<std::byte> changed(bytes.span().begin(), bytes.span().end());
  changed.at(at) = std::byte{value};
  return Bytes(std::move(changed));
}

TEST(QTensor, TENSOR_5_RefusesAnotherByteCountForEveryCodec) {
  for (const Codec& codec : testing::codecs_under_test()) {
    EXPECT_TRUE(QTensor::make(parts_of(codec, 6, 512)).ok()) << codec.name;
    QTensorParts cut = parts_of(codec, 6, 512);
    cut.codes = cut.codes.slice(0, cut.codes.size() - 1);
    Result<QTensor> result = QTensor::make(std::move(cut));
    ASSERT_FALSE(result.ok()) << codec.name;
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(result.error().where, "w");
  }
}

TEST(QTensor, TENSOR_1_RefusesExtentsThatWrap) {
  for (const Codec& codec : testing::codecs_under_test()) {
    for (auto [rows, cols] : std::vector<std::pair<int64_t, int64_t>>{{0, 256},
                                                                      {4, 0},
                                                                      {-1, 256},
                                                                      {int64_t{1} << 32, int64_t{1} << 32},
                                                                      {std::numeric_limits<int64_t>::max(), 256}}) {
      QTensorParts parts = parts_of(codec, 2, 256);
      parts.rows = rows;
      parts.cols = cols;
      EXPECT_FALSE(QTensor::make(std::move(parts)).ok()) << codec.name << " " << rows << " " << cols;
    }
  }
}

TEST(QTensor, TENSOR_5_ScalesStandExactlyWhereTheCodecHasThem) {
  for (const Codec& codec : testing::codecs_under_test()) {
    QTensorParts wrong = parts_of(codec, 6, 256);
    if (codec.inner == ScaleType::kNone) {
      wrong.inner_scales = bytes_of_floats({1.0f});
    } else {
      wrong.inner_scales = std::nullopt;
    }
    EXPECT_FALSE(QTensor::make(std::move(wrong)).ok()) << codec.name;

    QTensorParts global = parts_of(codec, 6, 256);
    global.outer_scales = codec.outer_scale ? std::vector<float>{} : std::vector<float>{0.5f};
    EXPECT_FALSE(QTensor::make(std::move(global)).ok()) << codec.name;

    if (codec.inner == ScaleType::kNone) continue;
    QTensorParts few = parts_of(codec, 6, 256);
    few.inner_scales = few.inner_scales->slice(0, few.inner_scales->size() - 1);
    EXPECT_FALSE(QTensor::make(std::move(few)).ok()) << codec.name;
  }
}

TEST(QTensor, TENSOR_5_RefusesScalesThatAreNoPositiveNumbers) {
  // f32: 0, negative, NaN, infinite.
  for (float bad : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    QTensorParts parts = parts_of(codec(CodecId::kE4M3Channel), 3, 8);
    parts.inner_scales = bytes_of_floats({0.3f, 1.7f, bad});
    Result<QTensor> result = QTensor::make(std::move(parts));
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_NE(result.error().message.find("scale [2, 0]"), std::string::npos) << result.error().message;

    QTensorParts global = parts_of(codec(CodecId::kNvfp4), 3, 32);
    global.outer_scales = {bad};
    EXPECT_FALSE(QTensor::make(std::move(global)).ok()) << bad;
  }
  QTensorParts mx = parts_of(codec(CodecId::kMxfp8), 3, 64);
  mx.inner_scales = with_byte(*mx.inner_scales, 4, 0xFF);
  EXPECT_FALSE(QTensor::make(std::move(mx)).ok());
  for (uint8_t bad : {0x7F, 0xFF, 0x80, 0xB8}) {
    QTensorParts nv = parts_of(codec(CodecId::kNvfp4), 3, 32);
    nv.inner_scales = with_byte(*nv.inner_scales, 5, bad);
    Result<QTensor> result = QTensor::make(std::move(nv));
    ASSERT_FALSE(result.ok()) << int{bad};
    EXPECT_NE(result.error().message.find("scale [2, 1]"), std::string::npos) << result.error().message;
  }
  QTensorParts silent = parts_of(codec(CodecId::kNvfp4), 3, 32);
  silent.inner_scales = with_byte(*silent.inner_scales, 5, 0);
  EXPECT_TRUE(QTensor::make(std::move(silent)).ok());
}

TEST(QTensor, TENSOR_5_SegmentsCoverTheRowsExactly) {
  for (const std::vector<int64_t>& segments :
       std::vector<std::vector<int64_t>>{{2, 1}, {2, 5}, {6, 0}, {-1, 7}, {4, std::numeric_limits<int64_t>::max()}}) {
    QTensorParts parts = parts_of(codec(CodecId::kNvfp4), 6, 32);
    parts.outer_scales = {0.3f, 1.7f};
    parts.segment_rows = segments;
    EXPECT_FALSE(QTensor::make(std::move(parts)).ok()) << segments[0] << " " << segments[1];
  }
  QTensorParts few = parts_of(codec(CodecId::kNvfp4), 6, 32);
  few.outer_scales = {0.3f};
  few.segment_rows = {2, 4};
  EXPECT_FALSE(QTensor::make(std::move(few)).ok());
}

TEST(QTensor, RefusesACodecThatIsNoRowOfTheTable) {
  QTensorParts parts = parts_of(codec(CodecId::kE4M3Channel), 3, 8);
  parts.codec.element = Element::kE5M2;
  EXPECT_FALSE(QTensor::make(parts).ok());
  parts.codec = codec(CodecId::kMxfp8);
  parts.codec.group_cols = 8;
  EXPECT_FALSE(QTensor::make(parts).ok());
}

TEST(QTensor, TENSOR_2_EveryScaleLevelActs) {
  // E4M3 0x38 is 1, 0x40 is 2, 0xB8 is -1.
  auto decoded = [](const Codec& codec, int64_t rows, int64_t cols, std::vector<uint8_t> codes, Bytes scales,
                    std::vector<float> outer = {}) {
    return QTensor::make({codec, rows, cols, bytes_of(std::move(codes)), scales, std::move(outer), {}, "w"})
        .value()
        .decode();
  };
  EXPECT_EQ(decoded(codec(CodecId::kE4M3Tensor), 2, 2, {0x38, 0x40, 0xB8, 0x38}, bytes_of_floats({0.3f})),
            (std::vector<float>{0.3f, 0.6f, -0.3f, 0.3f}));
  EXPECT_EQ(decoded(codec(CodecId::kE4M3Channel), 2, 2, {0x38, 0x40, 0xB8, 0x38}, bytes_of_floats({0.3f, 1.7f})),
            (std::vector<float>{0.3f, 0.6f, -1.7f, 1.7f}));
  EXPECT_EQ(decoded(block_codec(CodecId::kE4M3Block, 2, 2, ScaleType::kF32), 3, 3, std::vector<uint8_t>(9, 0x38),
                    bytes_of_floats({0.3f, 1.7f, 0.6f, 2.9f})),
            (std::vector<float>{0.3f, 0.3f, 1.7f, 0.3f, 0.3f, 1.7f, 0.6f, 0.6f, 2.9f}));
  EXPECT_EQ(
      decoded(block_codec(CodecId::kE4M3Block, 2, 2, ScaleType::kE8M0), 1, 3, {0x38, 0x40, 0xB8}, bytes_of({126, 130})),
      (std::vector<float>{0.5f, 1.0f, -8.0f}));
}

TEST(QTensor, TENSOR_2_FourBitCodesStandLowNibbleFirst) {
  std::vector<uint8_t> codes(16, 0x2F);
  std::vector<float> mx =
      QTensor::make({codec(CodecId::kMxfp4), 1, 32, bytes_of(codes), bytes_of({128}), {}, {}, "w"}).value().decode();
  EXPECT_EQ(mx[0], -12.0f);
  EXPECT_EQ(mx[1], 2.0f);
  EXPECT_EQ(mx[31], 2.0f);
  // Two groups of 16 with E4M3 scales 1.5 and 2, and a global scale.
  std::vector<float> nv =
      QTensor::make({codec(CodecId::kNvfp4), 1, 32, bytes_of(codes), bytes_of({0x3C, 0x40}), {0.3f}, {}, "w"})
          .value()
          .decode();
  EXPECT_EQ(nv[0], -9.0f * 0.3f);
  EXPECT_EQ(nv[1], 1.5f * 0.3f);
  EXPECT_EQ(nv[16], -12.0f * 0.3f);
}

TEST(QTensor, TENSOR_2_TheSmallestE8M0ScaleIsNotZero) {
  std::vector<float> values =
      QTensor::make(
          {codec(CodecId::kMxfp8), 1, 32, bytes_of(std::vector<uint8_t>(32, 0x38)), bytes_of({0}), {}, {}, "w"})
          .value()
          .decode();
  EXPECT_EQ(std::bit_cast<uint32_t>(values[0]), 0x00400000u);
}

TEST(QTensor, TENSOR_5_FindsTheGgufBlockWhoseScaleIsDamaged) {
  for (const Codec& codec : all_codecs()) {
    if (codec.packing != Packing::kGgufBlock) continue;
    QTensorParts parts = parts_of(codec, 4, 512);
    auto blocks_across = static_cast<size_t>(512 / codec.group_cols);
    auto block_bytes = static_cast<size_t>(codec.block_bytes);
    // The last scale field of the last block of row 2.
    size_t block = 3 * blocks_across - 1;
    bool scale_is_last = codec.id == CodecId::kQ2_K || codec.id == CodecId::kQ3_K || codec.id == CodecId::kQ6_K;
    bool two_scales = codec.id == CodecId::kQ4_1 || codec.id == CodecId::kQ5_1 || codec.id == CodecId::kQ4_K ||
                      codec.id == CodecId::kQ5_K;
    size_t high_byte = scale_is_last ? block_bytes - 1 : two_scales ? 3 : codec.id == CodecId::kGgufMxfp4 ? 0 : 1;
    parts.codes =
        with_byte(parts.codes, block * block_bytes + high_byte, codec.id == CodecId::kGgufMxfp4 ? 0xFF : 0x7C);
    QTensor tensor = QTensor::make(std::move(parts)).value();
    EXPECT_TRUE(tensor.check_finite(0, 2).ok()) << codec.name;
    EXPECT_TRUE(tensor.check_finite(3, 4).ok()) << codec.name;
    Status damaged = tensor.check_finite(0, 4);
    ASSERT_FALSE(damaged.ok()) << codec.name;
    EXPECT_NE(damaged.error().message.find(fmt::format("[2, {}]", blocks_across - 1)), std::string::npos)
        << damaged.error().message;
  }
}

// Finite but wrong answers came of a NaN that a comparison swallowed: what is no number is found wherever it stands.
TEST(QTensor, TENSOR_5_FindsTheCodeThatIsNoFiniteNumber) {
  struct Bad {
    CodecId id;
    std::vector<uint8_t> code;
  };
  for (const Bad& bad :
       {Bad{CodecId::kF32, {0, 0, 0x80, 0x7F}}, Bad{CodecId::kF32, {1, 0, 0xC0, 0xFF}}, Bad{CodecId::kF16, {0, 0xFC}},
        Bad{CodecId::kBF16, {0x80, 0x7F}}, Bad{CodecId::kE4M3Tensor, {0x7F}}, Bad{CodecId::kE4M3Channel, {0xFF}},
        Bad{CodecId::kE5M2Tensor, {0x7C}}, Bad{CodecId::kE5M2Tensor, {0xFE}}}) {
    for (size_t at : {size_t{0}, size_t{1500}, size_t{4 * 700 - 1}}) {
      QTensorParts parts = parts_of(codec(bad.id), 4, 700);
      for (size_t i = 0; i < bad.code.size(); ++i) {
        parts.codes = with_byte(parts.codes, at * bad.code.size() + i, bad.code[i]);
      }
      const auto row = static_cast<int64_t>(at) / 700;
      const QTensor tensor = QTensor::make(std::move(parts)).value();
      const Status found = tensor.check_finite(0, 4);
      ASSERT_FALSE(found.ok()) << codec(bad.id).name << " at " << at;
      EXPECT_NE(found.error().message.find(fmt::format("[{}, {}]", row, at % 700)), std::string::npos);
    }
  }
  EXPECT_TRUE(QTensor::make(parts_of(codec(CodecId::kMxfp4), 4, 64)).value().check_finite(0, 4).ok());
}

TEST(QTensor, DenseTensorsKeepTheirNumbers) {
  std::vector<float> values = {1.5f, -0.0f, 3.25f, 7.0f, -8.0f, 0.1f};
  QTensor matrix = QTensor::from_dense(Tensor::from_floats(Shape({2, 3}), values), "w").value();
  EXPECT_EQ(matrix.codec().id, CodecId::kF32);
  EXPECT_EQ(matrix.decode(), values);
  EXPECT_TRUE(std::signbit(matrix.decode()[1]));
  EXPECT_EQ(matrix.stored_bytes(), 24u);
  QTensor row = QTensor::from_dense(Tensor::from_floats(Shape({6}), values), "w").value();
  EXPECT_EQ(row.rows(), 1);
  EXPECT_EQ(row.cols(), 6);
  Tensor cube = Tensor::from_floats(Shape({1, 2, 3}), values);
  EXPECT_FALSE(QTensor::from_dense(cube, "w").ok());
  Tensor ints = Tensor::make(DType::kI32, Shape({2, 3}), bytes_of_floats(values)).value();
  EXPECT_FALSE(QTensor::from_dense(ints, "w").ok());
}

TEST(QTensorDeathTest, DecodeRowStaysInside) {
  QTensor tensor = testing::sample_qtensor(codec(CodecId::kQ8_0), 2, 32, 1);
  std::vector<float> row(32);
  EXPECT_DEATH(tensor.decode_row(2, row), "row 2 of 2");
  EXPECT_DEATH(tensor.decode_row(0, std::span(row).first(31)), "31 values");
}

}  // namespace
}  // namespace vernier
