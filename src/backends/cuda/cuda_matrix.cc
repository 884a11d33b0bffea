#include "backends/cuda/cuda_matrix.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/cuda_products.h"
#include "backends/cuda/fast_choice.h"
#include "backends/cuda/kernels/number_codes.h"
#include "base/check.h"
#include "ops/pack_info.h"

namespace vernier {
namespace {

/// Scales as kernels read them: those of a row beside each other at words where they are bytes, and powers of two for
/// blocks as the float32 numbers that they are.
struct DeviceScales {
  DeviceBuffer bytes;
  cuda::ScaleKind kind = cuda::ScaleKind::kNone;
  int64_t groups_across = 0;
  int largest_e8m0 = 0;
};

Result<DeviceScales> take_scales(CudaDevice& device, const QTensor::View& view) {
  const Codec& codec = view.codec;
  DeviceScales made;
  if (view.inner_scales.empty()) return made;
  made.kind = scale_kind(codec.inner);
  made.groups_across = codec.groups_across(view.cols);
  if (codec.inner == ScaleType::kE8M0)
    made.largest_e8m0 = std::to_integer<int>(*std::ranges::max_element(view.inner_scales));
  const int64_t rows = codec.groups_down(view.rows), groups = made.groups_across;
  if (codec.inner == ScaleType::kE8M0 && codec.group_cols % cuda::kUnitColumns == 0) {
    std::vector<float> numbers(static_cast<size_t>(rows * groups));
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = cuda::from_e8m0(std::to_integer<uint32_t>(view.inner_scales[i]));
    }
    made.kind = cuda::ScaleKind::kF32;
    TRY_BIND(made.bytes, device.take_copy(std::as_bytes(std::span(std::as_const(numbers))), "a weight's scales"));
    return made;
  }
  constexpr int64_t kMultiple = cuda::kScaleRowMultiple;
  if (codec.inner == ScaleType::kF32 || codec.group_rows != 1 || groups % kMultiple == 0) {
    TRY_BIND(made.bytes, device.take_copy(view.inner_scales, "a weight's scales"));
    return made;
  }
  made.groups_across = (groups + kMultiple - 1) / kMultiple * kMultiple;
  std::vector<std::byte> padded(static_cast<size_t>(rows * made.groups_across));
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(padded.data() + row * made.groups_across, view.inner_scales.data() + row * groups,
                static_cast<size_t>(groups));
  }
  TRY_BIND(made.bytes, device.take_copy(padded, "a weight's scales"));
  return made;
}

}  // namespace

Result<std::shared_ptr<const CudaMatrix>> CudaMatrix::make(CudaDevice& device, std::span<const QTensor> segments,
                                                           Numerics numerics, PackUse use) {
  TRY_STATUS(check_segments(segments));
  int64_t rows = 0;
  for (const QTensor& segment : segments) rows += segment.rows();
  std::shared_ptr<CudaMatrix> made(new CudaMatrix(rows, segments.front().cols(), numerics));
  made->info_ = describe_segments(segments, "as stored");
  int64_t output = 0;
  for (const QTensor& segment : segments) {
    // The codes of other packings were looked at when the checkpoint was read.
    if (segment.codec().packing == Packing::kGgufBlock) TRY_STATUS(segment.check_finite(0, segment.rows()));
    const QTensor::View view = segment.view();
    TRY_BIND(DeviceBuffer codes, device.take_copy(view.codes, "a weight"));
    const std::byte* at = codes.data();
    made->buffers_.push_back(std::move(codes));
    TRY_BIND(DeviceScales scales, take_scales(device, view));
    for (CudaRows& part : views_of(view, output, at, scales.bytes.data())) {
      part.view.inner = scales.kind;
      if (scales.kind != cuda::ScaleKind::kNone) part.view.groups_across = scales.groups_across;
      part.largest_e8m0 = scales.largest_e8m0;
      if (numerics == Numerics::kFast) part.fast = judge_fast(part.view, part.largest_e8m0).codes;
      part.deep = judge_deep(part.view, part.fast, use, fast_device(device.facts()));
      made->parts_.push_back(part);
    }
    if (scales.kind != cuda::ScaleKind::kNone) made->buffers_.push_back(std::move(scales.bytes));
    output += segment.rows();
  }
  return std::shared_ptr<const CudaMatrix>(std::move(made));
}

const CudaMatrix& CudaMatrix::of(const PackedMatrix& matrix) {
  const auto* ours = dynamic_cast<const CudaMatrix*>(&matrix);
  CHECK(ours != nullptr, "the matrix belongs to another backend");
  return *ours;
}

Result<std::shared_ptr<const CudaVector>> CudaVector::make(CudaDevice& device, std::span<const float> values) {
  TRY_BIND(DeviceBuffer buffer, device.take_copy(std::as_bytes(values), "a vector"));
  return std::shared_ptr<const CudaVector>(new CudaVector(std::move(buffer), static_cast<int64_t>(values.size())));
}

const float* CudaVector::numbers(const PackedVector* vector, int64_t size) {
  if (vector == nullptr) return nullptr;
  const auto* ours = dynamic_cast<const CudaVector*>(vector);
  CHECK(ours != nullptr, "the vector belongs to another backend");
  CHECK(ours->size() == size, "a vector of {} where {} are needed", ours->size(), size);
  return ours->buffer_.as<const float>();
}

}  // namespace vernier
