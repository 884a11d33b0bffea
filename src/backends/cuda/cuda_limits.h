#pragma once

#include "backends/cuda/cuda_device.h"
#include "tune/machine_limits.h"

namespace vernier {

/// Measured now: copies within the device (bytes read and written, together), and loops of products on plain cores, of
/// which this backend's kernels are made.
Result<MachineLimits> measure_cuda_limits(CudaDevice& device);

}  // namespace vernier
