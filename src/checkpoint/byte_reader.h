#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace vernier {

/// A cursor over untrusted little-endian bytes. Reading past the end changes nothing and returns false, so a caller
/// cannot use a value that is not there. One thread; the bytes outlive it.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }
  std::span<const std::byte> since(size_t begin) const { return bytes_.subspan(begin, offset_ - begin); }

  template <class T>
  [[nodiscard]] bool read(T& out) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_arithmetic_v<T>);
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&out, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return true;
  }
  [[nodiscard]] bool skip(uint64_t size) {
    if (size > remaining()) return false;
    offset_ += static_cast<size_t>(size);
    return true;
  }
  /// A length of 8 bytes, then as many characters; the view points into the bytes.
  [[nodiscard]] bool read_string(std::string_view& out) {
    size_t begin = offset_;
    uint64_t size = 0;
    if (!read(size) || size > remaining()) {
      offset_ = begin;
      return false;
    }
    out = {reinterpret_cast<const char*>(bytes_.data() + offset_), static_cast<size_t>(size)};
    offset_ += static_cast<size_t>(size);
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
};

/// A name from an untrusted file, fit for a message: control characters and bytes above ASCII become \xNN and what
/// is longer than 120 characters is cut.
std::string printable(std::string_view name);

/// a * b, or false where it does not fit.
[[nodiscard]] inline bool checked_multiply(uint64_t a, uint64_t b, uint64_t& out) {
  return !__builtin_mul_overflow(a, b, &out);
}

}  // namespace vernier
