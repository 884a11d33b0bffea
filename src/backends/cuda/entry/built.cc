#include "backends/cuda/built_for.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_entry.h"

namespace vernier {

bool cuda_is_built() {
  return true;
}

Result<std::vector<std::string>> list_cuda_devices() {
  return CudaDevice::list();
}

Status check_cuda_device(int index) {
  TRY_BIND(const cuda::DeviceFacts facts, CudaDevice::facts_of(index));
  return check_built_for(VERNIER_CUDA_ARCHS, facts.name, facts.major, facts.minor);
}

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options) {
  TRY_STATUS(check_cuda_device(options.device));
  return CudaBackend::make(options);
}

}  // namespace vernier
