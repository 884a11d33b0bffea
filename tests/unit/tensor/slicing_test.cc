#include <gtest/gtest.h>

#include "tensor/qtensor.h"
#include "unit/tensor/sample_qtensor.h"

namespace vernier {
namespace {

using testing::sample_qtensor;

void expect_error(const Result<QTensor>& result, const std::string& part) {
  ASSERT_FALSE(result.ok()) << part;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

TEST(Slicing, TENSOR_8_ACutThroughAGroupNamesTheNearestThatWork) {
  QTensor block = sample_qtensor(block_codec(CodecId::kE4M3Block, 128, 64, ScaleType::kF32), 300, 200, 1);
  expect_error(block.slice_rows(0, 130), "nearest cuts that work are 128 and 256");
  expect_error(block.slice_rows(257, 300), "256 and 300");
  expect_error(block.slice_cols(0, 199), "192 and 200");
  expect_error(block.slice_cols(1, 64), "0 and 64");
  expect_error(sample_qtensor(codec(CodecId::kMxfp4), 2, 96, 1).slice_cols(0, 48), "32 and 64");
  expect_error(sample_qtensor(codec(CodecId::kNvfp4), 2, 96, 1).slice_cols(8, 96), "0 and 16");
  expect_error(sample_qtensor(codec(CodecId::kQ4_K), 2, 768, 1).slice_cols(256, 600), "512 and 768");
  EXPECT_TRUE(block.slice_rows(256, 300).ok());
  EXPECT_TRUE(block.slice_cols(192, 200).ok());
}

TEST(Slicing, TENSOR_8_ARaggedEndCanOnlyBeTheEnd) {
  QTensor block = sample_qtensor(block_codec(CodecId::kE4M3Block, 4, 8, ScaleType::kF32), 10, 20, 1);
  std::vector<QTensor> parts = {block.slice_rows(8, 10).value(), block.slice_rows(0, 8).value()};
  expect_error(QTensor::concat_rows(parts), "last scale group of 4 rows is not full");
}

TEST(Slicing, RefusesPartsThatAreNotThere) {
  for (const Codec& codec : testing::codecs_under_test()) {
    QTensor tensor = sample_qtensor(codec, 4, 256, 1);
    for (auto [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {3, 2}, {-1, 4}, {0, 5}, {4, 4}}) {
      EXPECT_FALSE(tensor.slice_rows(begin, end).ok()) << codec.name;
    }
    EXPECT_FALSE(tensor.slice_cols(0, 257).ok()) << codec.name;
    EXPECT_FALSE(tensor.slice_cols(-256, 256).ok()) << codec.name;
    EXPECT_FALSE(tensor.slice_cols(256, 256).ok()) << codec.name;
  }
}

TEST(Slicing, ConcatRefusesWhatCannotBeOneMatrix) {
  QTensor channel = sample_qtensor(codec(CodecId::kE4M3Channel), 2, 8, 1);
  EXPECT_FALSE(QTensor::concat_rows({}).ok());
  expect_error(QTensor::concat_rows(std::vector{channel, sample_qtensor(codec(CodecId::kE5M2Channel), 2, 8, 1)}),
               "one codec");
  expect_error(QTensor::concat_rows(std::vector{channel, sample_qtensor(codec(CodecId::kE4M3Channel), 2, 9, 1)}),
               "9 columns");
}

TEST(Slicing, TENSOR_7_OneScaleCannotStandForTwo) {
  auto scaled = [](float scale) {
    std::vector<std::byte> bytes(4);
    std::memcpy(bytes.data(), &scale, 4);
    return QTensor::make({codec(CodecId::kE4M3Tensor),
                          1,
                          2,
                          Bytes(std::vector<std::byte>(2, std::byte{0x38})),
                          Bytes(std::move(bytes)),
                          {},
                          {},
                          "w"})
        .value();
  };
  expect_error(QTensor::concat_rows(std::vector{scaled(0.3f), scaled(1.7f)}), "0.3 and 1.7");
  EXPECT_EQ(QTensor::concat_rows(std::vector{scaled(0.3f), scaled(0.3f)}).value().decode(),
            std::vector<float>(4, 0.3f));
}

TEST(Slicing, TENSOR_7_GlobalScalesStayWithTheirRows) {
  QTensor a = sample_qtensor(codec(CodecId::kNvfp4), 3, 32, 1, 2);
  QTensor b = sample_qtensor(codec(CodecId::kNvfp4), 4, 32, 2, 3);
  QTensor both = QTensor::concat_rows(std::vector{a, b}).value();
  EXPECT_EQ(both.view().outer_scales.size(), 5u);
  EXPECT_EQ(both.origin(), "sample+sample");
  std::vector<float> expected = a.decode();
  std::vector<float> below = b.decode();
  expected.insert(expected.end(), below.begin(), below.end());
  EXPECT_EQ(both.decode(), expected);
  QTensor middle = both.slice_rows(2, 5).value();
  EXPECT_EQ(middle.view().outer_scales.size(), 3u);
  EXPECT_EQ(middle.decode(), std::vector<float>(expected.begin() + 2 * 32, expected.begin() + 5 * 32));
  QTensor turned = both.permute_rows(std::vector<int64_t>{6, 0, 5, 1, 4, 2, 3}).value();
  for (auto [to, from] : std::vector<std::pair<int64_t, int64_t>>{{0, 6}, {1, 0}, {2, 5}, {4, 4}, {6, 3}}) {
    EXPECT_EQ(turned.slice_rows(to, to + 1).value().decode(), both.slice_rows(from, from + 1).value().decode());
  }
}

TEST(Slicing, PermuteRefusesSharedScalesAndFalseOrders) {
  QTensor block = sample_qtensor(block_codec(CodecId::kE4M3Block, 2, 8, ScaleType::kF32), 4, 8, 1);
  expect_error(block.permute_rows(std::vector<int64_t>{3, 2, 1, 0}), "share a scale");
  QTensor channel = sample_qtensor(codec(CodecId::kE4M3Channel), 3, 8, 1);
  expect_error(channel.permute_rows(std::vector<int64_t>{0, 1}), "2 entries for 3 rows");
  expect_error(channel.permute_rows(std::vector<int64_t>{0, 1, 3}), "row 3");
  expect_error(channel.permute_rows(std::vector<int64_t>{0, 1, -1}), "row -1");
  expect_error(channel.permute_rows(std::vector<int64_t>{0, 1, 1}), "twice");
}

TEST(Slicing, RowSlicesShareTheirBytes) {
  QTensor whole = sample_qtensor(codec(CodecId::kQ4_0), 4, 64, 1);
  EXPECT_EQ(whole.slice_rows(2, 4).value().view().codes.data(), whole.view().codes.data() + 2 * 36);
}

}  // namespace
}  // namespace vernier
