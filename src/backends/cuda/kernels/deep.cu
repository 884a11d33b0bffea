#include "backends/cuda/kernels/deep_launch.cuh"

namespace vernier::cuda {
namespace {

/// Rows that tiles side by side have together: about as many as their outputs, so that least is read.
constexpr int kBandRows = 2048;

template <class Shape>
LaunchCode launch_shape(const ProductCall& call, const FastPlan& plan, const DeepScratch& scratch, Stream stream) {
  return launch_deep_tiles<Shape>(call, scratch, plan.blocks, kBandRows / Shape::kRows, stream);
}

/// The shapes that plans name.
template <class N>
LaunchCode launch_numbers(const ProductCall& call, const FastPlan& plan, const DeepScratch& scratch, Stream stream) {
  const LaunchCode code = launch_deep_prepare<N>(call, scratch, stream);
  if (code != kLaunched) return code;
  if (plan.tile_rows == 256) {
    return launch_shape<DeepShape<N, 2, 128, DeepTwins::kRows>>(call, plan, scratch, stream);
  }
  if (plan.deep_outputs == 192) {
    return launch_shape<DeepShape<N, 1, 192, DeepTwins::kWeights>>(call, plan, scratch, stream);
  }
  if (plan.deep_outputs == 128) {
    return launch_shape<DeepShape<N, 1, 128, DeepTwins::kNone>>(call, plan, scratch, stream);
  }
  return launch_shape<DeepShape<N, 1, 64, DeepTwins::kNone>>(call, plan, scratch, stream);
}

}  // namespace

LaunchCode launch_deep(const ProductCall& call, FastCodes codes, const FastPlan& plan, const FastScratch& scratch,
                       Stream stream) {
  DeepScratch deep;
  deep.rows = reinterpret_cast<unsigned char*>(scratch.arranged);
  deep.scales = reinterpret_cast<float*>(deep.rows + call.rows * deep_row_bytes(codes, call.parts[0].weight.cols));
  switch (codes) {
    case FastCodes::kBF16:
      return launch_numbers<DeepBF16>(call, plan, deep, stream);
    case FastCodes::kE4M3Block:
      return launch_numbers<DeepE4M3Block>(call, plan, deep, stream);
    default:
      return launch_numbers<DeepE4M3Row>(call, plan, deep, stream);
  }
}

}  // namespace vernier::cuda
