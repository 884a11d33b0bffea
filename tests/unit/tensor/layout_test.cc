#include "tensor/layout.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tensor/prepared.h"
#include "tensor/scale_level.h"
#include "unit/tensor/sample_qtensor.h"

namespace vernier {
namespace {

using testing::sample_qtensor;

std::vector<int64_t> first(const std::vector<int64_t>& rows, size_t count) {
  return {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count)};
}

// Places computed from the definition of the 128x4 order by hand.
TEST(ScaleOrder, TENSOR_10_Tiles128x4StandWhereTheHardwareReadsThem) {
  struct Place {
    int64_t row, col, across, byte;
  };
  for (const Place& at : {Place{0, 0, 4, 0}, Place{0, 3, 4, 3}, Place{1, 0, 4, 16}, Place{32, 0, 4, 4},
                          Place{33, 2, 4, 22}, Place{127, 3, 4, 511}, Place{128, 0, 4, 512}, Place{0, 4, 8, 512},
                          Place{5, 6, 8, 594}, Place{130, 7, 8, 1571}}) {
    const ScaleTable table{ScaleOrder::kTiles128x4, 131, at.across, 1};
    EXPECT_EQ(table.place(at.row, at.col), at.byte) << at.row << " " << at.col;
  }
}

TEST(ScaleOrder, TENSOR_10_TablesAreWholeTiles) {
  EXPECT_EQ((ScaleTable{ScaleOrder::kTiles128x4, 129, 5, 1}).bytes(), 256 * 8);
  EXPECT_EQ((ScaleTable{ScaleOrder::kTiles8x4, 9, 5, 1}).bytes(), 16 * 8);
  EXPECT_EQ((ScaleTable{ScaleOrder::kTiles8x4, 9, 8, 1}).place(8, 5), 64 + 32 + 1);
  EXPECT_EQ((ScaleTable{ScaleOrder::kColumns, 3, 2, 4}).bytes(), 2 * 16);
  EXPECT_EQ((ScaleTable{ScaleOrder::kColumns, 3, 2, 4}).place(2, 1), 16 + 8);
  // Four exponents a word, words of one column below each other, columns of whole 16 bytes.
  EXPECT_EQ((ScaleTable{ScaleOrder::kWords, 3, 6, 1}).bytes(), 2 * 16);
  EXPECT_EQ((ScaleTable{ScaleOrder::kWords, 3, 6, 1}).place(2, 5), 16 + 8 + 1);
}

TEST(ScaleOrder, TENSOR_10_NoTwoScalesShareAByte) {
  for (ScaleOrder order :
       {ScaleOrder::kRows, ScaleOrder::kColumns, ScaleOrder::kTiles128x4, ScaleOrder::kTiles8x4, ScaleOrder::kWords}) {
    const ScaleTable table{order, 141, 7, 1};
    std::set<int64_t> places;
    for (int64_t row = 0; row < table.down; ++row) {
      for (int64_t col = 0; col < table.across; ++col) {
        EXPECT_LT(table.place(row, col), table.bytes());
        EXPECT_TRUE(places.insert(table.place(row, col)).second) << name(order) << " " << row << " " << col;
      }
    }
  }
}

TEST(RowSources, TENSOR_10_ShufflesAreThePublishedOnes) {
  const std::array<int64_t, 1> rows{32};
  Layout layout;
  layout.shuffle = RowShuffle::kBlocks32;
  EXPECT_EQ(row_sources(rows, layout).value(),
            (std::vector<int64_t>{0, 4, 8,  12, 16, 20, 24, 28, 1, 5, 9,  13, 17, 21, 25, 29,
                                  2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31}));
  layout.shuffle = RowShuffle::kBlocks16;
  EXPECT_EQ(first(row_sources(rows, layout).value(), 18),
            (std::vector<int64_t>{0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15, 16, 18}));
}

TEST(RowSources, TENSOR_10_AlternatingPartsAreShuffledAfterwards) {
  Layout layout;
  layout.parts_alternate = true;
  layout.shuffle = RowShuffle::kBlocks32;
  EXPECT_EQ(first(row_sources(std::array<int64_t, 2>{32, 32}, layout).value(), 16),
            (std::vector<int64_t>{0, 2, 4, 6, 8, 10, 12, 14, 32, 34, 36, 38, 40, 42, 44, 46}));
  layout.last_part_first = true;
  EXPECT_EQ(first(row_sources(std::array<int64_t, 2>{32, 32}, layout).value(), 9),
            (std::vector<int64_t>{32, 34, 36, 38, 40, 42, 44, 46, 0}));
}

TEST(RowSources, TENSOR_10_AnOrderThatCannotBeIsRefused) {
  Layout layout;
  layout.shuffle = RowShuffle::kBlocks32;
  EXPECT_FALSE(row_sources(std::array<int64_t, 1>{48}, layout).ok());
  layout.parts_alternate = true;
  EXPECT_FALSE(row_sources(std::array<int64_t, 1>{64}, layout).ok());
  EXPECT_FALSE(row_sources(std::array<int64_t, 2>{64, 32}, layout).ok());
}

// Padding a fused matrix at its end would put gate rows among the up rows.
TEST(RowSources, TENSOR_10_EachPartIsPaddedForItself) {
  Layout layout;
  layout.row_multiple = 32;
  const std::vector<int64_t> rows = row_sources(std::array<int64_t, 2>{22, 22}, layout).value();
  ASSERT_EQ(rows.size(), 64u);
  for (size_t row = 0; row < 64; ++row) {
    const int64_t within = static_cast<int64_t>(row) % 32;
    EXPECT_EQ(rows[row], within >= 22 ? kPaddingRow : static_cast<int64_t>(row) / 32 * 22 + within);
  }
}

TEST(Prepared, TENSOR_11_AUnitScaleIsOneInItsOwnEncoding) {
  std::array<std::byte, 4> at{};
  put_unit_scale(ScaleType::kE8M0, at.data());
  EXPECT_EQ(at[0], std::byte{127});
  put_unit_scale(ScaleType::kE4M3, at.data());
  EXPECT_EQ(at[0], std::byte{0x38});
  put_unit_scale(ScaleType::kF32, at.data());
  EXPECT_EQ(scale_value(ScaleType::kF32, at, 0), 1.0f);
}

Layout experts_layout() {
  return {128, 128, true, true, RowShuffle::kBlocks32, ScaleOrder::kTiles128x4};
}

// Width 160, hidden 256: padded to 256, up first, rows in turns, shuffled; scales take the same order.
TEST(Prepared, TENSOR_10_ExpertsLieAsTheirKernelReadsThem) {
  const std::array<QTensor, 2> parts{sample_qtensor(codec(CodecId::kMxfp4), 160, 256, 1),
                                     sample_qtensor(codec(CodecId::kMxfp4), 160, 256, 2)};
  const PreparedTensor made = PreparedTensor::prepare(parts, experts_layout()).value();
  EXPECT_EQ(made.extents().rows, 320);
  EXPECT_EQ(made.extents().physical_rows, 512);
  EXPECT_EQ(made.extents().scale_bytes, 512 * 8);
  const PreparedTensor::View view = made.view();
  const ScaleTable table{ScaleOrder::kTiles128x4, 512, 8, 1};
  // Physical row 1 is alternating row 4, the up part's row 2; row 8 is alternating row 1, the gate part's row 0.
  for (auto [physical, part, row] : {std::tuple{1, 1, 2}, {8, 0, 0}, {32 + 8 + 1, 0, 18}}) {
    const QTensor::View from = parts[static_cast<size_t>(part)].view();
    EXPECT_TRUE(std::ranges::equal(view.codes.subspan(static_cast<size_t>(physical) * 128, 128),
                                   from.codes.subspan(static_cast<size_t>(row) * 128, 128)));
    for (int64_t group = 0; group < 8; ++group) {
      EXPECT_EQ(view.scales[static_cast<size_t>(table.place(physical, group))],
                from.inner_scales[static_cast<size_t>(row * 8 + group)]);
    }
  }
}

TEST(Prepared, TENSOR_12_PreparingTwiceChangesNothing) {
  const QTensor tensor = sample_qtensor(codec(CodecId::kMxfp4), 160, 96, 3);
  Layout layout;
  layout.row_multiple = 32;
  layout.shuffle = RowShuffle::kBlocks32;
  const PreparedTensor once = PreparedTensor::prepare(std::span(&tensor, 1), layout).value();
  const PreparedTensor twice = once.prepare(layout).value();
  EXPECT_EQ(twice.view().codes.data(), once.view().codes.data());
  // Into another layout it goes from what was stored, not from what was shuffled.
  const PreparedTensor plain = once.prepare(Layout{}).value();
  EXPECT_TRUE(std::ranges::equal(plain.view().codes, tensor.view().codes));
}

// A reload writes the padding too: what an earlier order of rows left there would be read as numbers.
TEST(Prepared, TENSOR_11_WritingIntoUsedMemoryLeavesNothingBehind) {
  for (int64_t width : {96, 128, 160, 192, 288, 320}) {
    const std::array<QTensor, 2> parts{sample_qtensor(codec(CodecId::kMxfp4), width, 64, 1),
                                       sample_qtensor(codec(CodecId::kMxfp4), width, 64, 2)};
    const PreparedTensor made = PreparedTensor::prepare(parts, experts_layout()).value();
    std::vector<std::byte> codes(static_cast<size_t>(made.extents().code_bytes), std::byte{0xA5});
    std::vector<std::byte> scales(static_cast<size_t>(made.extents().scale_bytes), std::byte{0xA5});
    ASSERT_TRUE(write_prepared(parts, experts_layout(), codes, scales).ok());
    EXPECT_TRUE(std::ranges::equal(codes, made.view().codes)) << width;
    EXPECT_TRUE(std::ranges::equal(scales, made.view().scales)) << width;
  }
}

TEST(Prepared, TENSOR_11_BlocksOfAPartEndWithIt) {
  // Gate and up of 320 rows in blocks of 128: three blocks each, and not five together.
  const Codec block = block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32);
  const std::array<QTensor, 2> parts{sample_qtensor(block, 320, 128, 1), sample_qtensor(block, 320, 128, 2)};
  Layout layout;
  EXPECT_FALSE(PreparedTensor::prepare(parts, layout).ok());
  layout.row_multiple = 128;
  const PreparedTensor made = PreparedTensor::prepare(parts, layout).value();
  EXPECT_EQ(made.extents().scale_bytes, 6 * 4);
  EXPECT_EQ(scale_value(ScaleType::kF32, made.view().scales, 3),
            scale_value(ScaleType::kF32, parts[1].view().inner_scales, 0));
}

TEST(Prepared, TENSOR_10_WhatALayoutCannotHoldIsRefused) {
  const QTensor block = sample_qtensor(block_codec(CodecId::kE4M3Block, 16, 128, ScaleType::kF32), 256, 128, 1);
  Layout layout;
  layout.shuffle = RowShuffle::kBlocks32;
  EXPECT_FALSE(PreparedTensor::prepare(std::span(&block, 1), layout).ok());  // rows of a block would part
  layout = {};
  layout.scales = ScaleOrder::kWords;
  EXPECT_FALSE(PreparedTensor::prepare(std::span(&block, 1), layout).ok());  // f32 scales are no bytes
  const QTensor gguf = sample_qtensor(codec(CodecId::kQ4_1), 32, 64, 1);
  EXPECT_FALSE(PreparedTensor::prepare(std::span(&gguf, 1), Layout{}).ok());
  // Two global scales, and rows mixed.
  const QTensor nvfp4 = sample_qtensor(codec(CodecId::kNvfp4), 64, 64, 1, 2);
  layout = {};
  layout.shuffle = RowShuffle::kBlocks32;
  EXPECT_FALSE(PreparedTensor::prepare(std::span(&nvfp4, 1), layout).ok());
}

}  // namespace
}  // namespace vernier
