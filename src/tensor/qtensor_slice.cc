#include <algorithm>
#include <cstring>

#include "tensor/qtensor.h"
#include "tensor/scale_level.h"

namespace vernier {
namespace {

/// One axis that is cut to [begin, end): `unit` is the extent of a scale group along it, 1 where any cut works.
struct Cut {
  const char* axis;
  int64_t begin;
  int64_t end;
  int64_t extent;
  int64_t unit;
};

std::string nearest_cuts(int64_t at, const Cut& cut) {
  int64_t below = at / cut.unit * cut.unit;
  int64_t above = cut.extent - below > cut.unit ? below + cut.unit : cut.extent;
  return fmt::format("{} and {}", below, above);
}

Status check_cut(const Codec& codec, const Cut& cut) {
  if (cut.begin < 0 || cut.end > cut.extent || cut.begin >= cut.end) {
    return invalid_argument("{} {} to {} asked for, expected a part of 0 to {} that is not empty", cut.axis, cut.begin,
                            cut.end, cut.extent);
  }
  for (int64_t at : {cut.begin, cut.end}) {
    if (at % cut.unit == 0 || at == cut.extent) continue;
    return invalid_argument(
        "a cut at {} {} goes through a scale group of {}, which has {}; the nearest cuts that work are {}", cut.axis,
        at, codec.name, cut.unit, nearest_cuts(at, cut));
  }
  return {};
}

int64_t unit_rows(const Codec& codec) {
  return std::max(codec.group_rows, 1);
}
int64_t unit_cols(const Codec& codec) {
  return std::max(codec.group_cols, 1);
}

/// Columns [begin, end) of a row-major table with `width` bytes a row.
Bytes slice_table(const Bytes& table, int64_t width, int64_t begin, int64_t end) {
  std::span<const std::byte> from = table.span();
  size_t rows = from.size() / static_cast<size_t>(width);
  auto part = static_cast<size_t>(end - begin);
  std::vector<std::byte> to(rows * part);
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(to.data() + row * part, from.data() + row * static_cast<size_t>(width) + static_cast<size_t>(begin),
                part);
  }
  return Bytes(std::move(to));
}

/// Rows of a row-major table in the given order.
Bytes gather_rows(const Bytes& table, size_t width, std::span<const int64_t> order) {
  std::vector<std::byte> to(order.size() * width);
  for (size_t i = 0; i < order.size(); ++i) {
    std::memcpy(to.data() + i * width, table.span().data() + static_cast<size_t>(order[i]) * width, width);
  }
  return Bytes(std::move(to));
}

Bytes join(std::span<const std::span<const std::byte>> parts) {
  size_t size = 0;
  for (std::span<const std::byte> part : parts) size += part.size();
  std::vector<std::byte> to;
  to.reserve(size);
  for (std::span<const std::byte> part : parts) to.insert(to.end(), part.begin(), part.end());
  return Bytes(std::move(to));
}

Status check_order(std::span<const int64_t> order, int64_t rows) {
  if (static_cast<int64_t>(order.size()) != rows) {
    return invalid_argument("an order of {} entries for {} rows, expected one entry for each row", order.size(), rows);
  }
  std::vector<bool> seen(order.size(), false);
  for (int64_t row : order) {
    if (row < 0 || row >= rows) return invalid_argument("row {} in the order, expected 0 to {}", row, rows - 1);
    if (seen[static_cast<size_t>(row)]) return invalid_argument("row {} stands twice in the order", row);
    seen[static_cast<size_t>(row)] = true;
  }
  return {};
}

/// Whether `next` can stand below `first`; `is_last` says that nothing follows it.
Status check_joint(const QTensor::View& first, const QTensor::View& next, bool is_last) {
  if (!(next.codec == first.codec)) {
    return invalid_argument("found {} below {}, expected one codec; keep them as separate matrices", next.codec.name,
                            first.codec.name);
  }
  if (next.cols != first.cols) return invalid_argument("found {} columns below {}", next.cols, first.cols);
  if (int64_t unit = unit_rows(first.codec); !is_last && next.rows % unit != 0) {
    return invalid_argument(
        "{} rows of {} cannot have rows below them: the last scale group of {} rows is not full; expected "
        "a multiple of {} rows",
        next.rows, next.codec.name, unit, unit);
  }
  bool one_scale = first.codec.group_rows == 0 && first.codec.inner != ScaleType::kNone;
  if (one_scale && !std::ranges::equal(first.inner_scales, next.inner_scales)) {
    return invalid_argument("{} has one scale, and these parts have {} and {}; keep them as separate matrices",
                            first.codec.name, scale_value(first.codec.inner, first.inner_scales, 0),
                            scale_value(next.codec.inner, next.inner_scales, 0));
  }
  return {};
}

}  // namespace

