#include <cstdint>

#include "backends/cpu/kernels/linear_kernels.h"
#include "backends/cpu/kernels/simd_avx512.h"

namespace vernier::avx512 {
namespace {

// Each after the one before.
#include "backends/cpu/kernels/linear_body.h"

#include "backends/cpu/kernels/linear_fp8_body.h"

#include "backends/cpu/kernels/linear_float_body.h"

#include "backends/cpu/kernels/linear_bf16_body.h"

constexpr LinearKernels kKernels = {.rows = kRows,
                                    .tile_panels = kTilePanels,
                                    .stream_tokens = kStreamTokens,
                                    .name = kIsaName,
                                    .tile_name = kIsaName,
                                    .narrower = nullptr,
                                    .stream = stream,
                                    .unpack = unpack,
                                    .int_tile = int_tile,
                                    .decode = decode,
                                    .float_tile = float_tile,
                                    .dense_stream = dense_stream,
                                    .fp8_stream = fp8_stream,
                                    .fp8_unpack = fp8_unpack,
                                    .finish = finish,
                                    .quantise = quantise,
                                    .bf16_tile = bf16_tile,
                                    .fp8_unpack_bf16 = fp8_unpack_bf16,
                                    .round_bf16 = round_bf16};

}  // namespace

const LinearKernels& linear_kernels() {
  return kKernels;
}

}  // namespace vernier::avx512
