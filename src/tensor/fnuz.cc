#include "tensor/fnuz.h"

#include <cstring>

#include "tensor/scale_level.h"

namespace vernier {
namespace {

constexpr uint8_t kSign = 0x80;
constexpr uint8_t kFnuzNan = 0x80;

bool is_fp8(const Codec& codec) {
  return (codec.element == Element::kE4M3 || codec.element == Element::kE5M2) && codec.packing == Packing::kPlain;
}

/// Largest magnitude code of FN, and the first that is no finite number.
uint8_t largest_fn(Element element) {
  return element == Element::kE4M3 ? 0x7E : 0x7B;
}

/// Twice or half as large. Refuses a scale that its type cannot hold then.
Result<Bytes> shifted_scales(const QTensor& tensor, bool twice) {
  const QTensor::View view = tensor.view();
  std::vector<std::byte> scales(view.inner_scales.begin(), view.inner_scales.end());
  const bool is_f32 = view.codec.inner == ScaleType::kF32;
  for (size_t i = 0; i < scales.size(); i += is_f32 ? sizeof(float) : 1) {
    if (is_f32) {
      float scale;
      std::memcpy(&scale, scales.data() + i, sizeof(scale));
      scale *= twice ? 2.0f : 0.5f;
      std::memcpy(scales.data() + i, &scale, sizeof(scale));
      continue;
    }
    const int exponent = static_cast<int>(scales[i]) + (twice ? 1 : -1);
    if (exponent < 0 || exponent > 254) {
      return Error{ErrorCode::kUnsupported, fmt::format("E8M0 cannot hold scale {} {}", i, twice ? "twice" : "by half"),
                   tensor.origin()};
    }
    scales[i] = static_cast<std::byte>(exponent);
  }
  return Bytes(std::move(scales));
}

Result<QTensor> with_codes(const QTensor& tensor, std::vector<std::byte> codes, Bytes scales) {
  return QTensor::make({tensor.codec(),
                        tensor.rows(),
                        tensor.cols(),
                        Bytes(std::move(codes)),
                        std::move(scales),
                        {},
                        {},
                        tensor.origin()});
}

}  // namespace

Result<FnuzTensor> FnuzTensor::make(QTensorParts parts) {
  if (!is_fp8(parts.codec)) return unsupported("{} has no FNUZ form, expected E4M3 or E5M2", parts.codec.name);
  TRY_BIND(QTensor checked, QTensor::make(std::move(parts)));
  return FnuzTensor(std::move(checked));
}

Result<std::pair<FnuzTensor, CastReport>> FnuzTensor::from_fn(const QTensor& tensor) {
  const Element element = tensor.codec().element;
  if (!is_fp8(tensor.codec())) return unsupported("{} has no FNUZ form, expected E4M3 or E5M2", tensor.codec().name);
  const uint8_t first_special = largest_fn(element) + 1;
  std::vector<std::byte> codes;
  int64_t saturated = 0;
  for (std::byte stored : tensor.view().codes) {
    const auto code = static_cast<uint8_t>(stored), magnitude = static_cast<uint8_t>(code & 0x7F);
    uint8_t made = code == kSign ? 0 : code;
    if (magnitude >= first_special) {
      const bool infinite = element == Element::kE5M2 && magnitude == first_special;
      made = infinite ? static_cast<uint8_t>((code & kSign) | 0x7F) : kFnuzNan;
      saturated += infinite ? 1 : 0;
    }
    codes.push_back(std::byte{made});
  }
  TRY_BIND(Bytes scales, shifted_scales(tensor, true));
  TRY_BIND(QTensor parts, with_codes(tensor, std::move(codes), std::move(scales)));
  FnuzTensor made(std::move(parts));
  CastReport report = compare_numbers(tensor.decode(), made.decode());
  report.saturated = saturated;
  return std::pair(std::move(made), report);
}

Result<Cast> FnuzTensor::to_fn() const {
  const Element element = parts_.codec().element;
  const uint8_t largest = largest_fn(element);
  std::vector<std::byte> codes;
  int64_t saturated = 0;
  for (std::byte stored : parts_.view().codes) {
    const auto code = static_cast<uint8_t>(stored);
    uint8_t made = code;
    if (code == kFnuzNan) {
      made = 0x7F;  // a NaN of both
    } else if ((code & 0x7F) > largest) {
      made = static_cast<uint8_t>((code & kSign) | largest);
      ++saturated;
    }
    codes.push_back(std::byte{made});
  }
  TRY_BIND(Bytes scales, shifted_scales(parts_, false));
  TRY_BIND(QTensor made, with_codes(parts_, std::move(codes), std::move(scales)));
  CastReport report = compare_numbers(decode(), made.decode());
  report.saturated = saturated;
  return Cast{std::move(made), report};
}

std::vector<float> FnuzTensor::decode() const {
  const QTensor::View view = parts_.view();
  const Codec& codec = view.codec;
  const std::array<float, 256>& values = codec.element == Element::kE4M3 ? kE4M3FnuzValues : kE5M2FnuzValues;
  const int64_t across = codec.groups_across(view.cols);
  std::vector<float> numbers(view.codes.size());
  for (int64_t row = 0; row < view.rows; ++row) {
    const int64_t group_row = codec.group_rows == 0 ? 0 : row / codec.group_rows;
    for (int64_t col = 0; col < view.cols; ++col) {
      const int64_t group = group_row * across + (codec.group_cols == 0 ? 0 : col / codec.group_cols);
      const auto at = static_cast<size_t>(row * view.cols + col);
      numbers[at] = values[static_cast<uint8_t>(view.codes[at])] * scale_value(codec.inner, view.inner_scales, group);
    }
  }
  return numbers;
}

}  // namespace vernier
