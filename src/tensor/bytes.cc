#include "tensor/bytes.h"

#include <functional>
#include <utility>

#include "base/check.h"

namespace vernier {

Bytes::Bytes(std::shared_ptr<const FileMap> file, std::span<const std::byte> range)
    : file_(std::move(file)), range_(range) {
  CHECK(file_ != nullptr, "a mapped range needs its file");
  std::span<const std::byte> all = file_->bytes();
  // std::less_equal orders pointers of different objects too, where <= would be undefined.
  std::less_equal<> in_order;
  CHECK(range.empty() ||
            (in_order(all.data(), range.data()) && in_order(range.data() + range.size(), all.data() + all.size())),
        "a range outside {}", file_->path());
}

Bytes::Bytes(std::vector<std::byte> owned)
    : owned_(std::make_shared<const std::vector<std::byte>>(std::move(owned))), range_(*owned_) {}

Bytes Bytes::slice(size_t offset, size_t size) const {
  CHECK(offset <= range_.size() && size <= range_.size() - offset, "bytes {} + {} of {}", offset, size, range_.size());
  Bytes result = *this;
  result.range_ = range_.subspan(offset, size);
  return result;
}

void Bytes::release_pages() const {
  if (file_ != nullptr) file_->release(range_);
}

}  // namespace vernier
