#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/file_map.h"

namespace vernier {

/// Immutable bytes with shared ownership: a range of a mapped file, or memory of their own. Never moves.
class Bytes {
 public:
  /// A range of `file`, which stays mapped as long as this lives. `range` must lie inside the file.
  Bytes(std::shared_ptr<const FileMap> file, std::span<const std::byte> range);
  explicit Bytes(std::vector<std::byte> owned);

  std::span<const std::byte> span() const { return range_; }
  size_t size() const { return range_.size(); }
  Bytes slice(size_t offset, size_t size) const;

  /// Lets the system drop the resident pages of a mapped file; owned memory is left alone. See FileMap::release.
  void release_pages() const;

 private:
  Bytes() = default;

  std::shared_ptr<const FileMap> file_;                  // set for a mapped range
  std::shared_ptr<const std::vector<std::byte>> owned_;  // set for own memory
  std::span<const std::byte> range_;
};

}  // namespace vernier
