#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace vernier {

/// a * b for sizes read from files: nothing when the product does not fit.
inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// ceil(a / b) for a >= 1 and b >= 1, without the overflow of a + b - 1.
constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a - 1) / b + 1;
}

}  // namespace vernier
