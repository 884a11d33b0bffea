#pragma once

#include <memory>
#include <string>

#include "backends/cpu/cpu_isa.h"
#include "backends/cpu/packed_bytes.h"
#include "backends/cpu/prepared_linear.h"
#include "base/thread_pool.h"
#include "ops/backend.h"

namespace vernier {

struct CpuOptions {
  int threads = 0;  ///< 0: as many as the process may run on
  std::string isa;  ///< empty: the best that the machine has
  Numerics numerics = Numerics::kFast;
};

/// This machine's processor. Owns the pool of threads; what it made does not outlive it. One thread at a time.
class CpuBackend final : public Backend {
 public:
  /// Refuses an instruction set that the machine lacks and a thread count out of range.
  static Result<std::unique_ptr<Backend>> make(const CpuOptions& options);

  std::string_view name() const override { return "cpu"; }
  Features features() const override;
  Result<std::shared_ptr<const PackedMatrix>> pack(std::span<const QTensor> segments, PackUse use) override;
  Result<std::shared_ptr<const PackedVector>> upload(std::span<const float> values) override;
  Result<std::unique_ptr<KvStore>> make_kv(const KvLayout& layout) override;
  Result<std::unique_ptr<Ops>> make_ops(KvStore& kv, int64_t max_rows) override;
  std::vector<Choice> explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const override;
  Choice explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const override;
  Result<MachineLimits> measure_limits(int64_t buffer_bytes) override;
  Status use_tactics(std::shared_ptr<TacticStore> store, TacticUse use) override;
  Status refresh_tactics() override { return tactics_.refresh(); }
  Result<MeasuredTactic> measure_linear(const PackedMatrix& matrix, const Problem& problem, int64_t batch_rows,
                                        const MeasureRules& rules) override;
  std::vector<UntunedLaunches> untuned() const override { return tactics_.untuned(); }

  ThreadPool& pool() { return pool_; }
  Isa isa() const { return isa_; }

 private:
  CpuBackend(int threads, Isa isa, Numerics numerics)
      : pool_(threads), isa_(isa), numerics_(numerics), tactics_(threads) {}

  ThreadPool pool_;
  Isa isa_;
  Numerics numerics_;
  PackArena arena_;
  LinearTactics tactics_;
};

}  // namespace vernier
