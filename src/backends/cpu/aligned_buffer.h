#pragma once

#include <cstdint>
#include <memory>
#include <new>

namespace vernier {

/// Numbers on a cache line's border, so that no vector load crosses one; not initialised; grows and never shrinks.
/// Growing loses the numbers.
template <class T>
class AlignedBuffer {
 public:
  T* reserve(int64_t count) {
    if (count > capacity_) {
      data_.reset();
      data_.reset(static_cast<T*>(::operator new(static_cast<size_t>(count) * sizeof(T), kAlignment)));
      capacity_ = count;
    }
    return data_.get();
  }
  T* data() const { return data_.get(); }
  int64_t capacity() const { return capacity_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(T* data) const { ::operator delete(data, kAlignment); }
  };

  std::unique_ptr<T, Free> data_;
  int64_t capacity_ = 0;
};

using FloatBuffer = AlignedBuffer<float>;

}  // namespace vernier
