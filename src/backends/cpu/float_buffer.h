#pragma once

#include <cstdint>
#include <memory>
#include <new>

namespace vernier {

/// Float32 numbers on a cache line's border, not initialised; grows and never shrinks. Growing loses the numbers.
class FloatBuffer {
 public:
  float* reserve(int64_t count) {
    if (count > capacity_) {
      data_.reset();
      data_.reset(static_cast<float*>(::operator new(static_cast<size_t>(count) * sizeof(float), kAlignment)));
      capacity_ = count;
    }
    return data_.get();
  }
  float* data() const { return data_.get(); }
  int64_t capacity() const { return capacity_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* data) const { ::operator delete(data, kAlignment); }
  };

  std::unique_ptr<float, Free> data_;
  int64_t capacity_ = 0;
};

}  // namespace vernier
