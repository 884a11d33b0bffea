#include "backends/cpu/machine_limits.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "backends/cpu/kernels/peak.h"
#include "base/clock.h"

namespace vernier {
namespace {

PeakLoops loops_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAmx) return amx::peak_loops();
  if (isa == Isa::kAvx512) return avx512::peak_loops();
  if (isa == Isa::kAvx2) return avx2::peak_loops();
#endif
  (void)isa;
  return baseline::peak_loops();
}

/// Best rate, in units a second, of `runs` runs; a run returns the units it did.
template <class Run>
double best_rate(int runs, Run run) {
  double best = 0;
  for (int i = 0; i < runs; ++i) {
    Stopwatch watch;
    const auto units = static_cast<double>(run());
    best = std::max(best, units / (static_cast<double>(watch.elapsed_ns()) * 1e-9));
  }
  return best;
}

}  // namespace

MachineLimits measure_limits(ThreadPool& pool, Isa isa, int64_t buffer_bytes) {
  const PeakLoops loops = loops_of(isa);
  constexpr int64_t kRounds = 200'000;
  auto on_all = [&](int64_t (*loop)(int64_t)) {
    return best_rate(7, [&] {
      std::atomic<int64_t> ops{0};
      pool.parallel_for(pool.threads(), [&](int) { ops += loop(kRounds); });
      return ops.load();
    });
  };
  MachineLimits limits;
  limits.f32_ops_per_s = on_all(loops.f32_fma);
  limits.int8_ops_per_s = on_all(loops.int8_dot);
  limits.bf16_ops_per_s = on_all(loops.bf16_dot);

  constexpr int64_t kChunkBytes = 256 * 1024;
  const int64_t chunks = std::max<int64_t>(1, buffer_bytes / kChunkBytes);
  std::vector<std::byte> buffer(static_cast<size_t>(chunks * kChunkBytes), std::byte{1});
  limits.read_bytes_per_s = best_rate(12, [&] {
    std::atomic<uint64_t> sum{0};
    pool.parallel_for(static_cast<int>(chunks), [&](int chunk) {
      sum += loops.read(buffer.data() + chunk * kChunkBytes, static_cast<size_t>(kChunkBytes));
    });
    return sum.load() == 1 ? 0 : chunks * kChunkBytes;  // the sum must be used; it never is 1
  });
  return limits;
}

}  // namespace vernier
