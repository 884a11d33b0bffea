#include "tensor/casts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/checked.h"
#include "tensor/scalar.h"
#include "tensor/scale_level.h"

namespace vernier {
namespace {

/// Sums over a matrix, block by block.
class LossMeter {
 public:
  void add(float before, float after) {
    ++report_.elements;
    largest_ = std::max(largest_, std::fabs(double{before}));
    const double change = std::fabs(double{after} - double{before});
    // NaN stays NaN, and minus zero is another number than zero.
    if (std::isnan(before) && std::isnan(after)) return;
    sum_ += double{before} * double{before};
    if (std::bit_cast<uint32_t>(before) == std::bit_cast<uint32_t>(after)) return;
    ++report_.inexact;
    change_sum_ += change * change;
    worst_ = std::max(worst_, change);
  }
  void add_saturated() { ++report_.saturated; }
  void end_block(double scale_ratio) {
    if (worst_ > 0) report_.worst_relative = std::max(report_.worst_relative, worst_ / std::max(largest_, worst_));
    report_.widest_ratio = std::max(report_.widest_ratio, scale_ratio);
    worst_ = largest_ = 0;
  }
  CastReport report() const {
    CastReport made = report_;
    made.relative_rms = sum_ > 0 ? std::sqrt(change_sum_ / sum_) : change_sum_ > 0 ? 1 : 0;
    return made;
  }

 private:
  CastReport report_;
  double sum_ = 0;
  double change_sum_ = 0;
  double worst_ = 0;
  double largest_ = 0;
};

/// Codes and E8M0 scales of a block format under construction.
struct Blocks {
  Codec codec;
  const QTensor& from;
  std::vector<float> values;  // [rows, cols] as they were
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  LossMeter meter;

  Blocks(CodecId id, BlockSize block, const QTensor& tensor)
      : codec(block_codec(id, block.rows, block.cols, ScaleType::kE8M0)),
        from(tensor),
        values(tensor.decode()),
        codes(values.size()),
        scales(static_cast<size_t>(codec.groups_down(tensor.rows()) * codec.groups_across(tensor.cols()))) {}

  /// Calls visit(block index, indices of elements) for each block.
  template <class Visit>
  void each(Visit visit) const {
    std::vector<size_t> elements;
    size_t index = 0;
    for (int64_t top = 0; top < from.rows(); top += codec.group_rows) {
      for (int64_t left = 0; left < from.cols(); left += codec.group_cols) {
        elements.clear();
        for (int64_t row = top; row < std::min(from.rows(), top + codec.group_rows); ++row) {
          for (int64_t col = left; col < std::min(from.cols(), left + codec.group_cols); ++col) {
            elements.push_back(static_cast<size_t>(row * from.cols() + col));
          }
        }
        visit(index++, std::span<const size_t>(elements));
      }
    }
  }

  float decode(uint8_t code) const { return codec.element == Element::kE4M3 ? e4m3_to_f32(code) : e5m2_to_f32(code); }
  uint8_t encode(float value) const {
    return codec.element == Element::kE4M3 ? f32_to_e4m3(value) : f32_to_e5m2(value);
  }

  /// Makes a block's codes under 2^(exponent - 127) and counts what changed. The quotient is exact: in float64.
  void fill(size_t index, std::span<const size_t> elements, uint8_t exponent, double scale_ratio) {
    scales[index] = std::byte{exponent};
    const double scale = std::ldexp(1.0, exponent - 127);
    const double largest = codec.element == Element::kE4M3 ? 448 : 57344;
    for (size_t at : elements) {
      // One rounding: float32 holds the quotient but where it is far below the smallest code.
      const double quotient = double{values[at]} / scale;
      const uint8_t code = encode(static_cast<float>(quotient));
      codes[at] = std::byte{code};
      if (std::fabs(quotient) > largest) meter.add_saturated();
      meter.add(values[at], static_cast<float>(double{decode(code)} * scale));
    }
    meter.end_block(scale_ratio);
  }

