#include "backends/cuda/cuda_backend.h"

#include <utility>

#include "backends/cuda/cuda_kv.h"
#include "backends/cuda/cuda_library.h"
#include "backends/cuda/cuda_limits.h"
#include "backends/cuda/cuda_matrix.h"
#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/cuda_products.h"
#include "backends/cuda/kernel_choice.h"

namespace vernier {

Result<std::unique_ptr<Backend>> CudaBackend::make(const CudaOptions& options) {
  TRY_BIND(std::unique_ptr<CudaDevice> device, CudaDevice::open(options.device, options.most_bytes));
  return std::unique_ptr<Backend>(new CudaBackend(std::move(device), options));
}

Features CudaBackend::features() const {
  const cuda::DeviceFacts& facts = device_->facts();
  return {fmt::format("{}, {} multiprocessors", facts.name, facts.multiprocessors),
          fmt::format("sm{}{}", facts.major, facts.minor), 1, options_.numerics};
}

Result<std::shared_ptr<const PackedMatrix>> CudaBackend::pack(std::span<const QTensor> segments, PackUse use) {
  TRY_STATUS(device_->use());
  const Numerics numerics = use == PackUse::kRouter ? Numerics::kExact : options_.numerics;
  TRY_BIND(std::shared_ptr<const CudaMatrix> matrix, CudaMatrix::make(*device_, segments, numerics, use));
  return std::shared_ptr<const PackedMatrix>(std::move(matrix));
}

Result<std::shared_ptr<const PackedVector>> CudaBackend::upload(std::span<const float> values) {
  TRY_STATUS(device_->use());
  TRY_BIND(std::shared_ptr<const CudaVector> vector, CudaVector::make(*device_, values));
  return std::shared_ptr<const PackedVector>(std::move(vector));
}

Result<std::unique_ptr<KvStore>> CudaBackend::make_kv(const KvLayout& layout) {
  TRY_STATUS(device_->use());
  TRY_BIND(std::unique_ptr<CudaKvStore> store, CudaKvStore::make(*device_, layout));
  return std::unique_ptr<KvStore>(std::move(store));
}

Result<std::unique_ptr<Ops>> CudaBackend::make_ops(KvStore& kv, int64_t max_rows) {
  auto* store = dynamic_cast<CudaKvStore*>(&kv);
  CHECK(store != nullptr, "the cache belongs to another backend");
  CHECK(max_rows >= 1, "steps of at most {} rows", max_rows);
  if (const Reason reason = judge_product_rows(1, max_rows); reason.code != ReasonCode::kChosen) {
    return unsupported("steps of {} rows: {}", max_rows, reason.detail);
  }
  return std::unique_ptr<Ops>(std::make_unique<CudaOps>(*device_, *store, max_rows, options_));
}

std::vector<Choice> CudaBackend::explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const {
  return explain_cuda_linear(matrix, CudaMatrix::of(matrix).numerics(), CudaMatrix::of(matrix).parts(), batch_rows,
                             !options_.own_orders(), fast_device(device_->facts()));
}

Choice CudaBackend::explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const {
  PromptProblem problem;
  problem.rows = batch_rows;
  problem.own_orders = options_.own_orders();
  problem.warpgroups = fast_device(device_->facts()).warpgroups;
  return explain_cuda_attend(spec, cache, problem);
}

Result<MachineLimits> CudaBackend::measure_limits(int64_t) {
  TRY_BIND(MachineLimits limits, measure_cuda_limits(*device_));
  if (const Result<double> products = measure_cublas(*device_); products.ok()) limits.bf16_ops_per_s = *products;
  return limits;
}

Result<double> CudaBackend::measure_library_products() {
  return measure_cublas(*device_);
}

}  // namespace vernier
