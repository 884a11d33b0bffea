#pragma once

#include <cstddef>
#include <vector>

#include "backends/cuda/kernels/fast.h"
#include "backends/cuda/kernels/views.h"
#include "tensor/qtensor.h"
#include "tune/choice.h"

/// From what the rest of the program stores to what crosses the border. Pure.
namespace vernier {

/// Which kind of codes a kernel reads them as.
cuda::Codes codes_kind(const Codec& codec);
cuda::ScaleKind scale_kind(ScaleType type);

/// Rows of a matrix that share codec and outer scale.
struct CudaRows {
  int64_t first_output = 0;
  cuda::QView view;
  cuda::FastCodes fast = cuda::FastCodes::kNone;     ///< how fast numerics read them
  int largest_e8m0 = 0;                              ///< of the codes of its scales, where they are powers of two
  Reason deep{ReasonCode::kCodec, "not looked at"};  ///< whether deep tiles can multiply by them, see judge_deep
};

/// Views of a tensor whose bytes lie at these addresses; one for each of its segments.
std::vector<CudaRows> views_of(const QTensor::View& tensor, int64_t first_output, const std::byte* codes,
                               const std::byte* inner_scales);

/// As which numbers a cache stores a type.
cuda::KvNumbers kv_numbers(CodecId stored);

}  // namespace vernier