  Result<Cast> finish(CastLoss loss) && {
    CastReport report = meter.report();
    if (loss == CastLoss::kRefuse && !report.exact()) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("{} cannot become {} without loss: {}; scales of one block lie up to a factor of {:g} "
                               "apart",
                               from.codec().name, codec.name, report.to_string(), report.widest_ratio),
                   from.origin()};
    }
    TRY_BIND(QTensor made, QTensor::make({codec,
                                          from.rows(),
                                          from.cols(),
                                          Bytes(std::move(codes)),
                                          Bytes(std::move(scales)),
                                          {},
                                          {},
                                          from.origin()}));
    return Cast{std::move(made), report};
  }
};

Error wrong_codec(const QTensor& tensor, const char* expected) {
  return Error{ErrorCode::kUnsupported, fmt::format("found {}, expected {}", tensor.codec().name, expected),
               tensor.origin()};
}

CastReport unchanged(const QTensor& tensor) {
  CastReport report;
  report.elements = tensor.rows() * tensor.cols();
  return report;
}

/// Scales of groups of 32 that lie in a block.
struct GroupRange {
  uint8_t smallest = 255;
  uint8_t largest = 0;
  double ratio() const { return std::ldexp(1.0, largest - smallest); }
};

GroupRange group_range(const QTensor& tensor, std::span<const size_t> elements) {
  GroupRange range;
  for (size_t at : elements) {
    const auto scale = static_cast<uint8_t>(tensor.view().inner_scales[at / 32]);
    range.smallest = std::min(range.smallest, scale);
    range.largest = std::max(range.largest, scale);
  }
  return range;
}

float largest_of(std::span<const float> values, std::span<const size_t> elements) {
  float largest = 0;
  for (size_t at : elements) {
    if (std::isfinite(values[at])) largest = std::max(largest, std::fabs(values[at]));
  }
  return largest;
}

/// The exponent of a power of two that E8M0 can hold, else nothing.
std::optional<uint8_t> power_of_two(float scale) {
  const uint32_t bits = std::bit_cast<uint32_t>(scale);
  const uint32_t exponent = bits >> 23;
  if ((bits & 0x7FFFFF) != 0 || exponent < 1 || exponent > 254) return std::nullopt;
  return static_cast<uint8_t>(exponent);
}

}  // namespace

std::string CastReport::to_string() const {
  if (exact()) return "exact";
  std::string text = fmt::format("{} of {} numbers changed, relative RMS {:.4f}, worst {:.4f}", inexact, elements,
                                 relative_rms, worst_relative);
  if (saturated > 0) text += fmt::format(", {} saturated", saturated);
  return text;
}

CastReport compare_numbers(std::span<const float> before, std::span<const float> after) {
  CHECK(before.size() == after.size(), "{} numbers against {}", before.size(), after.size());
  LossMeter meter;
  for (size_t i = 0; i < before.size(); ++i) meter.add(before[i], after[i]);
  meter.end_block(1);
  return meter.report();
}

Result<Cast> with_e8m0_scales(const QTensor& tensor, CastLoss loss) {
  const Codec& codec = tensor.codec();
  if (codec.id != CodecId::kE4M3Block && codec.id != CodecId::kE5M2Block) {
    return wrong_codec(tensor, "FP8 in blocks");
  }
  if (codec.inner == ScaleType::kE8M0) return Cast{tensor, unchanged(tensor)};
  Blocks blocks(codec.id, {static_cast<uint16_t>(codec.group_rows), static_cast<uint16_t>(codec.group_cols)}, tensor);
  const float largest_code = codec.element == Element::kE4M3 ? 448.0f : 57344.0f;
  const QTensor::View view = tensor.view();
  blocks.each([&](size_t index, std::span<const size_t> elements) {
    const float scale = scale_value(ScaleType::kF32, view.inner_scales, static_cast<int64_t>(index));
    std::optional<uint8_t> exponent = power_of_two(scale);
    const float largest = largest_of(blocks.values, elements);
    // A silent block needs no other codes; its own scale, rounded up, does.
    if (!exponent) exponent = f32_to_e8m0_ceil(largest > 0 ? largest / largest_code : scale);
    blocks.fill(index, elements, *exponent, 1);
  });
  return std::move(blocks).finish(loss);
}

