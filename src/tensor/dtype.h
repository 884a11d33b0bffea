#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vernier {

/// Element types of dense numbers. There is no FP8 or FP4 member, so no function over dense tensors can be handed
/// quantised bytes: those live in a QTensor together with their scales.
enum class DType : uint8_t { kF32, kBF16, kF16, kI32 };

constexpr size_t size_bytes(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kI32 ? 4 : 2;
}

constexpr std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI32:
      return "i32";
  }
  return "?";
}

}  // namespace vernier
