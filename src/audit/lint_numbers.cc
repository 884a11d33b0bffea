#include <algorithm>
#include <array>
#include <cmath>

#include "audit/lint_parts.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/cache_scales.h"
#include "checkpoint/scale_tensor.h"
#include "tensor/scale_level.h"

namespace vernier {

namespace {

/// A weight above is none that any model was trained to; with the reciprocal of its scale it may be.
constexpr double kLargestWeight = 200;
/// Whole matrices below have lost their numbers to rounding, or a scale.
constexpr double kSmallestPeak = 1e-6;

struct NumberCounts {
  int64_t not_finite = 0;
  int64_t first_row = -1;  ///< of those
  int64_t first_col = -1;
  double peak = 0;  ///< largest magnitude
  int64_t peak_row = 0;
  int64_t peak_col = 0;
};

void count_row(std::span<const float> row, int64_t index, NumberCounts& counts) {
  for (size_t col = 0; col < row.size(); ++col) {
    const double value = std::fabs(double{row[col]});
    if (!std::isfinite(value)) {
      if (counts.not_finite++ > 0) continue;
      counts.first_row = index;
      counts.first_col = static_cast<int64_t>(col);
    } else if (value > counts.peak) {
      counts.peak = value;
      counts.peak_row = index;
      counts.peak_col = static_cast<int64_t>(col);
    }
  }
}

/// The scale of the level that a tool may have turned over: NVFP4's global one, else the groups'.
double scale_at(const QTensor::View& view, int64_t row, int64_t col) {
  if (!view.outer_scales.empty()) return view.outer_scales.front();
  if (view.inner_scales.empty()) return 1;
  const int64_t down = view.codec.group_rows == 0 ? 0 : row / view.codec.group_rows;
  const int64_t across = view.codec.group_cols == 0 ? 0 : col / view.codec.group_cols;
  return scale_value(view.codec.inner, view.inner_scales, down * view.codec.groups_across(view.cols) + across);
}

int64_t count_codes(const StoredTensor& tensor, std::initializer_list<uint8_t> codes) {
  return std::count_if(tensor.bytes.begin(), tensor.bytes.end(), [&](std::byte byte) {
    return std::find(codes.begin(), codes.end(), static_cast<uint8_t>(byte)) != codes.end();
  });
}

/// NaN among FP8 codes; what the other family of types would read there tells which one wrote them.
void lint_fp8_codes(const StoredTensor& tensor, LintReport& report) {
  auto add = [&](std::string message) {
    report.add(lint_checks::kCodes, tensor.file->path(), tensor.file_name, std::move(message));
  };
  if (tensor.type == "F8_E4M3") {
    const int64_t nan = count_codes(tensor, {0x7F, 0xFF});
    if (nan == 0) return;
    const bool may_be_fnuz = count_codes(tensor, {0x80}) == 0;
    add(fmt::format("{} of {} codes are NaN (0x7F, 0xFF){}", nan, tensor.bytes.size(),
                    may_be_fnuz ? ", and none is 0x80: these look like F8_E4M3FNUZ codes, where 0x7F is 240 and every "
                                  "value is half as large"
                                : ""));
  } else if (tensor.type == "F8_E4M3FNUZ" || tensor.type == "F8_E5M2FNUZ") {
    const int64_t nan = count_codes(tensor, {0x80});
    if (nan > 0) {
      add(fmt::format(
          "{} of {} codes are 0x80, NaN in {}: these look like codes of the type without FNUZ, where 0x80 is "
          "minus zero",
          nan, tensor.bytes.size(), tensor.type));
    }
  } else if (tensor.type == "F8_E5M2") {
    const int64_t bad = count_codes(tensor, {0x7C, 0x7D, 0x7E, 0x7F, 0xFC, 0xFD, 0xFE, 0xFF});
    if (bad > 0) add(fmt::format("{} of {} codes are infinite or NaN", bad, tensor.bytes.size()));
  }
}

/// Bytes of `tensor` that are powers of two alone: MX scales.
bool holds_exponents(const StoredTensor& tensor) {
  return tensor.type == "F8_E8M0" || (tensor.type == "U8" && tensor.name.ends_with("scales")) ||
         (tensor.type == "U8" && tensor.name.ends_with("weight_scale"));
}

void lint_lone_scale(const StoredTensor& tensor, LintReport& report) {
  auto add = [&](std::string message) {
    report.add(lint_checks::kScaleValue, tensor.file->path(), tensor.file_name, std::move(message));
  };
  if (holds_exponents(tensor)) {
    if (const int64_t bad = count_codes(tensor, {0xFF}); bad > 0) {
      add(fmt::format("{} of {} scales are 0xFF, which is NaN", bad, tensor.bytes.size()));
    }
    return;
  }
  if (tensor.type == "F8_E4M3") {
    if (const int64_t bad = count_codes(tensor, {0x7F, 0xFF}); bad > 0) {
      add(fmt::format("{} of {} scales are NaN (0x7F, 0xFF)", bad, tensor.bytes.size()));
    }
    return;
  }
  Result<std::vector<float>> values = read_floats(tensor);
  if (!values.ok() || tensor.name.find("scale") == std::string::npos) return;
  for (size_t i = 0; i < values->size(); ++i) {
    const char* fault = scale_fault(ScaleType::kF32, (*values)[i]);
    if (fault == nullptr) continue;
    return add(fmt::format("scale {} is {}, expected a finite number above 0", i, fault));
  }
}

bool is_fp8(const StoredTensor& tensor) {
  return tensor.type == "F8_E4M3" || tensor.type == "F8_E5M2" || tensor.type == "F8_E4M3FNUZ" ||
         tensor.type == "F8_E5M2FNUZ";
}

void lint_magnitude(const StoredMatrix& stored, const NumberCounts& counts, LintReport& report) {
  const QTensor::View view = stored.matrix.view();
  if (view.codec.inner == ScaleType::kNone && view.outer_scales.empty()) return;  // no scale stands beside the codes
  if (counts.peak <= kLargestWeight && counts.peak >= kSmallestPeak) return;
  const double scale = scale_at(view, counts.peak_row, counts.peak_col);
  const double other_way = counts.peak / scale / scale;
  const bool turned = other_way <= kLargestWeight && other_way >= kSmallestPeak;
  const StoredTensor& about = stored.sources.size() > 1 ? *stored.sources.back().tensor : *stored.sources[0].tensor;
  const StoredTensor* scales = &about;
  for (const StoredMatrix::Source& source : stored.sources) {
    if (source.use == TensorUse::kScale) scales = source.tensor;
  }
  report.add(
      lint_checks::kMagnitude, scales->file->path(), scales->file_name,
      fmt::format("its largest weight is {:.3g} (scale {:.3g}), expected {:g} to {:g}{}", counts.peak, scale,
                  kSmallestPeak, kLargestWeight,
                  turned ? fmt::format("; with the reciprocal of the scale it would be {:.3g}", other_way) : ""));
}

}  // namespace

void lint_matrix(const StoredMatrix& stored, LintReport& report) {
  const StoredTensor& codes = *stored.sources.front().tensor;
  const bool has_blocks = stored.matrix.codec().packing == Packing::kGgufBlock;
  if (Status blocks = stored.matrix.check_finite(0, stored.matrix.rows()); has_blocks && !blocks.ok()) {
    report.add(lint_checks::kScaleValue, codes.file->path(), codes.file_name, blocks.error().message);
    return;
  }
  NumberCounts counts;
  std::vector<float> row(static_cast<size_t>(stored.matrix.cols()));
  for (int64_t i = 0; i < stored.matrix.rows(); ++i) {
    stored.matrix.decode_row(i, row);
    count_row(row, i, counts);
  }
  if (counts.not_finite > 0) {
    if (is_fp8(codes)) return lint_fp8_codes(codes, report);
    report.add(lint_checks::kNumbers, codes.file->path(), codes.file_name,
               fmt::format("{} of {} numbers are NaN or infinite, the first at row {}, column {}", counts.not_finite,
                           stored.matrix.rows() * stored.matrix.cols(), counts.first_row, counts.first_col));
  } else if (counts.peak == 0) {
    report.add(lint_checks::kZeros, codes.file->path(), codes.file_name,
               fmt::format("all {} numbers are 0", stored.matrix.rows() * stored.matrix.cols()));
  } else {
    lint_magnitude(stored, counts, report);
  }
}

void lint_tensor(const StoredTensor& tensor, LintReport& report) {
  if (parse_cache_scale(tensor.name)) return;
  if (looks_like_scale(tensor.name)) return lint_lone_scale(tensor, report);
  if (is_fp8(tensor)) return lint_fp8_codes(tensor, report);
  Result<std::vector<float>> values = read_floats(tensor);
  if (!values.ok()) return;
  NumberCounts counts;
  count_row(*values, 0, counts);
  if (counts.not_finite == 0) return;
  report.add(lint_checks::kNumbers, tensor.file->path(), tensor.file_name,
             fmt::format("{} of {} numbers are NaN or infinite, the first at {}", counts.not_finite, values->size(),
                         counts.first_col));
}

void lint_lone_codes(const Checkpoint& checkpoint, LintReport& report) {
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (!is_fp8(tensor) || looks_like_scale(tensor.name)) continue;
    const size_t dot = tensor.name.rfind('.');
    const std::string module = tensor.name.substr(0, dot == std::string::npos ? tensor.name.size() : dot);
    if (!scales_beside(checkpoint, module).empty()) continue;
    report.add(lint_checks::kLoneCodes, tensor.file->path(), tensor.file_name,
               fmt::format("holds {} codes, and no scale stands beside it", tensor.type));
  }
}

}  // namespace vernier
