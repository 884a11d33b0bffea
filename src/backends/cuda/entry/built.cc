#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_entry.h"

namespace vernier {

bool cuda_is_built() {
  return true;
}

Result<std::vector<std::string>> list_cuda_devices() {
  return CudaDevice::list();
}

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options) {
  return CudaBackend::make(options);
}

}  // namespace vernier
