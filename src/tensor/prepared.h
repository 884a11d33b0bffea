#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensor/layout.h"
#include "tensor/qtensor.h"

namespace vernier {

/// What a layout makes of a matrix's sizes. Kernels are given the physical ones, everyone else the logical ones.
struct PreparedExtents {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t physical_rows = 0;
  int64_t physical_cols = 0;
  int64_t code_bytes = 0;
  int64_t scale_bytes = 0;
  int64_t padding_bytes = 0;  ///< of both, beyond what the parts hold
};

/// Sizes of the parts, one below the other, in this layout. Refuses what `PreparedTensor::prepare` refuses but for the
/// scales' values.
Result<PreparedExtents> prepared_extents(std::span<const QTensor> parts, const Layout& layout);
/// The same from sizes alone.
Result<PreparedExtents> prepared_extents(const Codec& codec, std::span<const int64_t> part_rows, int64_t cols,
                                         const Layout& layout);
/// Writes the parts as the layout has them into memory of those sizes: every byte, padding too, so that what an earlier
/// matrix left there is gone.
Status write_prepared(std::span<const QTensor> parts, const Layout& layout, std::span<std::byte> codes,
                      std::span<std::byte> scales);

/// A (fused) matrix as a kernel reads it: codes and every scale in the kernel's order, and the layout that says which,
/// as one value. A kernel refuses a layout other than its own, and to prepare twice changes nothing. Immutable and
/// cheap to copy; any thread may read.
class PreparedTensor {
 public:
  /// Everything that is needed to read the numbers; lives no longer than its PreparedTensor.
  struct View {
    const Codec& codec;
    const Layout& layout;
    const PreparedExtents& extents;
    std::span<const std::byte> codes;
    std::span<const std::byte> scales;      ///< inner ones, in layout.scales; empty where the codec has none
    std::span<const float> outer_scales;    ///< one for each of `segment_rows`; empty where the codec has none
    std::span<const int64_t> segment_rows;  ///< physical
  };

  /// The parts of a fused matrix, each padded for itself. Refuses: parts of different codecs or columns, GGUF blocks,
  /// an order of scales that cannot hold these, rows that leave the others of their scale group, one global scale for
  /// each part where their rows are mixed.
  static Result<PreparedTensor> prepare(std::span<const QTensor> parts, const Layout& layout);
  /// Itself where it lies so already; else from what was stored.
  Result<PreparedTensor> prepare(const Layout& layout) const;
  /// The parts as they were, to the bit.
  Result<std::vector<QTensor>> restore() const;

  const Codec& codec() const { return codec_; }
  const Layout& layout() const { return layout_; }
  const PreparedExtents& extents() const { return extents_; }
  View view() const;

 private:
  /// What is needed of a part to make it again.
  struct Part {
    int64_t rows;
    std::vector<float> outer_scales;
    std::vector<int64_t> segment_rows;
    std::string origin;
  };

  PreparedTensor(Codec codec, const Layout& layout, const PreparedExtents& extents, Bytes codes, Bytes scales)
      : codec_(codec), layout_(layout), extents_(extents), codes_(std::move(codes)), scales_(std::move(scales)) {}

  Codec codec_;
  Layout layout_;
  PreparedExtents extents_;
  Bytes codes_;
  Bytes scales_;
  std::vector<float> outer_scales_;
  std::vector<int64_t> segment_rows_;  // physical
  std::vector<Part> parts_;
};

/// A scale of 1 in the encoding of its type: E8M0 127, E4M3 0x38.
void put_unit_scale(ScaleType type, std::byte* at);

}  // namespace vernier
