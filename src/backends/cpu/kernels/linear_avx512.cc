#include <cstdint>

#include "backends/cpu/kernels/linear_kernels.h"
#include "backends/cpu/kernels/simd_avx512.h"

namespace vernier::avx512 {
namespace {

#include "backends/cpu/kernels/linear_body.h"
#include "backends/cpu/kernels/linear_float_body.h"

constexpr LinearKernels kKernels = {kRows,    kTilePanels, kIsaName,   stream,       unpack,
                                    int_tile, decode,      float_tile, dense_stream, quantise};

}  // namespace
}  // namespace vernier::avx512

namespace vernier {

const LinearKernels& linear_kernels_avx512() {
  return avx512::kKernels;
}

}  // namespace vernier
