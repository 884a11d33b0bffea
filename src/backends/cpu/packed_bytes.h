#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"

namespace vernier {

/// How memory is backed: huge pages for what is filled whole and read whole; small ones for what fills up slowly, so
/// that only what was written counts as resident.
enum class PageUse : uint8_t { kFilledAtOnce, kFilledSlowly };

/// Anonymous memory, zeroed, aligned to a page: a mapping of its own, or a part of one that lives as long as any part.
class PackedBytes {
 public:
  PackedBytes() = default;  ///< none
  static Result<PackedBytes> make(int64_t bytes, PageUse use);

  uint8_t* data() const { return data_.get(); }

 private:
  friend class PackArena;
  explicit PackedBytes(std::shared_ptr<uint8_t> data) : data_(std::move(data)) {}

  std::shared_ptr<uint8_t> data_;
};

/// Hands out neighbouring memory, so that matrices too small for huge pages of their own share them, and products that
/// follow each other read one stream. What is never handed out is never resident. One thread.
class PackArena {
 public:
  Result<PackedBytes> take(int64_t bytes);

 private:
  std::shared_ptr<uint8_t> block_;
  int64_t used_ = 0;
  int64_t size_ = 0;
};

}  // namespace vernier
