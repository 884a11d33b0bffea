#pragma once

#include "backends/cuda/cuda_kv.h"
#include "backends/cuda/cuda_products.h"
#include "backends/cuda/cuda_step.h"
#include "backends/cuda/kernel_choice.h"

namespace vernier {

/// A step's attention: queries are normed and turned, keys and values written, in one launch; then each row's ranges of
/// keys are walked by one block, or taken side by side and merged where there are few rows. Both do a row's operations
/// in one order; and by tiles or not is the layer's matter, never the step's. Where kernels may have an order of their
/// own, sequences with many rows are taken by products of warp groups. One thread.
class CudaAttention {
 public:
  /// `own_orders`: see CudaOptions.
  CudaAttention(CudaDevice& device, LaunchQueue& queue, CudaStep& step, CudaProducts& products, bool own_orders)
      : device_(device),
        queue_(queue),
        step_(step),
        products_(products),
        own_orders_(own_orders),
        rope_(device, queue) {}

  void begin() { rope_.begin(); }
  /// From qkv [rows, q | k | v] to out [rows, heads * head_dim].
  void run(const AttnLayer& layer, CudaKvStore& kv, cuda::ConstRows qkv, cuda::Rows out);
  /// From q [rows, heads * query_dim] and compressed [rows, row_dim] to out [rows, heads * value_dim].
  void run_latent(const LatentLayer& layer, CudaKvStore& kv, cuda::ConstRows q, cuda::ConstRows compressed,
                  cuda::Rows out);

 private:
  cuda::AttendPrepareCall prepare(const AttnLayer& layer, CudaKvStore& kv, cuda::ConstRows qkv, bool by_tiles);
  void attend(const cuda::AttendCall& call, const AttnSpec& spec);
  bool attend_prompts(const cuda::AttendCall& call, const AttnSpec& spec, const CacheSpec& cache);
  void attend_by_tiles(const cuda::AttendCall& call, const AttnSpec& spec, int32_t first_row, int32_t end_row);

  CudaDevice& device_;
  LaunchQueue& queue_;
  CudaStep& step_;
  CudaProducts& products_;
  bool own_orders_;
  CudaRope rope_;
  DeviceScratch queries_, fresh_keys_, fresh_values_, parts_, arrived_;
  DeviceScratch latent_rows_, latent_means_;
};

}  // namespace vernier
