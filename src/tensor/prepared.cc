#include "tensor/prepared.h"

#include <algorithm>
#include <cstring>

#include "tensor/checked.h"
#include "tensor/scale_level.h"

namespace vernier {
namespace {

/// A layout made concrete for some parts: which stored row and group stand where.
struct Plan {
  Codec codec;
  Layout layout;
  std::vector<int64_t> part_rows;
  std::vector<int64_t> sources;  // of each physical row: a row of all parts, or kPaddingRow
  PreparedExtents extents;
  ScaleTable table;

  struct Place {
    size_t part;
    int64_t row;  // in the part
  };
  Place place_of(int64_t source) const {
    size_t part = 0;
    for (; source >= part_rows[part]; ++part) source -= part_rows[part];
    return {part, source};
  }
  int64_t group_rows() const { return codec.group_rows == 0 ? extents.physical_rows : codec.group_rows; }
  bool one_scale() const { return codec.group_rows == 0; }
};

Status check_alike(std::span<const QTensor> parts, const Layout& layout) {
  if (parts.empty()) return invalid_argument("a matrix without parts; expected at least one");
  const Codec& codec = parts[0].codec();
  if (codec.packing == Packing::kGgufBlock) {
    return unsupported("{} keeps its scales inside blocks; it has no other layout", codec.name);
  }
  if (layout.row_multiple < 1 || layout.col_multiple < 1) {
    return invalid_argument("multiples of {}x{}, expected 1 or more", layout.row_multiple, layout.col_multiple);
  }
  if (codec.inner != ScaleType::kNone && !holds(layout.scales, codec.inner)) {
    return unsupported("scales of {} cannot stand in {}", codec.name, name(layout.scales));
  }
  for (const QTensor& part : parts) {
    if (!(part.codec() == codec) || part.cols() != parts[0].cols()) {
      return invalid_argument("{} [{} columns] beside {} [{}]; parts of one matrix must agree", part.codec().name,
                              part.cols(), codec.name, parts[0].cols());
    }
    // One scale stands for all rows of all parts.
    if (codec.group_rows == 0 && codec.inner != ScaleType::kNone &&
        !std::ranges::equal(part.view().inner_scales, parts[0].view().inner_scales)) {
      return invalid_argument("parts of {} have scales of their own; keep them as separate matrices", codec.name);
    }
  }
  return {};
}

/// Rows that share a scale stay together.
Status check_groups(const Plan& plan) {
  if (plan.codec.group_rows <= 1 || plan.layout.scales == ScaleOrder::kWordsEachRow) return {};
  for (size_t first = 0; first < plan.sources.size(); first += static_cast<size_t>(plan.codec.group_rows)) {
    const size_t end = std::min(plan.sources.size(), first + static_cast<size_t>(plan.codec.group_rows));
    std::pair<size_t, int64_t> group{0, -1};
    for (size_t row = first; row < end; ++row) {
      if (plan.sources[row] == kPaddingRow) continue;
      const Plan::Place place = plan.place_of(plan.sources[row]);
      const std::pair<size_t, int64_t> own{place.part, place.row / plan.codec.group_rows};
      if (group.second >= 0 && own != group) {
        return unsupported("rows of {} cannot lie in \"{}\": {} rows share a scale; expected parts of a multiple",
                           plan.codec.name, plan.layout.to_string(), plan.codec.group_rows);
      }
      group = own;
    }
  }
  return {};
}

Status check_outer_scales(std::span<const QTensor> parts, const Layout& layout) {
  if (layout.keeps_row_order() || !parts[0].codec().outer_scale) return {};
  const float first = parts[0].view().outer_scales[0];
  for (const QTensor& part : parts) {
    for (float scale : part.view().outer_scales) {
      if (scale == first) continue;
      return unsupported("rows under global scales {} and {} cannot be mixed; keep them as separate matrices", first,
                         scale);
    }
  }
  return {};
}

ScaleTable table_of(const Codec& codec, const Layout& layout, const PreparedExtents& extents) {
  const int64_t down =
      layout.scales == ScaleOrder::kWordsEachRow ? extents.physical_rows : codec.groups_down(extents.physical_rows);
  return {layout.scales, down, codec.groups_across(extents.physical_cols), scale_bytes(codec.inner)};
}

Result<PreparedExtents> extents_of(const Codec& codec, std::span<const int64_t> part_rows, int64_t cols,
                                   const Layout& layout) {
  PreparedExtents extents;
  int64_t stored = 0;
  for (int64_t rows : part_rows) {
    extents.rows += rows;
    extents.physical_rows += ceil_div(rows, layout.row_multiple) * layout.row_multiple;
    TRY_BIND(int64_t codes, codec.code_bytes(rows, cols));
    stored += codes + codec.groups_down(rows) * codec.groups_across(cols) * scale_bytes(codec.inner);
  }
  extents.cols = cols;
  extents.physical_cols = ceil_div(cols, layout.col_multiple) * layout.col_multiple;
  TRY_BIND(extents.code_bytes, codec.code_bytes(extents.physical_rows, extents.physical_cols));
  extents.scale_bytes = codec.inner == ScaleType::kNone ? 0 : table_of(codec, layout, extents).bytes();
  extents.padding_bytes = std::max<int64_t>(0, extents.code_bytes + extents.scale_bytes - stored);
  return extents;
}

Result<Plan> make_plan(const Codec& codec, std::vector<int64_t> part_rows, int64_t cols, const Layout& layout) {
  TRY_BIND(std::vector<int64_t> sources, row_sources(part_rows, layout));
  TRY_BIND(PreparedExtents extents, extents_of(codec, part_rows, cols, layout));
  Plan plan{codec, layout, std::move(part_rows), std::move(sources), extents, table_of(codec, layout, extents)};
  TRY_STATUS(check_groups(plan));
  return plan;
}

Result<Plan> plan_parts(std::span<const QTensor> parts, const Layout& layout) {
  TRY_STATUS(check_alike(parts, layout));
  std::vector<int64_t> rows;
  for (const QTensor& part : parts) rows.push_back(part.rows());
  return make_plan(parts[0].codec(), std::move(rows), parts[0].cols(), layout);
}

/// Calls visit(physical scale row, its source row or kPaddingRow) for every row of the scale table.
template <class Visit>
void for_scale_rows(const Plan& plan, Visit visit) {
  const int64_t step = plan.layout.scales == ScaleOrder::kWordsEachRow ? 1 : plan.group_rows();
  for (int64_t row = 0; row < plan.table.down; ++row) {
    const int64_t begin = row * step, end = std::min((row + 1) * step, plan.extents.physical_rows);
    // Padding within a block of others has the block's scale, where each row has its own too.
    const int64_t block = begin / plan.group_rows() * plan.group_rows();
    int64_t source = plan.sources[static_cast<size_t>(begin)];
    for (int64_t at = block; at < end && source == kPaddingRow; ++at) source = plan.sources[static_cast<size_t>(at)];
    visit(row, source);
  }
}

void write_scales(const Plan& plan, std::span<const QTensor> parts, std::span<std::byte> to) {
  std::ranges::fill(to, std::byte{0});
  const int64_t each = plan.table.bytes_each;
  const int64_t stored_across = plan.codec.groups_across(plan.extents.cols);
  for_scale_rows(plan, [&](int64_t row, int64_t source) {
    for (int64_t col = 0; col < plan.table.across; ++col) {
      std::byte* at = to.data() + plan.table.place(row, col);
      if (source == kPaddingRow || col >= stored_across) {
        put_unit_scale(plan.codec.inner, at);
        continue;
      }
      const Plan::Place place = plan.place_of(source);
      const int64_t group = plan.one_scale() ? 0 : place.row / plan.codec.group_rows;
      std::memcpy(at, parts[place.part].view().inner_scales.data() + (group * stored_across + col) * each,
                  static_cast<size_t>(each));
    }
  });
}

}  // namespace

void put_unit_scale(ScaleType type, std::byte* at) {
  const float one = 1;
  if (type == ScaleType::kF32) std::memcpy(at, &one, sizeof(one));
  if (type == ScaleType::kE8M0) *at = std::byte{127};
  if (type == ScaleType::kE4M3) *at = std::byte{0x38};
}

Result<PreparedExtents> prepared_extents(std::span<const QTensor> parts, const Layout& layout) {
  TRY_BIND(Plan plan, plan_parts(parts, layout));
  return plan.extents;
}

Result<PreparedExtents> prepared_extents(const Codec& codec, std::span<const int64_t> part_rows, int64_t cols,
                                         const Layout& layout) {
  return extents_of(codec, part_rows, cols, layout);
}

Status write_prepared(std::span<const QTensor> parts, const Layout& layout, std::span<std::byte> codes,
                      std::span<std::byte> scales) {
  TRY_BIND(Plan plan, plan_parts(parts, layout));
  TRY_STATUS(check_outer_scales(parts, layout));
  CHECK(static_cast<int64_t>(codes.size()) == plan.extents.code_bytes &&
            static_cast<int64_t>(scales.size()) == plan.extents.scale_bytes,
        "memory of {} and {} bytes for {} and {}", codes.size(), scales.size(), plan.extents.code_bytes,
        plan.extents.scale_bytes);
  const auto stored = static_cast<size_t>(plan.codec.row_bytes(plan.extents.cols));
  const auto physical = static_cast<size_t>(plan.codec.row_bytes(plan.extents.physical_cols));
  for (size_t row = 0; row < plan.sources.size(); ++row) {
    std::byte* to = codes.data() + row * physical;
    size_t filled = 0;
    if (plan.sources[row] != kPaddingRow) {
      const Plan::Place place = plan.place_of(plan.sources[row]);
      std::memcpy(to, parts[place.part].view().codes.data() + static_cast<size_t>(place.row) * stored, stored);
      filled = stored;
    }
    std::fill(to + filled, to + physical, std::byte{0});  // 0 is the code of zero in every element type
  }
  if (plan.codec.inner != ScaleType::kNone) write_scales(plan, parts, scales);
  return {};
}

Result<PreparedTensor> PreparedTensor::prepare(std::span<const QTensor> parts, const Layout& layout) {
  TRY_BIND(PreparedExtents extents, prepared_extents(parts, layout));
  std::vector<std::byte> codes(static_cast<size_t>(extents.code_bytes));
  std::vector<std::byte> scales(static_cast<size_t>(extents.scale_bytes));
  TRY_STATUS(write_prepared(parts, layout, codes, scales));
  PreparedTensor made(parts[0].codec(), layout, extents, Bytes(std::move(codes)), Bytes(std::move(scales)));
  for (const QTensor& part : parts) {
    const QTensor::View view = part.view();
    made.parts_.push_back({part.rows(),
                           {view.outer_scales.begin(), view.outer_scales.end()},
                           {view.segment_rows.begin(), view.segment_rows.end()},
                           part.origin()});
    if (!made.codec_.outer_scale || (!layout.keeps_row_order() && !made.outer_scales_.empty())) continue;
    if (!layout.keeps_row_order()) {
      made.outer_scales_ = {view.outer_scales[0]};  // the same for all
      made.segment_rows_ = {extents.physical_rows};
      continue;
    }
    made.outer_scales_.insert(made.outer_scales_.end(), view.outer_scales.begin(), view.outer_scales.end());
    made.segment_rows_.insert(made.segment_rows_.end(), view.segment_rows.begin(), view.segment_rows.end());
    made.segment_rows_.back() += ceil_div(part.rows(), layout.row_multiple) * layout.row_multiple - part.rows();
  }
  return made;
}

Result<PreparedTensor> PreparedTensor::prepare(const Layout& layout) const {
  if (layout == layout_) return *this;
  TRY_BIND(std::vector<QTensor> parts, restore());
  return prepare(parts, layout);
}

Result<std::vector<QTensor>> PreparedTensor::restore() const {
  std::vector<int64_t> part_rows;
  for (const Part& part : parts_) part_rows.push_back(part.rows);
  TRY_BIND(Plan plan, make_plan(codec_, part_rows, extents_.cols, layout_));
  const auto stored = static_cast<size_t>(codec_.row_bytes(extents_.cols));
  const auto physical = static_cast<size_t>(codec_.row_bytes(extents_.physical_cols));
  const int64_t across = codec_.groups_across(extents_.cols), each = plan.table.bytes_each;
  std::vector<std::vector<std::byte>> codes, scales;
  for (int64_t rows : part_rows) {
    codes.emplace_back(static_cast<size_t>(rows) * stored);
    scales.emplace_back(static_cast<size_t>(codec_.groups_down(rows) * across * each));
  }
  for (size_t row = 0; row < plan.sources.size(); ++row) {
    if (plan.sources[row] == kPaddingRow) continue;
    const Plan::Place place = plan.place_of(plan.sources[row]);
    std::memcpy(codes[place.part].data() + static_cast<size_t>(place.row) * stored,
                codes_.span().data() + row * physical, stored);
    const int64_t table_row = layout_.scales == ScaleOrder::kWordsEachRow
                                  ? static_cast<int64_t>(row)
                                  : static_cast<int64_t>(row) / plan.group_rows();
    const int64_t group = plan.one_scale() ? 0 : place.row / codec_.group_rows;
    for (int64_t col = 0; each > 0 && col < across; ++col) {
      std::memcpy(scales[place.part].data() + (group * across + col) * each,
                  scales_.span().data() + plan.table.place(table_row, col), static_cast<size_t>(each));
    }
  }
  std::vector<QTensor> parts;
  for (size_t i = 0; i < parts_.size(); ++i) {
    QTensorParts part{codec_,       parts_[i].rows,         extents_.cols,          Bytes(std::move(codes[i])),
                      std::nullopt, parts_[i].outer_scales, parts_[i].segment_rows, parts_[i].origin};
    if (codec_.inner != ScaleType::kNone) part.inner_scales = Bytes(std::move(scales[i]));
    TRY_BIND(QTensor made, QTensor::make(std::move(part)));
    parts.push_back(std::move(made));
  }
  return parts;
}

PreparedTensor::View PreparedTensor::view() const {
  return {codec_, layout_, extents_, codes_.span(), scales_.span(), outer_scales_, segment_rows_};
}

}  // namespace vernier
