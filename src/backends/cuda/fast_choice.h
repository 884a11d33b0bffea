#pragma once

#include <cstdint>
#include <span>

#include "backends/cuda/kernels/fast.h"
#include "ops/backend.h"
#include "ops/experts_spec.h"
#include "tune/choice.h"

/// Whether fast numerics can multiply by a view, how, and by which kernel. Pure: packing, launch and `explain` ask the
/// same. What decides how a number is computed is the weight alone; how many rows there are decides the kernel, which
/// all add in one order.
namespace vernier {

struct FastVerdict {
  cuda::FastCodes codes = cuda::FastCodes::kNone;
  Reason reason;  ///< kChosen for can
};
/// `largest_e8m0`: of the codes of the view's scales, where they are powers of two.
FastVerdict judge_fast(const cuda::QView& view, int largest_e8m0);

/// What a plan depends on beside the weight.
struct FastProblem {
  int64_t output_tiles = 0;   ///< of kTileOutputs, each part's rounded up
  int64_t output_strips = 0;  ///< of 16
  int64_t cols = 0;
  int64_t rows = 0;
  bool aligned = true;  ///< every row of x begins at a multiple of 16 bytes
  cuda::FastCodes codes = cuda::FastCodes::kNone;
  bool deep = false;       ///< judge_deep allows every part
  bool same_rows = false;  ///< a row has the same bits in any crowd
};
struct FastDevice {
  int multiprocessors = 1;
  bool warpgroups = false;  ///< has products of a warp group
  bool bulk_copies = false;
  bool fp8 = false;  ///< multiplies E4M3 by E4M3
};

/// Whether deep tiles can multiply by a view, and if not why: kChosen for can.
Reason judge_deep(const cuda::QView& view, cuda::FastCodes codes, PackUse use, const FastDevice& device);
/// Whether they serve these rows of such views.
Reason judge_deep_rows(const FastProblem& problem);

cuda::FastPlan plan_fast_product(const FastProblem& problem, const FastDevice& device);
/// `places` rows shared out among `matrices`.
cuda::FastPlan plan_fast_grouped(int64_t places, int32_t matrices, int64_t cols, const FastDevice& device);
/// Whether a product of up to kMostFusedRows rows takes a norm before it and, `gated`, a gate behind. `first_outputs`:
/// where the parts of a matrix begin, which all have the same codes.
Reason judge_fast_fused(int64_t rows, int64_t cols, std::span<const int64_t> first_outputs, int64_t outputs,
                        bool gated);
/// Whether a step's `places` are multiplied by the experts' matrices in two launches: gate and up to `width` with the
/// gate, and down to `hidden` with the sum of the answers.
Reason judge_fast_experts(const ExpertsSpec& spec, int64_t hidden, int64_t places, const FastDevice& device);
/// "deep_tiles_e4m3" or "deep_tiles_bf16".
const char* deep_kernel_name(cuda::FastCodes codes);

}  // namespace vernier
