#pragma once

#include <algorithm>
#include <span>

#include "backends/cpu/aligned_buffer.h"
#include "base/check.h"
#include "ops/weight.h"

namespace vernier {

/// What a thread takes at once of the work between products: about 2 us.
inline constexpr int64_t kNumbersPerChunk = 16384;

/// A bias, a norm's weight or a row of sinks in host memory.
class CpuVector final : public PackedVector {
 public:
  explicit CpuVector(std::span<const float> values) : PackedVector(static_cast<int64_t>(values.size())) {
    std::copy(values.begin(), values.end(), values_.reserve(size()));
  }
  const float* data() const { return values_.data(); }

  /// The numbers of a vector of this backend, or null for none. CHECKs the size.
  static const float* numbers(const PackedVector* vector, int64_t size) {
    if (vector == nullptr) return nullptr;
    const auto* ours = dynamic_cast<const CpuVector*>(vector);
    CHECK(ours != nullptr, "the vector belongs to another backend");
    CHECK(ours->size() == size, "a vector of {} where {} are needed", ours->size(), size);
    return ours->data();
  }

 private:
  FloatBuffer values_;
};

}  // namespace vernier
