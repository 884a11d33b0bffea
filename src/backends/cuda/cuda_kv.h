#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/cuda_views.h"
#include "backends/cuda/kernels/draw.h"
#include "ops/backend.h"

namespace vernier {

/// Cache bytes of all layers in device memory, one pool for each layer: [block, kv_head, token in block, head_dim].
/// They leave it only as views that hold their stored type and scales. All start as NaN: a slot that is read before it
/// was written shows.
class CudaKvStore final : public KvStore {
 public:
  static Result<std::unique_ptr<CudaKvStore>> make(CudaDevice& device, const KvLayout& layout);

  int64_t bytes() const override { return bytes_; }
  const CacheSpec& spec(int layer) const { return layers_[static_cast<size_t>(layer)].spec; }
  cuda::KeyView keys(int layer) const { return layers_[static_cast<size_t>(layer)].keys; }
  cuda::ValueView values(int layer) const { return layers_[static_cast<size_t>(layer)].values; }
  /// Counts what saturates in a layer.
  unsigned long long* saturation_counter(int layer) { return counters_.as<unsigned long long>() + layer; }
  /// As the last read of a step's results found them.
  std::vector<int64_t> saturated() const override;
  /// All layers' counters, and where the host reads them.
  cuda::SaturationCall saturation() const;

 private:
  struct Layer {
    CacheSpec spec;
    cuda::KeyView keys;
    cuda::ValueView values;
  };

  CudaKvStore(CudaDevice& device, int64_t bytes) : device_(device), bytes_(bytes) {}
  Status take_memory(const KvLayout& layout);

  CudaDevice& device_;
  int64_t bytes_;
  std::vector<Layer> layers_;
  std::vector<DeviceBuffer> pools_;
  DeviceBuffer scales_;    // of each layer [kv_heads] of keys, then of values
  DeviceBuffer counters_;  // by layer
  PinnedBuffer seen_;      // the same, of the host
};

}  // namespace vernier
