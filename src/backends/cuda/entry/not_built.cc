#include "backends/cuda/cuda_entry.h"

namespace vernier {
namespace {

Error not_built() {
  return unsupported(
      "the cuda backend: this build has no kernels for NVIDIA GPUs (cmake --preset cuda has them); use the cpu "
      "backend");
}

}  // namespace

bool cuda_is_built() {
  return false;
}

Result<std::vector<std::string>> list_cuda_devices() {
  return not_built();
}

Status check_cuda_device(int) {
  return not_built();
}

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions&) {
  return not_built();
}

}  // namespace vernier
