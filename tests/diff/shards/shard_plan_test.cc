#include "ops/shard_plan.h"

#include <gtest/gtest.h>

#include <cstring>

#include "unit/tensor/sample_qtensor.h"

namespace vernier {
namespace {

using testing::sample_qtensor;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<AxisCut> cuts_of(int64_t extent, int64_t unit, int ranks) {
  return cut_axis(extent, unit, ranks).value();
}

// OPS-10
TEST(CutAxis, WholeUnitsAsEvenlyAsTheyGoOps10) {
  // 2880 columns are 90 groups of 32: 22.5 for each of four ranks.
  EXPECT_EQ(cut_axis(2880, 32, 4).value(), (std::vector<AxisCut>{{0, 736}, {736, 1472}, {1472, 2176}, {2176, 2880}}));
  // A ragged last block is the last rank's.
  EXPECT_EQ(cut_axis(320, 128, 2).value(), (std::vector<AxisCut>{{0, 256}, {256, 320}}));
  // More ranks than units: some have none.
  EXPECT_EQ(cut_axis(96, 32, 4).value(), (std::vector<AxisCut>{{0, 32}, {32, 64}, {64, 96}, {96, 96}}));
  EXPECT_FALSE(cut_axis(96, 32, 0).ok());
}

// B20: more ranks than key-value heads either share them or are refused at once, with what works.
TEST(CutHeads, KeyValueHeadsStandOnSeveralRanks) {
  const std::vector<HeadCut> four = cut_heads(4, 2, 1, 4).value();
  EXPECT_EQ(four[1].heads, (AxisCut{1, 2}));
  EXPECT_EQ(four[1].kv_heads, (AxisCut{0, 1}));
  EXPECT_EQ(four[2].kv_heads, (AxisCut{1, 2}));
  const Result<std::vector<HeadCut>> three = cut_heads(4, 2, 1, 3);
  ASSERT_FALSE(three.ok());
  EXPECT_NE(three.error().message.find("the nearest numbers of ranks that work: 2, 4"), std::string::npos);
}

// More ranks than query heads: those that are left over have none, and no key-value head either.
TEST(CutHeads, RanksMayBeLeftWithoutHeads) {
  const std::vector<HeadCut> eight = cut_heads(4, 2, 1, 8).value();
  EXPECT_EQ(eight[1].heads, (AxisCut{1, 2}));
  EXPECT_EQ(eight[1].kv_heads, (AxisCut{0, 1}));
  EXPECT_EQ(eight[2].heads.size() + eight[3].heads.size(), 0);
  EXPECT_EQ(eight[2].kv_heads.size() + eight[3].kv_heads.size(), 0);
  EXPECT_EQ(eight[4].heads, (AxisCut{2, 3}));
  EXPECT_EQ(eight[5].kv_heads, (AxisCut{1, 2}));
  // Groups of 3 queries and scales of 2 heads: no key-value head can stand on two ranks.
  const Result<std::vector<HeadCut>> refused = cut_heads(12, 4, 2, 8);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("the nearest numbers of ranks that work: 2"), std::string::npos);
}

TEST(CutHeads, EightKeyValueHeadsForThreeRanks) {
  const std::vector<HeadCut> cuts = cut_heads(32, 8, 1, 3).value();
  EXPECT_EQ(cuts[0].heads, (AxisCut{0, 12}));
  EXPECT_EQ(cuts[0].kv_heads, (AxisCut{0, 3}));
  EXPECT_EQ(cuts[2].heads, (AxisCut{24, 32}));
}

// A head of 80 columns ends within a group of 32; two heads end with one.
TEST(CutHeads, CutsLieBetweenScaleGroups) {
  EXPECT_EQ(head_unit(80, codec(CodecId::kMxfp4)), 2);
  EXPECT_EQ(head_unit(64, codec(CodecId::kMxfp4)), 1);
  EXPECT_EQ(head_unit(64, block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32)), 1);
  const std::vector<HeadCut> cuts = cut_heads(12, 12, 2, 4).value();
  for (const HeadCut& cut : cuts) EXPECT_EQ(cut.heads.begin % 2, 0);
  EXPECT_EQ(cuts[0].heads.size(), 4);
  EXPECT_EQ(cuts[3].heads.size(), 2);
  for (int ranks = 1; ranks <= 40; ++ranks) {
    const Result<std::vector<HeadCut>> made = cut_heads(12, 2, 2, ranks);
    if (!made.ok()) continue;
    int64_t queries = 0;
    for (const HeadCut& cut : *made) {
      EXPECT_EQ(cut.heads.size() == 0, cut.kv_heads.size() == 0);
      if (cut.heads.size() == 0) continue;
      EXPECT_EQ(cut.heads.size() % cut.kv_heads.size(), 0);
      EXPECT_EQ(cut.heads.begin % 2, 0);
      queries += cut.heads.size();
    }
    EXPECT_EQ(queries, 12);
  }
}

// OPS-10: numbers of every codec stay, whatever the cut.
TEST(CutMatrix, EveryCodecKeepsItsNumbersOps10) {
  for (const Codec& codec : testing::codecs_under_test()) {
    const int64_t unit = std::max(column_unit(codec), codec.column_multiple());
    const int64_t rows = 130, cols = 5 * unit * (unit < 16 ? 12 : 1);
    const QTensor whole = sample_qtensor(codec, rows, cols, 7);
    const std::vector<float> numbers = whole.decode();
    for (int ranks : {2, 3, 5}) {
      std::vector<float> stacked;
      for (const AxisCut& cut : cuts_of(rows, 1, ranks)) {
        const std::vector<float> own = cut_rows(whole, cut).value().decode();
        stacked.insert(stacked.end(), own.begin(), own.end());
      }
      EXPECT_TRUE(same_bits(stacked, numbers)) << codec.name << " rows for " << ranks;
      for (const AxisCut& cut : cuts_of(cols, unit, ranks)) {
        const std::vector<float> own = cut_cols(whole, cut).value().decode();
        for (int64_t row = 0; row < rows; ++row) {
          ASSERT_EQ(std::memcmp(own.data() + row * cut.size(), numbers.data() + row * cols + cut.begin,
                                static_cast<size_t>(cut.size()) * sizeof(float)),
                    0)
              << codec.name << " columns for " << ranks;
        }
      }
    }
  }
}

TEST(CutMatrix, AGroupOfOneRowIsNotCut) {
  const QTensor whole = sample_qtensor(codec(CodecId::kMxfp4), 8, 96, 1);
  const Result<QTensor> cut = cut_cols(whole, {0, 48});
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.error().message.find("the nearest cuts that work are 32 and 64"), std::string::npos);
  EXPECT_FALSE(cut_cols(whole, {96, 96}).ok());
}

}  // namespace
}  // namespace vernier
