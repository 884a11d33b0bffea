#include <cstdint>

#include "backends/cpu/kernels/linear_kernels.h"
#include "backends/cpu/kernels/simd_baseline.h"

namespace vernier::baseline {
namespace {

#include "backends/cpu/kernels/linear_body.h"
#include "backends/cpu/kernels/linear_float_body.h"

constexpr LinearKernels kKernels = {kRows,    kTilePanels, kIsaName,   stream,       unpack,
                                    int_tile, decode,      float_tile, dense_stream, quantise};

}  // namespace
}  // namespace vernier::baseline

namespace vernier {

const LinearKernels& linear_kernels_baseline() {
  return baseline::kKernels;
}

}  // namespace vernier
