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
};

/// Whether this build has kernels for GPUs (VERNIER_CUDA); linked from entry/built.cc or entry/not_built.cc.
bool cuda_is_built();
/// The GPUs that answer; an error that says why none does, and what to use instead.
Result<std::vector<std::string>> list_cuda_devices();
/// Whether that GPU can be used: it answers, and this build has kernels for it.
Status check_cuda_device(int index);
Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options);

}  // namespace vernier
