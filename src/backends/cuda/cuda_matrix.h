#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/cuda_views.h"
#include "ops/backend.h"
#include "tensor/qtensor.h"

namespace vernier {

/// A matrix in device memory, codes and scales as the file has them; byte scales of a row are padded to words.
class CudaMatrix final : public PackedMatrix {
 public:
  /// Refuses GGUF blocks whose own scale is no number.
  static Result<std::shared_ptr<const CudaMatrix>> make(CudaDevice& device, std::span<const QTensor> segments,
                                                        Numerics numerics, PackUse use);

  PackedInfo info() const override { return info_; }
  std::span<const CudaRows> parts() const { return parts_; }
  Numerics numerics() const { return numerics_; }
  /// Of this backend, or a programmer's error.
  static const CudaMatrix& of(const PackedMatrix& matrix);

 private:
  CudaMatrix(int64_t rows, int64_t cols, Numerics numerics) : PackedMatrix(rows, cols), numerics_(numerics) {}

  Numerics numerics_;
  PackedInfo info_;
  std::vector<CudaRows> parts_;
  std::vector<DeviceBuffer> buffers_;
};

/// A bias, a norm's weight or a row of sinks in device memory.
class CudaVector final : public PackedVector {
 public:
  static Result<std::shared_ptr<const CudaVector>> make(CudaDevice& device, std::span<const float> values);
  /// The numbers of a vector of this backend, or null for none. CHECKs the size.
  static const float* numbers(const PackedVector* vector, int64_t size);

 private:
  explicit CudaVector(DeviceBuffer buffer, int64_t size) : PackedVector(size), buffer_(std::move(buffer)) {}

  DeviceBuffer buffer_;
};

}  // namespace vernier
