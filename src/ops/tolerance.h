#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "ops/backend.h"

namespace vernier {

/// How far a result of a backend may be from `RefOps` on the same numbers: what the format and the length of a sum
/// allow, and no more. Tests and `verify numerics` share these.

/// Of one number of a product x W^T: float32 sums of n products, in blocks, and under fast numerics six standard
/// deviations of what eight-bit activations round (uniform within a step of amax / 127 for the row).
inline double product_tolerance(double products, double weight_norm, double largest, size_t n, Numerics numerics) {
  double limit = std::ldexp(4 + std::sqrt(static_cast<double>(n)), -24) * products;
  if (numerics == Numerics::kFast) limit += 6 * largest / 127 / std::sqrt(12.0) * weight_norm;
  return limit;
}

/// The same from the numbers: `products` is the sum of |x w|.
inline double product_tolerance(std::span<const float> x, std::span<const float> w, Numerics numerics) {
  double products = 0, squares = 0, largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    products += std::abs(double{x[i]} * w[i]);
    squares += double{w[i]} * w[i];
    largest = std::max(largest, std::abs(double{x[i]}));
  }
  return product_tolerance(products, std::sqrt(squares), largest, x.size(), numerics);
}

/// Binary places of a sum of products of E4M3 numbers, beside the sum of their magnitudes: tensor cores bring 32 of
/// them to the largest one's exponent and keep 13 places, so that 31 lose up to 2^-13 of it each: six standard
/// deviations of that are 2^-9.7.
inline constexpr int kE4M3SumBits = 10;

/// Of one number of a product whose rows are E4M3 under a scale for 128 numbers, the largest / 448: six standard
/// deviations of what they are rounded by, uniform within a step of an eighth of a number, or of the smallest code; and
/// what their sums drop.
inline double e4m3_rows_tolerance(std::span<const float> x, std::span<const float> w) {
  constexpr size_t kColumns = 128;
  double variance = 0, products = 0;
  for (size_t begin = 0; begin < x.size(); begin += kColumns) {
    const std::span<const float> unit = x.subspan(begin, std::min(kColumns, x.size() - begin));
    double largest = 1e-10;
    for (float number : unit) largest = std::max(largest, std::abs(double{number}));
    for (size_t i = 0; i < unit.size(); ++i) {
      const double step = std::max(std::abs(double{unit[i]}) / 8, std::ldexp(largest / 448, -9));
      variance += step * step / 12 * w[begin + i] * w[begin + i];
      products += std::abs(double{unit[i]} * w[begin + i]);
    }
  }
  return 6 * std::sqrt(variance) + std::ldexp(products, -kE4M3SumBits);
}

/// Half the distance between neighbours of a stored type, relative to a number.
inline double rounding_step(CodecId stored) {
  switch (codec(stored).element) {
    case Element::kF16:
      return std::ldexp(1.0, -11);
    case Element::kBF16:
      return std::ldexp(1.0, -8);
    case Element::kE4M3:
      return std::ldexp(1.0, -4);
    case Element::kE5M2:
      return std::ldexp(1.0, -3);
    default:
      return 0;
  }
}

/// Of attention, relative to the largest number of the result: float32 sums and exponentials; and where keys are
/// rotated before they are stored in fewer bits, a rounding tie may fall the other way, so that a few of many terms are
/// one step of that type off.
inline double attend_tolerance(CodecId stored, Numerics numerics) {
  const double exact = 2e-5 + rounding_step(stored) / 4;
  return numerics == Numerics::kExact ? exact : exact + 4e-3;
}

/// Of experts, relative to the largest number of the result: two products, one inside the other.
inline double experts_tolerance(Numerics numerics) {
  return numerics == Numerics::kExact ? 4e-6 : 2e-2;
}

/// Relative to the largest number of the result.
inline constexpr double kNormTolerance = 4e-6;  ///< of a norm, an activation or a gate: float32 sums and exponentials
inline constexpr double kSumTolerance = 2e-7;   ///< of one addition
inline constexpr double kSoftCapTolerance = 2e-6;
inline constexpr double kEmbeddingTolerance = 1e-6;  ///< of a decoded row

}  // namespace vernier
