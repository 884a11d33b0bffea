#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/result.h"

namespace vernier {

/// Extents of a dense tensor, outermost first, at most 4. Every extent is at least 1 and the element count fits in
/// int64: `make` refuses anything else, so sizes computed from a Shape cannot wrap.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  static Result<Shape> make(std::span<const int64_t> extents);
  /// For extents the program itself chose; CHECKs what `make` refuses.
  Shape(std::initializer_list<int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return extents_[static_cast<size_t>(axis)]; }
  int64_t elements() const { return elements_; }
  std::span<const int64_t> extents() const { return {extents_.data(), static_cast<size_t>(rank_)}; }
  std::string to_string() const;  ///< "[49152, 576]"

  bool operator==(const Shape& other) const = default;

 private:
  Shape() = default;

  std::array<int64_t, kMaxRank> extents_{};
  int64_t elements_ = 0;
  int rank_ = 0;
};

}  // namespace vernier
