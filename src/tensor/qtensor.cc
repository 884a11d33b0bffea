#include "tensor/qtensor.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "tensor/checked.h"
#include "tensor/code_tables.h"
#include "tensor/finite_codes.h"
#include "tensor/gguf_blocks.h"
#include "tensor/scalar.h"
#include "tensor/scale_level.h"
#include "tensor/tensor.h"

namespace vernier {
namespace {

Error about(const std::string& origin, Error error) {
  if (error.where.empty()) error.where = origin;
  return error;
}

/// The codec's row as the table has it, so that a row put together by hand cannot get in.
bool is_from_table(const Codec& given) {
  if (static_cast<size_t>(given.id) >= all_codecs().size()) return false;
  const Codec& row = all_codecs()[static_cast<size_t>(given.id)];
  bool is_block = given.id == CodecId::kE4M3Block || given.id == CodecId::kE5M2Block;
  bool same_groups = is_block ? given.group_rows > 0 && given.group_cols > 0 &&
                                    (given.inner == ScaleType::kF32 || given.inner == ScaleType::kE8M0)
                              : given == row;
  return same_groups && given.element == row.element && given.bits == row.bits && given.packing == row.packing &&
         given.outer_scale == row.outer_scale && given.block_bytes == row.block_bytes;
}

Status check_inner_scales(const QTensorParts& parts) {
  const Codec& codec = parts.codec;
  if (codec.inner == ScaleType::kNone) {
    if (parts.inner_scales)
      return invalid_argument("{} has no scales of its own, but a scale tensor was given", codec.name);
    return {};
  }
  int64_t down = codec.groups_down(parts.rows);
  int64_t across = codec.groups_across(parts.cols);
  if (!parts.inner_scales) {
    return invalid_argument("the scales are missing: {} of [{}, {}] needs [{}, {}]", codec.name, parts.rows, parts.cols,
                            down, across);
  }
  // No overflow: groups are no more than elements, and a scale is no more than 4 bytes of at least one code each.
  std::optional<int64_t> count = checked_mul(down, across);
  std::optional<int64_t> expected = count ? checked_mul(*count, scale_bytes(codec.inner)) : std::nullopt;
  if (!expected || parts.inner_scales->size() != static_cast<size_t>(*expected)) {
    return corrupt("found {} bytes of scales, expected {} for [{}, {}] scales of {}", parts.inner_scales->size(),
                   expected.value_or(-1), down, across, codec.name);
  }
  std::span<const std::byte> scales = parts.inner_scales->span();
  if (std::optional<int64_t> bad = find_bad_scale(codec.inner, scales, *count)) {
    return corrupt("scale [{}, {}] of {} is {}, expected {}", *bad / across, *bad % across, codec.name,
                   scale_fault(codec.inner, scale_value(codec.inner, scales, *bad)),
                   codec.inner == ScaleType::kE4M3 ? "a finite number not below 0" : "a finite number above 0");
  }
  return {};
}

Status check_outer_scales(const QTensorParts& parts) {
  const Codec& codec = parts.codec;
  if (!codec.outer_scale) {
    if (!parts.outer_scales.empty() || !parts.segment_rows.empty()) {
      return invalid_argument("{} has no global scale, but {} were given", codec.name, parts.outer_scales.size());
    }
    return {};
  }
  if (parts.outer_scales.empty()) return invalid_argument("the global scale of {} is missing", codec.name);
  size_t segments = parts.segment_rows.empty() ? 1 : parts.segment_rows.size();
  if (parts.outer_scales.size() != segments) {
    return invalid_argument("found {} global scales, expected {}: one for each row segment", parts.outer_scales.size(),
                            segments);
  }
  for (size_t i = 0; i < segments; ++i) {
    float scale = parts.outer_scales[i];
    if (!std::isfinite(scale) || scale <= 0) {
      return corrupt("global scale {} of {} is {}, expected a finite number above 0", i, codec.name, scale);
    }
  }
  if (parts.segment_rows.empty()) return {};
  int64_t left = parts.rows;
  for (int64_t rows : parts.segment_rows) {
    if (rows < 1 || rows > left) return invalid_argument("a segment of {} rows, where {} rows are left", rows, left);
    left -= rows;
  }
  if (left != 0) return invalid_argument("the row segments leave {} of {} rows without a scale", left, parts.rows);
  return {};
}

const Codec& dense_codec(DType dtype) {
  CHECK(dtype != DType::kI32, "i32 has no codec");
  return codec(dtype == DType::kF32 ? CodecId::kF32 : dtype == DType::kF16 ? CodecId::kF16 : CodecId::kBF16);
}

}  // namespace

QTensor::QTensor(QTensorParts parts)
    : codec_(parts.codec),
      rows_(parts.rows),
      cols_(parts.cols),
      codes_(std::move(parts.codes)),
      inner_scales_(std::move(parts.inner_scales)),
      outer_scales_(std::move(parts.outer_scales)),
      segment_rows_(std::move(parts.segment_rows)),
      origin_(std::move(parts.origin)) {
  if (codec_.outer_scale && segment_rows_.empty()) segment_rows_ = {rows_};
}

Result<QTensor> QTensor::make(QTensorParts parts) {
  if (!is_from_table(parts.codec)) {
    return about(parts.origin, make_error(ErrorCode::kInternal, "'{}' is no row of the codec table", parts.codec.name));
  }
  Result<int64_t> expected = parts.codec.code_bytes(parts.rows, parts.cols);
  if (!expected.ok()) return about(parts.origin, expected.error());
  if (parts.codes.size() != static_cast<size_t>(*expected)) {
    return about(parts.origin, corrupt("found {} bytes of codes, expected {} for [{}, {}] of {}", parts.codes.size(),
                                       *expected, parts.rows, parts.cols, parts.codec.name));
  }
  if (Status status = check_inner_scales(parts); !status.ok()) return about(parts.origin, status.error());
  if (Status status = check_outer_scales(parts); !status.ok()) return about(parts.origin, status.error());
  return QTensor(std::move(parts));
}

Result<QTensor> QTensor::from_dense(const Tensor& tensor, std::string origin) {
  const Shape& shape = tensor.shape();
  if (tensor.dtype() == DType::kI32) return Error{ErrorCode::kInvalidArgument, "i32 numbers are no weights", origin};
  if (shape.rank() > 2) {
    return about(origin, invalid_argument("found shape {}, expected a matrix or a row", shape.to_string()));
  }
  bool is_row = shape.rank() == 1;
  QTensorParts parts{dense_codec(tensor.dtype()),
                     is_row ? 1 : shape[0],
                     is_row ? shape[0] : shape[1],
                     tensor.storage(),
                     std::nullopt,
                     {},
                     {},
                     std::move(origin)};
  return make(std::move(parts));
}

QTensor::View QTensor::view() const {
  return {codec_,
          rows_,
          cols_,
          codes_.span(),
          inner_scales_ ? inner_scales_->span() : std::span<const std::byte>(),
          outer_scales_,
          segment_rows_};
}

size_t QTensor::stored_bytes() const {
  return codes_.size() + (inner_scales_ ? inner_scales_->size() : 0) + outer_scales_.size() * sizeof(float);
}

Status QTensor::check_finite(int64_t row_begin, int64_t row_end) const {
  CHECK(row_begin >= 0 && row_begin <= row_end && row_end <= rows_, "rows {} to {} of {}", row_begin, row_end, rows_);
  auto row_bytes = static_cast<size_t>(codec_.row_bytes(cols_));
  std::span<const std::byte> rows = codes_.span().subspan(static_cast<size_t>(row_begin) * row_bytes,
                                                          static_cast<size_t>(row_end - row_begin) * row_bytes);
  if (codec_.packing != Packing::kGgufBlock) {
    std::optional<int64_t> bad = find_not_finite(codec_.element, rows);
    if (!bad) return {};
    return about(origin_,
                 corrupt("number [{}, {}] of {} is NaN or infinite; the file is damaged, or its maker overflowed",
                         row_begin + *bad / cols_, *bad % cols_, codec_.name));
  }
  std::optional<int64_t> bad = find_bad_block_scale(codec_, rows);
  if (!bad) return {};
  int64_t blocks_across = cols_ / codec_.group_cols;
  return about(origin_, corrupt("the scale of block [{}, {}] of {} is no finite number; the file is damaged",
                                row_begin + *bad / blocks_across, *bad % blocks_across, codec_.name));
}

std::vector<float> QTensor::decode() const {
  std::vector<float> result(static_cast<size_t>(rows_ * cols_));
  for (int64_t row = 0; row < rows_; ++row) {
    decode_row(row, std::span(result).subspan(static_cast<size_t>(row * cols_), static_cast<size_t>(cols_)));
  }
  return result;
}

void QTensor::release_pages() const {
  codes_.release_pages();
  if (inner_scales_) inner_scales_->release_pages();
}

}  // namespace vernier