Result<Cast> mxfp4_to_e4m3(const QTensor& tensor, BlockSize block, CastLoss loss) {
  if (tensor.codec().id != CodecId::kMxfp4) return wrong_codec(tensor, "mxfp4");
  if (block.rows == 0 || block.cols == 0 || block.cols % 32 != 0 || tensor.rows() % block.rows != 0 ||
      tensor.cols() % block.cols != 0) {
    return invalid_argument("[{}, {}] cannot be cut into blocks of {}x{}, which must divide it and hold groups of 32",
                            tensor.rows(), tensor.cols(), block.rows, block.cols);
  }
  Blocks blocks(CodecId::kE4M3Block, block, tensor);
  blocks.each([&](size_t index, std::span<const size_t> elements) {
    const GroupRange range = group_range(tensor, elements);
    // 6 x 64 = 384 is below 448. Where the exponent would fall below E8M0's, codes are smaller and as exact.
    const int exponent = std::max(0, range.largest - 6);
    blocks.fill(index, elements, static_cast<uint8_t>(exponent), range.ratio());
  });
  return std::move(blocks).finish(loss);
}

Result<Cast> mxfp8_to_blocks(const QTensor& tensor, BlockSize block, CastLoss loss) {
  if (tensor.codec().id != CodecId::kMxfp8) return wrong_codec(tensor, "mxfp8");
  if (block.rows == 0 || block.cols == 0 || block.cols % 32 != 0) {
    return invalid_argument("blocks of {}x{}, expected columns in groups of 32", block.rows, block.cols);
  }
  Blocks blocks(CodecId::kE4M3Block, block, tensor);
  blocks.each([&](size_t index, std::span<const size_t> elements) {
    const GroupRange range = group_range(tensor, elements);
    // The smallest scale that holds the largest number leaves most room below.
    const float largest = largest_of(blocks.values, elements);
    const uint8_t exponent = largest > 0 ? f32_to_e8m0_ceil(largest / 448.0f) : range.largest;
    blocks.fill(index, elements, exponent, range.ratio());
  });
  return std::move(blocks).finish(loss);
}

Result<QTensor> with_smaller_blocks(const QTensor& tensor, BlockSize block) {
  const Codec& codec = tensor.codec();
  if (codec.id != CodecId::kE4M3Block && codec.id != CodecId::kE5M2Block) {
    return wrong_codec(tensor, "FP8 in blocks");
  }
  if (block.rows == 0 || block.cols == 0 || codec.group_rows % block.rows != 0 || codec.group_cols % block.cols != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("blocks of {}x{} do not fill those of {}", block.rows, block.cols, codec.name),
                 tensor.origin()};
  }
  const QTensor::View view = tensor.view();
  const Codec smaller = block_codec(codec.id, block.rows, block.cols, codec.inner);
  const int64_t down = smaller.groups_down(view.rows), across = smaller.groups_across(view.cols);
  const int64_t old_across = codec.groups_across(view.cols);
  const auto each = static_cast<size_t>(scale_bytes(codec.inner));
  std::vector<std::byte> scales(static_cast<size_t>(down * across) * each);
  for (int64_t row = 0; row < down; ++row) {
    for (int64_t col = 0; col < across; ++col) {
      const int64_t old = row * block.rows / codec.group_rows * old_across + col * block.cols / codec.group_cols;
      std::memcpy(scales.data() + static_cast<size_t>(row * across + col) * each,
                  view.inner_scales.data() + static_cast<size_t>(old) * each, each);
    }
  }
  std::vector<std::byte> codes(view.codes.begin(), view.codes.end());
  return QTensor::make(
      {smaller, view.rows, view.cols, Bytes(std::move(codes)), Bytes(std::move(scales)), {}, {}, tensor.origin()});
}

}  // namespace vernier
