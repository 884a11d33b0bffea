#include "backends/cpu/packed_bytes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace vernier {
namespace {

constexpr int64_t kHugePageBytes = int64_t{2} << 20;
constexpr int64_t kArenaBlockBytes = int64_t{64} << 20;

int64_t round_up(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Result<PackedBytes> PackedBytes::make(int64_t bytes, PageUse use) {
  // Less than a huge page shares none with others here: rounding it up would cost more than it gives.
  const bool huge = use == PageUse::kFilledAtOnce && bytes >= kHugePageBytes;
  const auto mapped = static_cast<size_t>(round_up(bytes, huge ? kHugePageBytes : sysconf(_SC_PAGESIZE)));
  void* data = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return make_error(ErrorCode::kOutOfMemory, "no memory for a packed matrix of {} bytes: {}", mapped,
                      std::strerror(errno));
  }
  // A hint: what the system does with it changes speed alone.
  madvise(data, mapped, use == PageUse::kFilledAtOnce ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return PackedBytes(
      std::shared_ptr<uint8_t>(static_cast<uint8_t*>(data), [mapped](uint8_t* at) { munmap(at, mapped); }));
}

Result<PackedBytes> PackArena::take(int64_t bytes) {
  if (used_ + bytes > size_) {
    const int64_t size = std::max(kArenaBlockBytes, bytes);
    TRY_BIND(PackedBytes block, PackedBytes::make(size, PageUse::kFilledAtOnce));
    block_ = std::move(block.data_);
    size_ = size;
    used_ = 0;
  }
  PackedBytes part(std::shared_ptr<uint8_t>(block_, block_.get() + used_));
  used_ += round_up(bytes, sysconf(_SC_PAGESIZE));
  return part;
}

}  // namespace vernier
