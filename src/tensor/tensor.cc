#include "tensor/tensor.h"

#include <cstring>

#include "tensor/checked.h"
#include "tensor/scalar.h"

namespace vernier {
namespace {

template <class Stored>
Stored load(const std::byte* bytes, size_t index) {
  Stored value;
  std::memcpy(&value, bytes + index * sizeof(Stored), sizeof(Stored));
  return value;
}

}  // namespace

Result<Tensor> Tensor::make(DType dtype, Shape shape, Bytes bytes) {
  std::optional<int64_t> expected = checked_mul(shape.elements(), static_cast<int64_t>(size_bytes(dtype)));
  if (!expected)
    return invalid_argument("{} of {} needs more bytes than 64 bits can count", name(dtype), shape.to_string());
  if (bytes.size() != static_cast<size_t>(*expected)) {
    return corrupt("found {} bytes, expected {} for {} of {}", bytes.size(), *expected, name(dtype), shape.to_string());
  }
  return Tensor(dtype, shape, std::move(bytes));
}

Tensor Tensor::from_floats(Shape shape, std::span<const float> values) {
  CHECK(values.size() == static_cast<size_t>(shape.elements()), "{} values for {}", values.size(), shape.to_string());
  std::vector<std::byte> bytes(values.size_bytes());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return Tensor(DType::kF32, shape, Bytes(std::move(bytes)));
}

std::vector<float> Tensor::to_floats() const {
  std::vector<float> result(static_cast<size_t>(shape_.elements()));
  const std::byte* data = bytes().data();
  switch (dtype_) {
    case DType::kF32:
      std::memcpy(result.data(), data, result.size() * sizeof(float));
      break;
    case DType::kBF16:
      for (size_t i = 0; i < result.size(); ++i) result[i] = bf16_to_f32(load<uint16_t>(data, i));
      break;
    case DType::kF16:
      for (size_t i = 0; i < result.size(); ++i) result[i] = f16_to_f32(load<uint16_t>(data, i));
      break;
    case DType::kI32:
      for (size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>(load<int32_t>(data, i));
      break;
  }
  return result;
}

}  // namespace vernier
