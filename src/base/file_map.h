#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace vernier {

/// A file mapped read-only into memory. Shared by the tensors that point into it and unmapped with the last of them.
/// Any thread may read. Refuses a folder and a file that cannot be read, by name.
class FileMap {
 public:
  static Result<std::shared_ptr<const FileMap>> open(const std::string& path);
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  const std::string& path() const { return path_; }

  /// Tells the system that a range will not be read again, so that its pages stop counting as resident.
  /// Reading it later is still right, only slower.
  void release(std::span<const std::byte> range) const;

 private:
  FileMap(std::string path, const std::byte* data, size_t size_bytes)
      : path_(std::move(path)), data_(data), size_bytes_(size_bytes) {}

  std::string path_;
  const std::byte* data_;
  size_t size_bytes_;
};

}  // namespace vernier
