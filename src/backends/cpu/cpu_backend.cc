#include "backends/cpu/cpu_backend.h"

#include <algorithm>

#include "backends/cpu/attention.h"
#include "backends/cpu/cpu_kv.h"
#include "backends/cpu/cpu_matrix.h"
#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/cpu_tactics.h"
#include "backends/cpu/cpu_vector.h"
#include "backends/cpu/linear.h"
#include "backends/cpu/linear_tuner.h"
#include "backends/cpu/machine_limits.h"
#include "ops/pack_info.h"

namespace vernier {
namespace {

constexpr int kMostThreads = 1024;

}  // namespace

Result<std::unique_ptr<Backend>> CpuBackend::make(const CpuOptions& options) {
  if (options.threads < 0 || options.threads > kMostThreads) {
    return invalid_argument("{} threads; expected 1 to {}, or 0 for all {} of this machine", options.threads,
                            kMostThreads, usable_cpus());
  }
  TRY_BIND(Isa isa, choose_isa(options.isa));
  int threads = options.threads == 0 ? usable_cpus() : options.threads;
  return std::unique_ptr<Backend>(new CpuBackend(threads, isa, options.numerics));
}

Features CpuBackend::features() const {
  int threads = pool_.threads();
  return {fmt::format("{}, {} thread{}", machine_name(), threads, threads == 1 ? "" : "s"),
          std::string(vernier::name(isa_)), threads, numerics_};
}

Result<std::shared_ptr<const PackedMatrix>> CpuBackend::pack(std::span<const QTensor> segments, PackUse use) {
  TRY_STATUS(check_segments(segments));
  const Numerics numerics = use == PackUse::kRouter ? Numerics::kExact : numerics_;
  TRY_BIND(std::shared_ptr<const CpuMatrix> matrix,
           pack_matrix(segments, use, isa_, numerics, pool_, &arena_, &tactics_));
  return std::shared_ptr<const PackedMatrix>(std::move(matrix));
}

Result<std::shared_ptr<const PackedVector>> CpuBackend::upload(std::span<const float> values) {
  return std::shared_ptr<const PackedVector>(std::make_shared<CpuVector>(values));
}

Result<std::unique_ptr<KvStore>> CpuBackend::make_kv(const KvLayout& layout) {
  TRY_BIND(std::unique_ptr<CpuKvStore> store, CpuKvStore::make(layout));
  return std::unique_ptr<KvStore>(std::move(store));
}

Result<std::unique_ptr<Ops>> CpuBackend::make_ops(KvStore& kv, int64_t max_rows) {
  auto* store = dynamic_cast<CpuKvStore*>(&kv);
  CHECK(store != nullptr, "the cache belongs to another backend");
  CHECK(max_rows >= 1, "steps of at most {} rows", max_rows);
  return std::unique_ptr<Ops>(std::make_unique<CpuOps>(isa_, pool_, *store, max_rows));
}

std::vector<Choice> CpuBackend::explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const {
  const auto* ours = dynamic_cast<const CpuMatrix*>(&matrix);
  CHECK(ours != nullptr, "the matrix belongs to another backend");
  return vernier::explain_linear(*ours, batch_rows);
}

Choice CpuBackend::explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const {
  return explain_attention(spec, cache, batch_rows, isa_);
}

Status CpuBackend::use_tactics(std::shared_ptr<TacticStore> store, TacticUse use) {
  return tactics_.use(std::move(store), std::move(use));
}

Result<MeasuredTactic> CpuBackend::measure_linear(const PackedMatrix& matrix, const Problem& problem,
                                                  int64_t batch_rows, const MeasureRules& rules) {
  const CpuMatrix& ours = cpu_matrix(matrix);
  const std::vector<const MatrixSegment*> kinds = linear_kinds(ours);
  const auto kind = std::ranges::find_if(kinds, [&](const MatrixSegment* one) {
    return linear_problem(ours, *one, batch_rows).to_string() == problem.to_string();
  });
  CHECK(kind != kinds.end(), "{} is no problem of this matrix", problem.to_string());
  LinearTuner tuner(pool_, ours, **kind, bucket_rows(batch_bucket(batch_rows)));
  TRY_BIND(Measured measured, tuner.measure(rules));
  MeasuredTactic found;
  found.fixed_ns = measured.first_ns;
  found.fixed_is_chosen = measured.first_is_chosen;
  Tactic& tactic = found.tactic;
  tactic.problem = problem;
  tactic.chosen = std::move(measured.chosen);
  tactic.time = measured.time;
  tactic.tie = measured.tie;
  tactic.others = std::move(measured.others);
  tactic.clock = cpu_clock_state();
  return found;
}

Result<MachineLimits> CpuBackend::measure_limits(int64_t buffer_bytes) {
  return vernier::measure_limits(pool_, isa_, buffer_bytes);
}

}  // namespace vernier
