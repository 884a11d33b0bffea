#include "base/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace vernier {

Result<std::shared_ptr<const FileMap>> FileMap::open(const std::string& path) {
  // Not waiting for a writer: a pipe is refused below.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return not_found("cannot open {}: {}", path, std::strerror(errno));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return invalid_argument("{} is not a regular file", path);
  }
  auto size_bytes = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size_bytes > 0) {
    data = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      int error = errno;
      ::close(fd);
      return make_error(ErrorCode::kInternal, "cannot map {} ({} bytes): {}", path, size_bytes, std::strerror(error));
    }
  }
  ::close(fd);
  return std::shared_ptr<const FileMap>(new FileMap(path, static_cast<const std::byte*>(data), size_bytes));
}

FileMap::~FileMap() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
}

void FileMap::release(std::span<const std::byte> range) const {
  if (range.empty()) return;
  CHECK(range.data() >= data_ && range.data() + range.size() <= data_ + size_bytes_, "range outside {}", path_);
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  uintptr_t begin = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
  uintptr_t end = (reinterpret_cast<uintptr_t>(range.data()) + range.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace vernier
