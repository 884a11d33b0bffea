#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tensor/prepared.h"
#include "tensor/scale_level.h"
#include "unit/tensor/sample_qtensor.h"

namespace vernier {
namespace {

using testing::sample_qtensor;

Codec draw_codec() {
  std::vector<Codec> codecs;
  for (const Codec& codec : testing::codecs_under_test()) {
    if (codec.packing != Packing::kGgufBlock) codecs.push_back(codec);
  }
  return *rc::gen::elementOf(codecs);
}

Layout draw_layout(const Codec& codec, bool mixes_rows) {
  Layout layout;
  layout.scales = *rc::gen::element(ScaleOrder::kRows, ScaleOrder::kColumns, ScaleOrder::kTiles128x4,
                                    ScaleOrder::kTiles8x4, ScaleOrder::kWords, ScaleOrder::kWordsEachRow);
  if (!holds(layout.scales, codec.inner)) layout.scales = ScaleOrder::kRows;
  layout.row_multiple = *rc::gen::element<int64_t>(32, 64, 128) * std::max(codec.group_rows, 1);
  layout.col_multiple = *rc::gen::element<int64_t>(1, 2, 4) * std::max<int64_t>(codec.column_multiple(), 1);
  layout.last_part_first = *rc::gen::arbitrary<bool>();
  if (!mixes_rows) return layout;
  layout.parts_alternate = *rc::gen::arbitrary<bool>();
  layout.shuffle = *rc::gen::element(RowShuffle::kNone, RowShuffle::kBlocks16, RowShuffle::kBlocks32);
  return layout;
}

std::vector<QTensor> draw_parts(const Codec& codec) {
  const int64_t rows = *rc::gen::inRange<int64_t>(1, 80);
  const int64_t cols = codec.column_multiple() * *rc::gen::inRange<int64_t>(1, codec.column_multiple() == 1 ? 70 : 5);
  // One scale for all rows must be the same for both parts.
  const auto seed = *rc::gen::arbitrary<uint32_t>();
  return {sample_qtensor(codec, rows, cols, seed),
          sample_qtensor(codec, rows, cols, codec.group_rows == 0 ? seed : ~seed)};
}

RC_GTEST_PROP(LayoutLaws, TENSOR_10_WhatWasPreparedComesBackToTheBit, ()) {
  const Codec codec = draw_codec();
  const std::vector<QTensor> parts = draw_parts(codec);
  const Layout layout = draw_layout(codec, codec.group_rows <= 1);
  const PreparedTensor made = PreparedTensor::prepare(parts, layout).value();
  const std::vector<QTensor> back = made.restore().value();
  RC_ASSERT(back.size() == parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    RC_ASSERT(back[i].rows() == parts[i].rows() && back[i].cols() == parts[i].cols());
    RC_ASSERT(std::ranges::equal(back[i].view().codes, parts[i].view().codes));
    RC_ASSERT(std::ranges::equal(back[i].view().inner_scales, parts[i].view().inner_scales));
    RC_ASSERT(std::ranges::equal(back[i].view().outer_scales, parts[i].view().outer_scales));
    RC_ASSERT(back[i].origin() == parts[i].origin());
  }
}

// What a kernel computes from padding must be nothing: zero codes, and scales that make no NaN of them.
RC_GTEST_PROP(LayoutLaws, TENSOR_11_PaddingIsZeroUnderUnitScales, ()) {
  const Codec codec = draw_codec();
  const std::vector<QTensor> parts = draw_parts(codec);
  Layout layout = draw_layout(codec, codec.group_rows <= 1);
  const PreparedTensor made = PreparedTensor::prepare(parts, layout).value();
  const PreparedTensor::View view = made.view();
  const std::array<int64_t, 2> heights{parts[0].rows(), parts[1].rows()};
  const std::vector<int64_t> sources = row_sources(heights, layout).value();
  const auto physical = static_cast<size_t>(codec.row_bytes(view.extents.physical_cols));
  const auto stored = static_cast<size_t>(codec.row_bytes(view.extents.cols));
  for (size_t row = 0; row < sources.size(); ++row) {
    std::span<const std::byte> codes = view.codes.subspan(row * physical, physical);
    if (sources[row] != kPaddingRow) codes = codes.subspan(stored);
    RC_ASSERT(std::ranges::all_of(codes, [](std::byte code) { return code == std::byte{0}; }));
  }
  if (codec.inner == ScaleType::kNone || codec.group_rows != 1) return;
  const ScaleTable table{layout.scales, view.extents.physical_rows, codec.groups_across(view.extents.physical_cols),
                         codec.inner == ScaleType::kF32 ? 4 : 1};
  for (int64_t row = 0; row < table.down; ++row) {
    for (int64_t col = 0; col < table.across; ++col) {
      const bool padding =
          sources[static_cast<size_t>(row)] == kPaddingRow || col >= codec.groups_across(parts[0].cols());
      if (!padding) continue;
      RC_ASSERT(scale_value(codec.inner, view.scales.subspan(static_cast<size_t>(table.place(row, col))), 0) == 1.0f);
    }
  }
}

}  // namespace
}  // namespace vernier
