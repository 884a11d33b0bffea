#pragma once

#include <vector>

#include "tensor/bytes.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace vernier {

/// Dense immutable numbers on the host: bytes, element type and shape, row-major. Never empty.
class Tensor {
 public:
  /// Refuses a byte count that is not shape x size of dtype.
  static Result<Tensor> make(DType dtype, Shape shape, Bytes bytes);
  static Tensor from_floats(Shape shape, std::span<const float> values);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::span<const std::byte> bytes() const { return bytes_.span(); }
  const Bytes& storage() const { return bytes_; }  ///< the same bytes, to share

  /// All elements as float32, in order. Exact for f32, bf16 and f16; i32 rounds to nearest even.
  std::vector<float> to_floats() const;

 private:
  Tensor(DType dtype, Shape shape, Bytes bytes) : dtype_(dtype), shape_(shape), bytes_(std::move(bytes)) {}

  DType dtype_;
  Shape shape_;
  Bytes bytes_;
};

}  // namespace vernier
