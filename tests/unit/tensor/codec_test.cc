#include "tensor/codec.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace vernier {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(Codec, EveryRowHasItsOwnNameAndASizeThatFitsItsBits) {
  std::set<std::string_view> names;
  for (const Codec& row : all_codecs()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.disk_name.empty());
    // 256 columns: whole groups of every format.
    EXPECT_GE(row.row_bytes(256) * 8, int64_t{256} * row.bits) << row.name;
    EXPECT_EQ(row.block_bytes > 0, row.packing == Packing::kGgufBlock) << row.name;
    EXPECT_EQ(row.is_dense(), row.id <= CodecId::kBF16) << row.name;
  }
  EXPECT_EQ(names.size(), 23u);
}

TEST(Codec, RowBytesFollowThePacking) {
  EXPECT_EQ(codec(CodecId::kF32).row_bytes(7), 28);
  EXPECT_EQ(codec(CodecId::kBF16).row_bytes(7), 14);
  EXPECT_EQ(codec(CodecId::kE4M3Channel).row_bytes(7), 7);
  EXPECT_EQ(codec(CodecId::kMxfp4).row_bytes(64), 32);
  EXPECT_EQ(codec(CodecId::kQ4_K).row_bytes(512), 288);
}

TEST(Codec, BlockFormatsAreNamedByTheirGroup) {
  Codec wide = block_codec(CodecId::kE4M3Block, 1, 128, ScaleType::kF32);
  Codec narrow = block_codec(CodecId::kE4M3Block, 64, 32, ScaleType::kE8M0);
  EXPECT_EQ(wide.name, "e4m3[1x128]");
  EXPECT_EQ(narrow.name, "e4m3[64x32,e8m0]");
  EXPECT_EQ(block_codec(CodecId::kE5M2Block, 128, 128, ScaleType::kF32).name, "e5m2[128x128]");
  EXPECT_FALSE(wide == narrow);
  EXPECT_EQ(narrow.groups_down(65), 2);
  EXPECT_EQ(narrow.groups_across(32), 1);
}

TEST(Codec, TENSOR_1_ByteCountsCannotWrap) {
  for (const Codec& row : all_codecs()) {
    // A multiple of every group, so that only the product is wrong.
    int64_t many = int64_t{1} << 40;
    EXPECT_FALSE(row.code_bytes(0, 256).ok()) << row.name;
    EXPECT_FALSE(row.code_bytes(4, 0).ok()) << row.name;
    EXPECT_FALSE(row.code_bytes(-1, -256).ok()) << row.name;
    EXPECT_FALSE(row.code_bytes(many, many).ok()) << row.name;
    EXPECT_FALSE(row.code_bytes(kMax, 256).ok()) << row.name;
    EXPECT_FALSE(row.code_bytes(std::numeric_limits<int64_t>::min(), 256).ok()) << row.name;
    EXPECT_EQ(row.code_bytes(3, 512).value(), 3 * row.row_bytes(512)) << row.name;
  }
  EXPECT_FALSE(codec(CodecId::kF32).code_bytes(1, kMax).ok());
  EXPECT_FALSE(codec(CodecId::kQ4_0).code_bytes(1, kMax).ok());
  EXPECT_EQ(codec(CodecId::kF32).row_bytes(kMax), kMax);
}

TEST(Codec, ColumnsThatAreNoMultipleNameTheNearest) {
  Result<int64_t> bytes = codec(CodecId::kQ6_K).code_bytes(2, 576);
  ASSERT_FALSE(bytes.ok());
  EXPECT_NE(bytes.error().message.find("256"), std::string::npos) << bytes.error().message;
  EXPECT_NE(bytes.error().message.find("512 and 768"), std::string::npos) << bytes.error().message;
  EXPECT_FALSE(codec(CodecId::kMxfp8).code_bytes(2, 33).ok());
  EXPECT_FALSE(codec(CodecId::kNvfp4).code_bytes(2, 8).ok());
  EXPECT_TRUE(codec(CodecId::kNvfp4).code_bytes(2, 16).ok());
  // Ragged last blocks exist in checkpoints.
  EXPECT_TRUE(block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32).code_bytes(130, 576).ok());
}

TEST(CodecDeathTest, BlockFormatsHaveNoFixedRow) {
  EXPECT_DEATH((void)codec(CodecId::kE4M3Block), "block_codec");
  EXPECT_DEATH((void)block_codec(CodecId::kE4M3Block, 0, 128, ScaleType::kF32), "0x128");
  EXPECT_DEATH((void)block_codec(CodecId::kMxfp8, 1, 32, ScaleType::kE8M0), "no block format");
}

}  // namespace
}  // namespace vernier
