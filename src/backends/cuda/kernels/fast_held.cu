#include "backends/cuda/kernels/fast_held.cuh"

namespace vernier::cuda {
namespace {

using Mxfp4 = Fragment<FastCodes::kMxfp4>;
constexpr int kGroup = 2, kHeldBlocks = 3;
using HeldBlock = NibbleBlock<Mxfp4, 2, kGroup>;

/// Blocks of one expert: all run at once where a block has two strips at most; else thrice as many, for one that ends
/// early makes room for another.
unsigned held_blocks(int64_t strips, const FastExpertsCall& call) {
  const int64_t blocks = strips * call.most_active <= 2 * int64_t{call.filled} ? call.filled : 3 * int64_t{call.filled};
  const int64_t most = blocks / call.most_active, each = most < 1 ? strips : (strips + most - 1) / most;
  return static_cast<unsigned>((strips + each - 1) / each);
}
size_t held_shared(const FastExpertsCall& call) {
  const auto rows = static_cast<int>(call.rows < HeldBlock::kRows ? call.rows : HeldBlock::kRows);
  return static_cast<size_t>(HeldBlock::shared_bytes(rows, call.cols));
}

}  // namespace

LaunchCode held_gated_experts(const HeldExpertsCall& call, Stream stream) {
  if (call.of.most_active == 0) return kLaunched;
  const auto kernel = held_gated_kernel<Mxfp4, kGroup, kHeldBlocks>;
  static const LaunchCode kAllowed = allow_shared(kernel, kMostStagedBytes);
  if (kAllowed != kLaunched) return kAllowed;
  const dim3 grid(held_blocks(call.of.outputs / HeldBlock::kOutputs, call.of),
                  static_cast<unsigned>(call.of.most_active));
  return launch_early(kernel, grid, HeldBlock::kThreads, held_shared(call.of), stream, call);
}

LaunchCode held_answering_experts(const HeldExpertsCall& call, const CombineCall& combine, uint32_t* arrived,
                                  Stream stream) {
  if (call.of.most_active == 0) return kLaunched;
  const auto kernel = held_answering_kernel<Mxfp4, kGroup, kHeldBlocks>;
  static const LaunchCode kAllowed = allow_shared(kernel, kMostStagedBytes);
  if (kAllowed != kLaunched) return kAllowed;
  const dim3 grid(held_blocks(call.of.outputs / kStripOutputs, call.of), static_cast<unsigned>(call.of.most_active));
  return launch_early(kernel, grid, HeldBlock::kThreads, held_shared(call.of), stream, call, combine, arrived);
}

}  // namespace vernier::cuda
