#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tensor/qtensor.h"
#include "unit/tensor/sample_qtensor.h"

namespace vernier {
namespace {

using testing::codecs_under_test;
using testing::sample_qtensor;

struct Sample {
  QTensor tensor;
  std::vector<float> values;  // [rows, cols]
};

/// Any codec, extents that are often ragged, several NVFP4 segments.
Sample draw_sample() {
  const Codec codec = *rc::gen::elementOf(codecs_under_test());
  int64_t unit = codec.column_multiple();
  int64_t rows = *rc::gen::inRange<int64_t>(1, 24);
  int64_t cols = unit * *rc::gen::inRange<int64_t>(1, unit == 1 ? 40 : 5);
  int segments = *rc::gen::inRange(1, 1 + static_cast<int>(std::min<int64_t>(rows, 4)));
  QTensor tensor = sample_qtensor(codec, rows, cols, *rc::gen::arbitrary<uint32_t>(), segments);
  std::vector<float> values = tensor.decode();
  return {std::move(tensor), std::move(values)};
}

/// A place to cut: any multiple of the group, or the end.
int64_t draw_cut(int64_t extent, int group) {
  int64_t unit = std::max(group, 1);
  int64_t cut = unit * *rc::gen::inRange<int64_t>(0, extent / unit + 2);
  return std::min(cut, extent);
}

struct Part {
  int64_t begin;
  int64_t end;
};

/// Two cuts with something between them.
Part draw_part(int64_t extent, int group) {
  int64_t unit = std::max(group, 1);
  int64_t begin = unit * *rc::gen::inRange<int64_t>(0, (extent - 1) / unit + 1);
  return {begin, begin + std::max(draw_cut(extent - begin, group), std::min(unit, extent - begin))};
}

std::vector<float> part(const Sample& sample, int64_t top, int64_t bottom, int64_t left, int64_t right) {
  std::vector<float> result;
  for (int64_t row = top; row < bottom; ++row) {
    auto begin = sample.values.begin() + row * sample.tensor.cols();
    result.insert(result.end(), begin + left, begin + right);
  }
  return result;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

RC_GTEST_PROP(SlicingLaws, TENSOR_7_RowsOfASliceAreTheSliceOfTheRows, ()) {
  Sample sample = draw_sample();
  Part kept = draw_part(sample.tensor.rows(), sample.tensor.codec().group_rows);
  QTensor slice = sample.tensor.slice_rows(kept.begin, kept.end).value();
  RC_ASSERT(same_bits(slice.decode(), part(sample, kept.begin, kept.end, 0, sample.tensor.cols())));
}

RC_GTEST_PROP(SlicingLaws, TENSOR_7_ColumnsOfASliceAreTheSliceOfTheColumns, ()) {
  Sample sample = draw_sample();
  Part kept = draw_part(sample.tensor.cols(), sample.tensor.codec().group_cols);
  QTensor slice = sample.tensor.slice_cols(kept.begin, kept.end).value();
  RC_ASSERT(same_bits(slice.decode(), part(sample, 0, sample.tensor.rows(), kept.begin, kept.end)));
}

RC_GTEST_PROP(SlicingLaws, TENSOR_7_SlicesOfSlicesCommute, ()) {
  Sample sample = draw_sample();
  int64_t row = draw_part(sample.tensor.rows(), sample.tensor.codec().group_rows).begin;
  int64_t col = draw_part(sample.tensor.cols(), sample.tensor.codec().group_cols).begin;
  QTensor rows_first =
      sample.tensor.slice_rows(row, sample.tensor.rows()).value().slice_cols(col, sample.tensor.cols()).value();
  QTensor cols_first =
      sample.tensor.slice_cols(col, sample.tensor.cols()).value().slice_rows(row, sample.tensor.rows()).value();
  RC_ASSERT(same_bits(rows_first.decode(), cols_first.decode()));
  RC_ASSERT(same_bits(rows_first.decode(), part(sample, row, sample.tensor.rows(), col, sample.tensor.cols())));
}

RC_GTEST_PROP(SlicingLaws, TENSOR_7_SlicesPutTogetherAreTheWhole, ()) {
  Sample sample = draw_sample();
  std::vector<int64_t> cuts = {0, sample.tensor.rows()};
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i)
    cuts.push_back(draw_cut(sample.tensor.rows(), sample.tensor.codec().group_rows));
  std::ranges::sort(cuts);
  std::vector<QTensor> parts;
  for (size_t i = 1; i < cuts.size(); ++i) {
    if (cuts[i - 1] < cuts[i]) parts.push_back(sample.tensor.slice_rows(cuts[i - 1], cuts[i]).value());
  }
  QTensor whole = QTensor::concat_rows(parts).value();
  RC_ASSERT(whole.rows() == sample.tensor.rows());
  RC_ASSERT(same_bits(whole.decode(), sample.values));
}

RC_GTEST_PROP(SlicingLaws, TENSOR_7_PermutedRowsAreTheRowsInThatOrder, ()) {
  Sample sample = draw_sample();
  RC_PRE(sample.tensor.codec().group_rows <= 1);
  std::vector<int64_t> order(static_cast<size_t>(sample.tensor.rows()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(*rc::gen::arbitrary<uint32_t>()));
  QTensor turned = sample.tensor.permute_rows(order).value();
  std::vector<float> expected;
  for (int64_t row : order) {
    std::vector<float> one = part(sample, row, row + 1, 0, sample.tensor.cols());
    expected.insert(expected.end(), one.begin(), one.end());
  }
  RC_ASSERT(same_bits(turned.decode(), expected));
}

RC_GTEST_PROP(SlicingLaws, TENSOR_8_EveryCutWorksOrIsThroughAGroup, ()) {
  Sample sample = draw_sample();
  const Codec& codec = sample.tensor.codec();
  int64_t row = *rc::gen::inRange<int64_t>(1, sample.tensor.rows() + 1);
  int64_t col = *rc::gen::inRange<int64_t>(1, sample.tensor.cols() + 1);
  bool row_works = codec.group_rows <= 1 || row % codec.group_rows == 0 || row == sample.tensor.rows();
  bool col_works = codec.group_cols <= 1 || col % codec.group_cols == 0 || col == sample.tensor.cols();
  RC_ASSERT(sample.tensor.slice_rows(0, row).ok() == row_works);
  RC_ASSERT(sample.tensor.slice_cols(0, col).ok() == col_works);
}

}  // namespace
}  // namespace vernier
