#pragma once

#include "backends/cuda/cuda_device.h"

namespace vernier {

/// Operations a second of cuBLAS's bf16 product of 8192 x 8192 matrices of random numbers, measured now. The library is
/// opened at run time; where it cannot be, the error names it.
Result<double> measure_cublas(CudaDevice& device);

}  // namespace vernier
