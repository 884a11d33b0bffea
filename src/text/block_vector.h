#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace vernier {

/// A growing array in blocks of one size. Growing moves nothing and never holds the elements twice, and however many
/// there are, the system sees requests of one size: time stays linear where one large array would cross the size from
/// which allocators hand every page back and fetch it anew. For plain types; one thread.
template <class T>
class BlockVector {
 public:
  void push_back(const T& value) {
    if (size_ == blocks_.size() << kShift) blocks_.push_back(std::make_unique_for_overwrite<T[]>(size_t{1} << kShift));
    (*this)[size_++] = value;
  }
  T& operator[](size_t i) { return blocks_[i >> kShift][i & kMask]; }
  const T& operator[](size_t i) const { return blocks_[i >> kShift][i & kMask]; }
  size_t size() const { return size_; }
  /// Drops all but the first `size` elements.
  void truncate(size_t size) { size_ = size; }
  /// Keeps the first block for what comes next.
  void clear() {
    size_ = 0;
    if (blocks_.size() > 1) blocks_.resize(1);
  }

 private:
  static constexpr size_t kShift = 14;
  static constexpr size_t kMask = (size_t{1} << kShift) - 1;

  std::vector<std::unique_ptr<T[]>> blocks_;
  size_t size_ = 0;
};

}  // namespace vernier
