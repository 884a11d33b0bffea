#pragma once

#include <memory>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/cuda_entry.h"
#include "ops/backend.h"

namespace vernier {

/// One NVIDIA GPU. Owns its device; what it made does not outlive it. Activations are float32; under fast numerics a
/// product rounds them to bf16, or many rows by E4M3 weights to E4M3. One thread at a time.
class CudaBackend final : public Backend {
 public:
  /// Refuses a machine without a GPU, and a device that is not there.
  static Result<std::unique_ptr<Backend>> make(const CudaOptions& options);

  std::string_view name() const override { return "cuda"; }
  Features features() const override;
  Result<std::shared_ptr<const PackedMatrix>> pack(std::span<const QTensor> segments, PackUse use) override;
  Result<std::shared_ptr<const PackedVector>> upload(std::span<const float> values) override;
  Result<std::unique_ptr<KvStore>> make_kv(const KvLayout& layout) override;
  Result<std::unique_ptr<Ops>> make_ops(KvStore& kv, int64_t max_rows) override;
  std::vector<Choice> explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const override;
  Choice explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const override;
  /// Over buffers of its own size.
  Result<MachineLimits> measure_limits(int64_t buffer_bytes) override;
  Result<double> measure_library_products() override;

 private:
  CudaBackend(std::unique_ptr<CudaDevice> device, const CudaOptions& options)
      : device_(std::move(device)), options_(options) {}

  std::unique_ptr<CudaDevice> device_;
  CudaOptions options_;
};

}  // namespace vernier
