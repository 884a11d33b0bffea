#include <gtest/gtest.h>

#include <bit>

#include "codec_goldens.h"
#include "tensor/qtensor.h"

namespace vernier {
namespace {

class GgufGolden : public ::testing::TestWithParam<CodecId> {};

TEST_P(GgufGolden, TENSOR_4_BlocksDecodeToTheBitsOfTheReference) {
  const Codec& format = codec(GetParam());
  testing::GoldenReader golden(std::string(format.name) + ".blocks");
  auto blocks = golden.next<uint32_t>();
  ASSERT_EQ(golden.next<uint32_t>(), static_cast<uint32_t>(format.block_bytes));
  ASSERT_EQ(golden.next<uint32_t>(), static_cast<uint32_t>(format.group_cols));
  std::vector<std::byte> codes = golden.next_bytes(size_t{blocks} * static_cast<size_t>(format.block_bytes));
  std::vector<float> expected = golden.next_floats(size_t{blocks} * static_cast<size_t>(format.group_cols));
  ASSERT_TRUE(golden.at_end());

  // One row of all blocks, and one block a row.
  for (int64_t rows : {int64_t{1}, int64_t{blocks}}) {
    int64_t cols = static_cast<int64_t>(expected.size()) / rows;
    QTensor tensor = QTensor::make({format, rows, cols, Bytes(codes), std::nullopt, {}, {}, "golden"}).value();
    std::vector<float> found = tensor.decode();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i]))
          << format.name << " element " << i << ": " << found[i] << " instead of " << expected[i];
    }
    EXPECT_TRUE(tensor.check_finite(0, rows).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(AllBlocks, GgufGolden,
                         ::testing::Values(CodecId::kQ4_0, CodecId::kQ4_1, CodecId::kQ5_0, CodecId::kQ5_1,
                                           CodecId::kQ8_0, CodecId::kQ2_K, CodecId::kQ3_K, CodecId::kQ4_K,
                                           CodecId::kQ5_K, CodecId::kQ6_K, CodecId::kGgufMxfp4),
                         [](const auto& info) { return std::string(codec(info.param).name); });

}  // namespace
}  // namespace vernier
