#include "backends/cuda/cuda_limits.h"

#include <algorithm>

#include "backends/cuda/kernels/limits.h"
#include "base/clock.h"

namespace vernier {
namespace {

constexpr int64_t kCopyBytes = int64_t{1} << 30;  // far beyond any level of cache
constexpr int kCopies = 4, kRounds = 1 << 15, kRuns = 4;

/// Best rate of a few runs, in units a second; the first run warms up.
template <class Run>
Result<double> best_rate_of(CudaDevice& device, Run run) {
  double best = 0;
  for (int i = 0; i <= kRuns; ++i) {
    Stopwatch watch;
    int64_t units = 0;
    if (const cuda::LaunchCode code = run(units); code != cuda::kLaunched) return device_error("a measurement", code);
    if (const cuda::LaunchCode code = cuda::wait(device.stream()); code != cuda::kLaunched) {
      return device_error("a measurement", code);
    }
    if (i > 0) best = std::max(best, static_cast<double>(units) / watch.elapsed_seconds());
  }
  return best;
}

}  // namespace

Result<MachineLimits> measure_cuda_limits(CudaDevice& device) {
  MachineLimits limits;
  TRY_STATUS(device.use());
  TRY_BIND(const DeviceBuffer from, device.take(kCopyBytes, "a measurement"));
  TRY_BIND(const DeviceBuffer to, device.take(kCopyBytes, "a measurement"));
  TRY_STATUS(device.fill(from.data(), 1, kCopyBytes));
  TRY_BIND(limits.read_bytes_per_s, best_rate_of(device, [&](int64_t& units) {
             units = 2 * kCopies * kCopyBytes;
             cuda::LaunchCode code = cuda::kLaunched;
             for (int i = 0; i < kCopies && code == cuda::kLaunched; ++i) {
               code = cuda::copy_within(to.data(), from.data(), kCopyBytes, device.stream());
             }
             return code;
           }));
  const cuda::PeakCall call{device.facts().multiprocessors, kRounds, to.as<float>()};
  TRY_BIND(limits.f32_ops_per_s,
           best_rate_of(device, [&](int64_t& units) { return cuda::f32_loop(call, &units, device.stream()); }));
  TRY_BIND(limits.int8_ops_per_s,
           best_rate_of(device, [&](int64_t& units) { return cuda::int8_loop(call, &units, device.stream()); }));
  return limits;
}

}  // namespace vernier
