#include "backends/cuda/cuda_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <random>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace vernier {
namespace {

// Of cuBLAS's interface in C, which has been the same since its version 11.
using CublasHandle = void*;
using CreateCublas = int (*)(CublasHandle*);
using DestroyCublas = int (*)(CublasHandle);
using SetCublasStream = int (*)(CublasHandle, cuda::Stream);
using MultiplyCublas = int (*)(CublasHandle, int, int, int, int, int, const void*, const void*, int, int, const void*,
                               int, int, const void*, void*, int, int, int, int);
constexpr int kAsItIs = 0, kCublasBF16 = 14, kFloatSums = 68, kOwnChoice = -1;

constexpr int kMatrixSize = 8192, kProductsOfRun = 8, kProductRuns = 4;

/// The library while it is used.
class Cublas {
 public:
  static Result<Cublas> open() {
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so"}) {
      if (void* at = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); at != nullptr) return Cublas(at);
    }
    return unsupported("cuBLAS (libcublas.so.13 or .12) is not on this machine's library path");
  }
  ~Cublas() {
    if (at_ != nullptr) ::dlclose(at_);
  }
  Cublas(Cublas&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  Cublas& operator=(Cublas&&) = delete;

  template <class Function>
  Result<Function> find(const char* name) const {
    void* found = ::dlsym(at_, name);
    if (found == nullptr) return unsupported("cuBLAS has no {}", name);
    return reinterpret_cast<Function>(found);
  }

 private:
  explicit Cublas(void* at) : at_(at) {}
  void* at_;
};

std::vector<uint16_t> random_bf16(size_t count) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 1);
  std::vector<uint16_t> few(1 << 20), all(count);
  for (uint16_t& number : few) number = static_cast<uint16_t>(std::bit_cast<uint32_t>(normal(random)) >> 16);
  for (size_t i = 0; i < count; ++i) all[i] = few[i % few.size()];
  return all;
}

}  // namespace

Result<double> measure_cublas(CudaDevice& device) {
  TRY_BIND(const Cublas library, Cublas::open());
  TRY_BIND(const auto create, library.find<CreateCublas>("cublasCreate_v2"));
  TRY_BIND(const auto destroy, library.find<DestroyCublas>("cublasDestroy_v2"));
  TRY_BIND(const auto set_stream, library.find<SetCublasStream>("cublasSetStream_v2"));
  TRY_BIND(const auto multiply, library.find<MultiplyCublas>("cublasGemmEx"));
  TRY_STATUS(device.use());
  const std::vector<uint16_t> numbers = random_bf16(size_t{kMatrixSize} * kMatrixSize);
  TRY_BIND(const DeviceBuffer a, device.take_copy(std::as_bytes(std::span(numbers)), "a measurement"));
  TRY_BIND(const DeviceBuffer b, device.take_copy(std::as_bytes(std::span(numbers)), "a measurement"));
  TRY_BIND(const DeviceBuffer c, device.take(a.bytes(), "a measurement"));
  CublasHandle handle = nullptr;
  if (create(&handle) != 0) return unsupported("cuBLAS does not start on this device");
  double best = 0;
  int code = set_stream(handle, device.stream());
  for (int run = 0; run <= kProductRuns && code == 0; ++run) {
    Stopwatch watch;
    const float one = 1, zero = 0;
    for (int i = 0; i < kProductsOfRun && code == 0; ++i) {
      code = multiply(handle, kAsItIs, kAsItIs, kMatrixSize, kMatrixSize, kMatrixSize, &one, a.data(), kCublasBF16,
                      kMatrixSize, b.data(), kCublasBF16, kMatrixSize, &zero, c.data(), kCublasBF16, kMatrixSize,
                      kFloatSums, kOwnChoice);
    }
    if (cuda::wait(device.stream()) != cuda::kLaunched) code = -1;
    const double operations = 2.0 * kProductsOfRun * kMatrixSize * double{kMatrixSize} * kMatrixSize;
    if (run > 0) best = std::max(best, operations / watch.elapsed_seconds());
  }
  destroy(handle);
  if (code != 0) return unsupported("cuBLAS's product failed with status {}", code);
  return best;
}

}  // namespace vernier
