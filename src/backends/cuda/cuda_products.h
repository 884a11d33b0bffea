#pragma once

#include <optional>

#include "backends/cuda/fast_choice.h"
#include "backends/cuda/launch_queue.h"
#include "ops/weight.h"

namespace vernier {

/// Whether every row begins at a multiple of 16 bytes.
bool aligned(cuda::ConstRows x);
/// What a device is to a plan.
FastDevice fast_device(const cuda::DeviceFacts& facts);

/// What a product of few rows takes with it: a norm of x before, a gate of its outputs after.
struct ProductNeighbours {
  const float* norm = nullptr;
  float norm_eps = 0;
  std::optional<cuda::GateRule> gate;
};
/// Whether a product of so many rows takes a norm with it, or a gate: then all outputs are made by one launch.
bool takes_norm(const PackedMatrix& matrix, int64_t rows);
bool takes_gate(const PackedMatrix& matrix, int64_t rows);

/// Products by matrices of this backend, each part by the path that packing chose for it. Owns their scratch. One
/// thread.
class CudaProducts {
 public:
  /// `same_rows`: a row has the same bits in any crowd.
  CudaProducts(CudaDevice& device, LaunchQueue& queue, bool same_rows)
      : device_(device), queue_(queue), same_rows_(same_rows) {}

  /// x times a matrix, its parts of one kind of codes together.
  void multiply(const PackedMatrix& matrix, const float* bias, cuda::ConstRows x, int64_t rows, cuda::Rows out,
                bool add = false, const ProductNeighbours& with = {});
  /// `places` rows by many matrices; `codes` kNone: float32.
  void multiply_grouped(const cuda::GroupedProductCall& call, cuda::FastCodes codes, int64_t cols, int64_t places);

 private:
  /// `deep`: deep tiles take every part.
  void multiply_fast(const cuda::ProductCall& call, cuda::FastCodes codes, bool deep, const ProductNeighbours& with);
  cuda::FastScratch scratch_for(const cuda::FastPlan& plan);

  CudaDevice& device_;
  LaunchQueue& queue_;
  const bool same_rows_;
  DeviceScratch arranged_, partials_;
  DeviceBuffer arrivals_;
};

}  // namespace vernier
