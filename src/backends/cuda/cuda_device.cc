#include "backends/cuda/cuda_device.h"

#include <algorithm>

namespace vernier {
namespace {

constexpr int64_t kAlignment = 256;  // what the driver gives memory in

int64_t rounded(int64_t bytes) {
  return (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

std::string describe(const cuda::DeviceFacts& facts) {
  return fmt::format("{}, {} GB, compute capability {}.{}", facts.name, facts.memory_bytes / 1'000'000'000, facts.major,
                     facts.minor);
}

}  // namespace

Error device_error(std::string_view what, cuda::LaunchCode code) {
  return make_error(ErrorCode::kInternal, "{}: {} ({})", what, cuda::error_text(code), code);
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this != &other) {
    reset();
    device_ = std::exchange(other.device_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void DeviceBuffer::reset() {
  if (data_ == nullptr) return;
  cuda::give_memory(data_);
  device_->taken_bytes_ -= rounded(bytes_);
  data_ = nullptr;
}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    on_device_ = std::exchange(other.on_device_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void PinnedBuffer::reset() {
  if (data_ != nullptr) cuda::give_pinned(data_);
  data_ = nullptr;
}

Result<std::vector<std::string>> CudaDevice::list() {
  int count = 0;
  const cuda::LaunchCode code = cuda::count_devices(&count);
  if (code != cuda::kLaunched || count == 0) {
    return unsupported("the cuda backend: no NVIDIA driver with a GPU answers ({}); use --backend cpu",
                       code == cuda::kLaunched ? "no device" : cuda::error_text(code));
  }
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    cuda::DeviceFacts facts;
    if (const cuda::LaunchCode failed = cuda::read_facts(i, &facts); failed != cuda::kLaunched) {
      return device_error(fmt::format("device {}", i), failed);
    }
    names.push_back(describe(facts));
  }
  return names;
}

Result<cuda::DeviceFacts> CudaDevice::facts_of(int index) {
  TRY_BIND(const std::vector<std::string> devices, list());
  if (index < 0 || index >= static_cast<int>(devices.size())) {
    return invalid_argument("--device {}: this machine has {} CUDA device{}, numbered from 0", index, devices.size(),
                            devices.size() == 1 ? "" : "s");
  }
  cuda::DeviceFacts facts;
  if (const cuda::LaunchCode code = cuda::read_facts(index, &facts); code != cuda::kLaunched) {
    return device_error(fmt::format("device {}", index), code);
  }
  return facts;
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(int index, int64_t most_bytes) {
  TRY_BIND(const cuda::DeviceFacts facts, facts_of(index));
  std::unique_ptr<CudaDevice> device(new CudaDevice(index, facts));
  TRY_STATUS(device->use());
  if (const cuda::LaunchCode code = cuda::make_stream(&device->stream_); code != cuda::kLaunched) {
    return device_error(fmt::format("device {} ({})", index, facts.name), code);
  }
  device->most_bytes_ = most_bytes > 0 ? most_bytes : facts.memory_bytes;
  return device;
}

CudaDevice::~CudaDevice() {
  if (stream_ != nullptr) cuda::destroy_stream(stream_);
}

Status CudaDevice::use() const {
  if (const cuda::LaunchCode code = cuda::use_device(index_); code != cuda::kLaunched) {
    return device_error(fmt::format("device {}", index_), code);
  }
  return {};
}

Result<DeviceBuffer> CudaDevice::take(int64_t bytes, std::string_view what) {
  const int64_t physical = rounded(bytes);
  std::byte* at = nullptr;
  const bool fits = physical <= most_bytes_ - taken_bytes_;
  if (fits) TRY_STATUS(use());
  if (!fits || cuda::take_memory(physical, &at) != cuda::kLaunched) {
    return make_error(ErrorCode::kOutOfMemory,
                      "{} of {} MB does not fit on the GPU: {} MB of {} are taken by this program; make the context "
                      "shorter, store the cache narrower or use a smaller model",
                      what, bytes / 1'000'000, taken_bytes_ / 1'000'000, most_bytes_ / 1'000'000);
  }
  taken_bytes_ += physical;
  return DeviceBuffer(*this, at, bytes);
}

Result<DeviceBuffer> CudaDevice::take_copy(std::span<const std::byte> bytes, std::string_view what) {
  TRY_BIND(DeviceBuffer buffer, take(static_cast<int64_t>(bytes.size()), what));
  TRY_STATUS(copy_in(buffer.data(), bytes));
  return buffer;
}

Result<PinnedBuffer> CudaDevice::take_pinned(int64_t bytes) {
  TRY_STATUS(use());
  PinnedBuffer buffer;
  if (const cuda::LaunchCode code = cuda::take_pinned(rounded(bytes), &buffer.data_, &buffer.on_device_);
      code != cuda::kLaunched) {
    return device_error("memory of the host that the GPU reads", code);
  }
  buffer.bytes_ = rounded(bytes);
  return buffer;
}

Status CudaDevice::copy_in(std::byte* to, std::span<const std::byte> from) {
  const cuda::LaunchCode code = cuda::copy_in(to, from.data(), static_cast<int64_t>(from.size()), stream_);
  if (code != cuda::kLaunched) return device_error("a copy to the GPU", code);
  return {};
}

Status CudaDevice::copy_out(std::span<std::byte> to, const std::byte* from) {
  const cuda::LaunchCode code = cuda::copy_out(to.data(), from, static_cast<int64_t>(to.size()), stream_);
  if (code != cuda::kLaunched) return device_error("a copy from the GPU", code);
  return {};
}

Status CudaDevice::fill(std::byte* at, int value, int64_t bytes) {
  const cuda::LaunchCode code = cuda::fill_memory(at, value, bytes, stream_);
  if (code != cuda::kLaunched) return device_error("filling memory of the GPU", code);
  return {};
}

}  // namespace vernier
