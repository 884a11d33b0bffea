#include "tune/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace vernier {

std::optional<FolderLock> FolderLock::take(const std::string& path, Kind kind, int most_ms) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return std::nullopt;
  FolderLock lock(descriptor);
  const int operation = (kind == Kind::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB;
  const Stopwatch watch;
  while (::flock(descriptor, operation) != 0) {
    const bool may_come = errno == EWOULDBLOCK || errno == EINTR;
    if (!may_come || watch.elapsed_ns() > int64_t{most_ms} * 1'000'000) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return lock;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace vernier
