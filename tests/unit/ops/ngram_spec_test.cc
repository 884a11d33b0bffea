#include "ops/ngram_spec.h"

#include <gmock/gmock.h>

namespace vernier {
namespace {

using ::testing::ElementsAre;

/// Tables of n-grams of 2 to `longest` tokens, `each` of every length, the first of `rows` + 1 rows.
std::vector<NgramSpec> tables(int longest, int each, int64_t rows, int64_t vocab) {
  std::vector<NgramSpec> specs;
  for (int i = 0; i < each * (longest - 1); ++i) specs.push_back({2 + i / each, rows + 2 * i + 1, vocab, 2});
  return specs;
}

/// What the last of the tokens takes of each table, counted from the first table's first row.
std::vector<int64_t> ids(const std::vector<NgramSpec>& specs, const std::vector<int32_t>& tokens) {
  std::vector<int64_t> found;
  int64_t before = 0;
  for (const NgramSpec& spec : specs) {
    found.push_back(before + ngram_row(spec, tokens));
    before += spec.rows;
  }
  return found;
}

TEST(NgramRow, EqualsTheWorkedExample) {
  const std::vector<NgramSpec> specs = tables(3, 2, 50, 100);
  EXPECT_THAT(ids(specs, {5}), ElementsAre(5, 56, 109, 164));
  EXPECT_THAT(ids(specs, {5, 9}), ElementsAre(50, 83, 118, 212));
  EXPECT_THAT(ids(specs, {5, 9, 2}), ElementsAre(35, 52, 131, 160));
  EXPECT_THAT(ids(specs, {5, 9, 2, 7}), ElementsAre(7, 58, 111, 166));
}

// Sizes as published: products need 64 bits.
TEST(NgramRow, DoesNotOverflow) {
  std::vector<int32_t> tokens = {131071, 130000, 2, 131070, 131069};
  const std::vector<NgramSpec> specs = tables(4, 4, int64_t{78} * 131072, 131072);
  auto last = [&] {
    std::vector<int32_t> rows;
    for (size_t i : {0, 4, 8, 11}) rows.push_back(ngram_row(specs[i], tokens));
    return rows;
  };
  EXPECT_THAT(last(), ElementsAre(4061549, 4048109, 4034669, 4024589));
  tokens.push_back(131068);
  EXPECT_THAT(last(), ElementsAre(3930476, 8183666, 4625678, 1958993));
}

// An end token is hashed where it is the row's own, and stops the walk back where it is not.
TEST(NgramRow, NothingBeforeAnEndTokenCounts) {
  const NgramSpec spec{3, 1009, 100, 2};
  EXPECT_EQ(ngram_row(spec, std::vector<int32_t>{5, 9, 2}), 5 * 100 * 100 % 1009 + 9 * 100 + 2 - 1009);
  EXPECT_EQ(ngram_row(spec, std::vector<int32_t>{9, 2, 7}), 7);
  EXPECT_EQ(ngram_row(spec, std::vector<int32_t>{2, 2}), 2);
  EXPECT_EQ(ngram_row(spec, std::vector<int32_t>{2, 8, 7}), 807);
  NgramSpec endless = spec;
  endless.end_token = -1;
  EXPECT_EQ(ngram_row(endless, std::vector<int32_t>{9, 2, 7}), (9 * 10000 + 207) % 1009);
}

// OPS-13: chunks at every offset, sequences side by side; what stands before a step's rows is their sequence's own.
TEST(NgramRows, DoNotDependOnTheCut) {
  const std::vector<int32_t> one = {5, 9, 2, 7, 7, 11, 2, 2, 40, 41}, other = {3, 1, 4, 15, 92, 6, 53, 58, 97, 93};
  for (const NgramSpec& spec : tables(4, 2, 50, 100)) {
    std::vector<int32_t> whole[2];
    for (size_t end = 1; end <= one.size(); ++end) {
      whole[0].push_back(ngram_row(spec, std::span(one).first(end)));
      whole[1].push_back(ngram_row(spec, std::span(other).first(end)));
    }
    for (int32_t cut = 0; cut <= 10; ++cut) {
      std::vector<int32_t> found[2], rows;
      for (const auto& [first, end] : {std::pair{0, cut}, std::pair{cut, 10}}) {
        if (first == end) continue;
        // The second sequence is one token behind the first.
        const int32_t behind = std::max(first - 1, 0), behind_end = end == 10 ? 10 : std::max(end - 1, 0);
        std::vector<int32_t> tokens(one.begin() + first, one.begin() + end);
        tokens.insert(tokens.end(), other.begin() + behind, other.begin() + behind_end);
        const std::vector<SequenceRows> sequences = {{0, end - first, first},
                                                     {end - first, behind_end - behind, behind}};
        const std::vector<std::span<const int32_t>> histories = {one, other};
        ngram_rows(spec, {tokens, {}, sequences, {}, {}, histories}, rows);
        found[0].insert(found[0].end(), rows.begin(), rows.begin() + (end - first));
        found[1].insert(found[1].end(), rows.begin() + (end - first), rows.end());
      }
      EXPECT_EQ(found[0], whole[0]) << "cut at " << cut;
      EXPECT_EQ(found[1], whole[1]) << "cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace vernier
