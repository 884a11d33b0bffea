#include <cstdint>

#include "backends/cpu/kernels/linear_kernels.h"
#include "backends/cpu/kernels/simd_baseline.h"

namespace vernier::baseline {
namespace {

// Each after the one before.
#include "backends/cpu/kernels/linear_body.h"

#include "backends/cpu/kernels/linear_fp8_body.h"

#include "backends/cpu/kernels/linear_float_body.h"

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
                                    .bf16_tile = nullptr,
                                    .fp8_unpack_bf16 = nullptr,
                                    .round_bf16 = nullptr};

}  // namespace

const LinearKernels& linear_kernels() {
  return kKernels;
}

}  // namespace vernier::baseline
