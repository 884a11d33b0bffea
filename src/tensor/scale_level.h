#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "tensor/code_tables.h"
#include "tensor/codec.h"

namespace vernier {

constexpr int64_t scale_bytes(ScaleType type) {
  switch (type) {
    case ScaleType::kNone:
      return 0;
    case ScaleType::kF32:
      return 4;
    case ScaleType::kE8M0:
    case ScaleType::kE4M3:
      return 1;
  }
  return 0;
}

/// Scale `index` of a level; 1 where the level is absent.
inline float scale_value(ScaleType type, std::span<const std::byte> scales, int64_t index) {
  auto at = static_cast<size_t>(index);
  switch (type) {
    case ScaleType::kNone:
      return 1.0f;
    case ScaleType::kF32: {
      float value;
      std::memcpy(&value, scales.data() + at * sizeof(float), sizeof(float));
      return value;
    }
    case ScaleType::kE8M0:
      return kE8M0Values[static_cast<uint8_t>(scales[at])];
    case ScaleType::kE4M3:
      return kE4M3Values[static_cast<uint8_t>(scales[at])];
  }
  return 1.0f;
}

/// What is wrong with a scale, or null. An E4M3 scale may be 0: an encoder rounds the scale of a nearly silent group
/// down to it. No other scale may.
inline const char* scale_fault(ScaleType type, float value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return "infinite";
  if (std::signbit(value)) return "negative";
  if (value == 0 && type != ScaleType::kE4M3) return "0";
  return nullptr;
}

/// Index of the first of `count` scales that has a fault.
inline std::optional<int64_t> find_bad_scale(ScaleType type, std::span<const std::byte> scales, int64_t count) {
  if (type == ScaleType::kE8M0) {
    // Only 0xFF is no number; a large model has hundreds of millions of these.
    const void* at = std::memchr(scales.data(), 0xFF, static_cast<size_t>(count));
    if (at == nullptr) return std::nullopt;
    return static_cast<const std::byte*>(at) - scales.data();
  }
  for (int64_t i = 0; i < count; ++i) {
    if (scale_fault(type, scale_value(type, scales, i)) != nullptr) return i;
  }
  return std::nullopt;
}

}  // namespace vernier
