#pragma once

#include <span>
#include <vector>

#include "backends/cuda/kernels/draw.h"
#include "backends/cuda/launch_queue.h"
#include "ops/sample_spec.h"

namespace vernier {

/// Draws a step's tokens on the device, with the seeds and results of sample_row, which has the last word on the host
/// about rows that ask for more or have no token. One thread.
class CudaSampler {
 public:
  CudaSampler(CudaDevice& device, LaunchQueue& queue) : device_(device), queue_(queue) {}

  /// Of `logits`, [specs, cols]. Waits for the step, and tells its first failure.
  Result<SampledRows> sample(cuda::ConstRows logits, int64_t cols, std::span<const SampleSpec> specs,
                             const cuda::SaturationCall& saturation);

 private:
  Status describe(std::span<const SampleSpec> specs, cuda::DrawCall& call);
  Status upload(cuda::DrawCall& call);
  Result<SampledToken> sample_on_host(cuda::ConstRows logits, int64_t cols, int64_t row, const SampleSpec& spec);

  CudaDevice& device_;
  LaunchQueue& queue_;
  std::vector<cuda::DrawRow> rows_;
  std::vector<cuda::DrawEdit> edits_;
  std::vector<uint32_t> masks_;
  DeviceScratch described_, edited_, best_, arrived_;
  PinnedBuffer describing_, tokens_;
  std::vector<float> logits_;
};

}  // namespace vernier