Result<QTensor> QTensor::slice_rows(int64_t begin, int64_t end) const {
  if (Status status = check_cut(codec_, {"row", begin, end, rows_, unit_rows(codec_)}); !status.ok()) {
    return Error{status.error().code, status.error().message, origin_};
  }
  int64_t row_bytes = codec_.row_bytes(cols_);
  QTensorParts parts{
      codec_,
      end - begin,
      cols_,
      codes_.slice(static_cast<size_t>(begin * row_bytes), static_cast<size_t>((end - begin) * row_bytes)),
      inner_scales_,
      {},
      {},
      origin_};
  if (inner_scales_ && codec_.group_rows > 0) {
    int64_t width = codec_.groups_across(cols_) * scale_bytes(codec_.inner);
    int64_t first = begin / codec_.group_rows;
    int64_t count = codec_.groups_down(end - begin);
    parts.inner_scales = inner_scales_->slice(static_cast<size_t>(first * width), static_cast<size_t>(count * width));
  }
  int64_t segment_begin = 0;
  for (size_t i = 0; i < segment_rows_.size(); ++i) {
    int64_t segment_end = segment_begin + segment_rows_[i];
    int64_t kept = std::min(end, segment_end) - std::max(begin, segment_begin);
    if (kept > 0) {
      parts.outer_scales.push_back(outer_scales_[i]);
      parts.segment_rows.push_back(kept);
    }
    segment_begin = segment_end;
  }
  return QTensor(std::move(parts));
}

Result<QTensor> QTensor::slice_cols(int64_t begin, int64_t end) const {
  if (Status status = check_cut(codec_, {"column", begin, end, cols_, unit_cols(codec_)}); !status.ok()) {
    return Error{status.error().code, status.error().message, origin_};
  }
  int64_t row_bytes = codec_.row_bytes(cols_);
  int64_t first_byte = codec_.row_bytes(begin);
  QTensorParts parts{
      codec_,        rows_,
      end - begin,   slice_table(codes_, row_bytes, first_byte, first_byte + codec_.row_bytes(end - begin)),
      inner_scales_, outer_scales_,
      segment_rows_, origin_};
  if (inner_scales_ && codec_.group_cols > 0) {
    int64_t scale = scale_bytes(codec_.inner);
    int64_t first = begin / codec_.group_cols;
    int64_t count = codec_.groups_across(end - begin);
    parts.inner_scales =
        slice_table(*inner_scales_, codec_.groups_across(cols_) * scale, first * scale, (first + count) * scale);
  }
  return QTensor(std::move(parts));
}

Result<QTensor> QTensor::permute_rows(std::span<const int64_t> order) const {
  if (Status status = check_order(order, rows_); !status.ok()) {
    return Error{status.error().code, status.error().message, origin_};
  }
  if (codec_.group_rows > 1) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("rows of {} cannot change places: {} rows share a scale", codec_.name, codec_.group_rows),
                 origin_};
  }
  QTensorParts parts{
      codec_,        rows_, cols_, gather_rows(codes_, static_cast<size_t>(codec_.row_bytes(cols_)), order),
      inner_scales_, {},    {},    origin_};
  if (inner_scales_ && codec_.group_rows == 1) {
    int64_t width = codec_.groups_across(cols_) * scale_bytes(codec_.inner);
    parts.inner_scales = gather_rows(*inner_scales_, static_cast<size_t>(width), order);
  }
  if (codec_.outer_scale) {
    std::vector<size_t> segment_of;
    for (size_t i = 0; i < segment_rows_.size(); ++i) {
      segment_of.insert(segment_of.end(), static_cast<size_t>(segment_rows_[i]), i);
    }
    size_t last = segment_rows_.size();
    for (int64_t row : order) {
      size_t segment = segment_of[static_cast<size_t>(row)];
      if (segment != last) {
        parts.outer_scales.push_back(outer_scales_[segment]);
        parts.segment_rows.push_back(0);
      }
      ++parts.segment_rows.back();
      last = segment;
    }
  }
  return QTensor(std::move(parts));
}

Result<QTensor> QTensor::concat_rows(std::span<const QTensor> tensors) {
  if (tensors.empty()) return invalid_argument("nothing to put together, expected at least one matrix");
  View first = tensors.front().view();
  QTensorParts parts{first.codec, 0, first.cols, Bytes(std::vector<std::byte>()), std::nullopt, {}, {}, {}};
  std::vector<std::span<const std::byte>> codes;
  std::vector<std::span<const std::byte>> scales;
  for (size_t i = 0; i < tensors.size(); ++i) {
    View next = tensors[i].view();
    if (Status status = check_joint(first, next, i + 1 == tensors.size()); !status.ok()) {
      return Error{status.error().code, status.error().message, tensors[i].origin()};
    }
    parts.rows += next.rows;
    parts.outer_scales.insert(parts.outer_scales.end(), next.outer_scales.begin(), next.outer_scales.end());
    parts.segment_rows.insert(parts.segment_rows.end(), next.segment_rows.begin(), next.segment_rows.end());
    parts.origin += (i == 0 ? "" : "+") + tensors[i].origin();
    codes.push_back(next.codes);
    // One scale for all rows stands for all parts, which agree on it.
    if (i == 0 || first.codec.group_rows > 0) scales.push_back(next.inner_scales);
  }
  parts.codes = join(codes);
  if (first.codec.inner != ScaleType::kNone) parts.inner_scales = join(scales);
  return QTensor(std::move(parts));
}

}  // namespace vernier
