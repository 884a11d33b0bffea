#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace vernier {

struct CudaOptions {
  int device = 0;
  int64_t most_bytes = 0;  ///< of device memory; 0: all that there is
  Numerics numerics = Numerics::kFast;
  /// A row is the same to the bit alone and in a crowd, under fast numerics, too: no kernel that only many rows of a
  /// step may take and that adds in an order of its own.
  bool same_rows = false;
  /// Whether such kernels may be chosen.
  bool own_orders() const { return numerics == Numerics::kFast && !same_rows; }
};

/// Whether this build has kernels for GPUs (VERNIER_CUDA); linked from entry/built.cc or entry/not_built.cc.
bool cuda_is_built();
/// The GPUs that answer; an error that says why none does, and what to use instead.
Result<std::vector<std::string>> list_cuda_devices();
/// Whether that GPU can be used: it answers, and this build has kernels for it.
Status check_cuda_device(int index);
Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options);

}  // namespace vernier
