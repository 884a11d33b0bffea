#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/cuda/kernels/runtime.h"
#include "base/result.h"

namespace vernier {

class CudaDevice;

/// Bytes of a device, given back when it dies. Its device outlives it.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer() { reset(); }

  int64_t bytes() const { return bytes_; }
  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  friend class CudaDevice;
  DeviceBuffer(CudaDevice& device, std::byte* data, int64_t bytes) : device_(&device), data_(data), bytes_(bytes) {}
  void reset();

  CudaDevice* device_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// Memory of the host that the device reads and writes at an address of its own, and copies from without waiting.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer() { reset(); }

  int64_t bytes() const { return bytes_; }
  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  T* on_device() const {
    return reinterpret_cast<T*>(on_device_);
  }

 private:
  friend class CudaDevice;
  void reset();

  std::byte* data_ = nullptr;
  std::byte* on_device_ = nullptr;
  int64_t bytes_ = 0;
};

/// One GPU: its stream, on which everything runs in order, and its memory, of which no more than a bound is taken.
class CudaDevice {
 public:
  /// Names of the devices that answer; an error that says why none does, and what to use instead.
  static Result<std::vector<std::string>> list();
  /// What a device that answers says of itself.
  static Result<cuda::DeviceFacts> facts_of(int index);
  /// `most_bytes` 0: as much as the device has.
  static Result<std::unique_ptr<CudaDevice>> open(int index, int64_t most_bytes);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;

  const cuda::DeviceFacts& facts() const { return facts_; }
  cuda::Stream stream() const { return stream_; }
  int64_t taken_bytes() const { return taken_bytes_; }
  int64_t most_bytes() const { return most_bytes_; }
  /// Makes it the calling thread's device; before the first launch of a step, and before memory is taken.
  Status use() const;

  /// Refused beyond the bound; `what` names it in the message.
  Result<DeviceBuffer> take(int64_t bytes, std::string_view what);
  /// Memory with these bytes in it.
  Result<DeviceBuffer> take_copy(std::span<const std::byte> bytes, std::string_view what);
  Result<PinnedBuffer> take_pinned(int64_t bytes);
  /// From memory that may change as soon as the call is back.
  Status copy_in(std::byte* to, std::span<const std::byte> from);
  /// Waits for all that was launched.
  Status copy_out(std::span<std::byte> to, const std::byte* from);
  Status fill(std::byte* at, int value, int64_t bytes);

 private:
  friend class DeviceBuffer;
  CudaDevice(int index, const cuda::DeviceFacts& facts) : index_(index), facts_(facts) {}

  int index_;
  cuda::DeviceFacts facts_;
  cuda::Stream stream_ = nullptr;
  int64_t most_bytes_ = 0;
  int64_t taken_bytes_ = 0;
};

/// "launch of attend: an illegal memory access was encountered (700)".
Error device_error(std::string_view what, cuda::LaunchCode code);

}  // namespace vernier
