#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace vernier {

/// A lock among processes, held by an open file and given back by the system with its holder, however that ends.
class FolderLock {
 public:
  enum class Kind : uint8_t { kShared, kExclusive };

  /// Waits at most `most_ms`. Nothing where another holds it for longer, or the file system knows no locks.
  static std::optional<FolderLock> take(const std::string& path, Kind kind, int most_ms);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  FolderLock& operator=(FolderLock&&) = delete;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace vernier
