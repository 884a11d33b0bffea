#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/bytes.h"
#include "tensor/codec.h"

namespace vernier {

class Tensor;

/// What a QTensor is made of; `QTensor::make` checks each against the others.
struct QTensorParts {
  Codec codec;
  int64_t rows = 0;
  int64_t cols = 0;
  Bytes codes;
  std::optional<Bytes>
      inner_scales;                 ///< row-major [groups down, groups across]; present exactly where codec.inner says
  std::vector<float> outer_scales;  ///< one, or one for each of `segment_rows`; present exactly where codec.outer_scale
  std::vector<int64_t> segment_rows;  ///< rows of each segment; empty: one segment of all rows
  std::string origin;                 ///< where the numbers came from: tensor and scale names, for reports
};

/// A matrix of codes with every scale that acts on it, as one value: codec, codes, scale levels and logical extents.
///
/// Nothing hands out codes alone: readers get a `View`, which has all of them. Made only by the validating `make`;
/// every law of slicing holds: decode(slice(t)) == slice(decode(t)), and a cut through a scale group is an error that
/// names the nearest cuts that work. Immutable and cheap to copy (bytes are shared); any thread may read.
class QTensor {
 public:
  /// Everything that is needed to read the numbers; lives no longer than its QTensor.
  struct View {
    const Codec& codec;
    int64_t rows;
    int64_t cols;
    std::span<const std::byte> codes;
    std::span<const std::byte> inner_scales;  ///< empty where codec.inner is kNone
    std::span<const float> outer_scales;      ///< empty where the codec has none
    std::span<const int64_t> segment_rows;    ///< as many as outer_scales; empty where those are
  };

  /// Refuses: extents below 1 or that overflow, a byte count other than the codec's, absent or superfluous scales, a
  /// scale that is not finite or not positive where it must be, columns that are no multiple of the block (GGUF, FP4).
  static Result<QTensor> make(QTensorParts parts);
  /// A dense tensor of rank 2 (or 1, as one row) under the codec of its dtype. Refuses i32.
  static Result<QTensor> from_dense(const Tensor& tensor, std::string origin);

  const Codec& codec() const { return codec_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  const std::string& origin() const { return origin_; }
  View view() const;
  size_t stored_bytes() const;  ///< codes and scales as stored
  /// Refuses a code of these rows that is NaN or infinite, and a GGUF block whose own scale is. Not part of `make`,
  /// which must not read a mapped file from end to end: whoever packs the rows asks.
  Status check_finite(int64_t row_begin, int64_t row_end) const;

  Result<QTensor> slice_rows(int64_t begin, int64_t end) const;
  Result<QTensor> slice_cols(int64_t begin, int64_t end) const;
  /// Row i of the result is row order[i] of this. Only for codecs whose groups lie within a row.
  Result<QTensor> permute_rows(std::span<const int64_t> order) const;
  /// Same codec and columns; outer scales stay apart, one for each part.
  static Result<QTensor> concat_rows(std::span<const QTensor> parts);

  /// Row `row` as float32, exactly: `out` has cols() elements. CHECKs the row.
  void decode_row(int64_t row, std::span<float> out) const;
  std::vector<float> decode() const;  ///< [rows, cols]

  /// Lets the system drop the file pages behind this, once a backend has packed it.
  void release_pages() const;

 private:
  explicit QTensor(QTensorParts parts);

  Codec codec_;
  int64_t rows_;
  int64_t cols_;
  Bytes codes_;
  std::optional<Bytes> inner_scales_;
  std::vector<float> outer_scales_;
  std::vector<int64_t> segment_rows_;
  std::string origin_;
};

/// Encodes float32 rows under a codec: saturating, ties to even, scales chosen as the format's reference does. `values`
/// is [rows, cols]. Refuses NaN for codecs that cannot hold it and columns that are no multiple of the group.
Result<QTensor> encode(const Codec& codec, int64_t rows, int64_t cols, std::span<const float> values);

}  // namespace vernier
