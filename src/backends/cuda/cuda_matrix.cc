#include "backends/cuda/cuda_matrix.h"

#include "base/check.h"
#include "ops/pack_info.h"

namespace vernier {
Result<std::shared_ptr<const CudaMatrix>> CudaMatrix::make(CudaDevice& device, std::span<const QTensor> segments) {
  TRY_STATUS(check_segments(segments));
  int64_t rows = 0;
  for (const QTensor& segment : segments) rows += segment.rows();
  std::shared_ptr<CudaMatrix> made(new CudaMatrix(rows, segments.front().cols()));
  made->info_ = describe_segments(segments, "as stored");
  int64_t output = 0;
  for (const QTensor& segment : segments) {
    // The codes of other packings were looked at when the checkpoint was read.
    if (segment.codec().packing == Packing::kGgufBlock) TRY_STATUS(segment.check_finite(0, segment.rows()));
    const QTensor::View view = segment.view();
    TRY_BIND(DeviceBuffer codes, device.take_copy(view.codes, "a weight"));
    const std::byte* scales = nullptr;
    const std::byte* at = codes.data();
    made->buffers_.push_back(std::move(codes));
    if (!view.inner_scales.empty()) {
      TRY_BIND(DeviceBuffer inner, device.take_copy(view.inner_scales, "a weight's scales"));
      scales = inner.data();
      made->buffers_.push_back(std::move(inner));
    }
    for (CudaRows& part : views_of(view, output, at, scales)) made->parts_.push_back(part);
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
