#include <cstdint>

#include "backends/cpu/kernels/linear_kernels.h"
#include "backends/cpu/kernels/simd_avx2.h"

namespace vernier::avx2 {
namespace {

#include "backends/cpu/kernels/linear_body.h"
#include "backends/cpu/kernels/linear_float_body.h"

constexpr LinearKernels kKernels = {kRows,    kTilePanels, kIsaName,   stream,       unpack,
                                    int_tile, decode,      float_tile, dense_stream, quantise};

}  // namespace
}  // namespace vernier::avx2

namespace vernier {

const LinearKernels& linear_kernels_avx2() {
  return avx2::kKernels;
}

}  // namespace vernier
