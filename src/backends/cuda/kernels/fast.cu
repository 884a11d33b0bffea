#include "backends/cuda/kernels/fast.h"

#include "backends/cuda/kernels/fast_parts.h"

namespace vernier::cuda {

// fast_instance.cu.in makes these, one kind of codes a file.
template <FastCodes C>
LaunchCode launch_fast(const ProductCall& call, const FastPlan& plan, const FastScratch& scratch, Stream stream);
LaunchCode launch_deep(const ProductCall& call, FastCodes codes, const FastPlan& plan, const FastScratch& scratch,
                       Stream stream);  // deep.cu
template <FastCodes C>
LaunchCode launch_fast_grouped(const FastGroupedCall& call, const FastPlan& plan, const FastScratch& scratch,
                               Stream stream);
template <FastCodes C>
LaunchCode launch_fast_gated_experts(const FastExpertsCall& call, Stream stream);
template <FastCodes C>
LaunchCode launch_fast_answering_experts(const FastExpertsCall& call, const CombineCall& combine, uint32_t* arrived,
                                         Stream stream);
template <FastCodes C>
LaunchCode launch_fast_fused(const FusedProductCall& call, Stream stream);

namespace {

template <FastCodes C>
struct FastTag {
  static constexpr FastCodes kValue = C;
};

/// Calls `visit` with the kind as a constant.
template <class Visit, int kKind = 1>
LaunchCode with_fast_codes(FastCodes codes, Visit visit) {
  if constexpr (kKind + 1 < kFastKinds) {
    if (static_cast<int>(codes) != kKind) return with_fast_codes<Visit, kKind + 1>(codes, visit);
  }
  return visit(FastTag<static_cast<FastCodes>(kKind)>{});
}

}  // namespace

LaunchCode fast_product(const ProductCall& call, FastCodes codes, const FastPlan& plan, const FastScratch& scratch,
                        Stream stream) {
  if (call.rows == 0 || call.outputs == 0) return kLaunched;
  if (plan.deep_outputs > 0) return launch_deep(call, codes, plan, scratch, stream);
  const bool direct = plan.tile_rows <= 8 && !plan.arranged;
  if (direct && parts_take(codes, call.rows, call.parts[0].weight.cols)) return fast_parts_product(call, stream);
  return with_fast_codes(codes,
                         [&](auto tag) { return launch_fast<decltype(tag)::kValue>(call, plan, scratch, stream); });
}

LaunchCode fast_grouped_product(const FastGroupedCall& call, const FastPlan& plan, const FastScratch& scratch,
                                Stream stream) {
  if (call.places == 0 || call.product.matrices == 0 || call.product.most_outputs == 0) return kLaunched;
  return with_fast_codes(
      call.codes, [&](auto tag) { return launch_fast_grouped<decltype(tag)::kValue>(call, plan, scratch, stream); });
}

LaunchCode fast_gated_experts(const FastExpertsCall& call, Stream stream) {
  if (call.most_active == 0) return kLaunched;
  return with_fast_codes(call.codes,
                         [&](auto tag) { return launch_fast_gated_experts<decltype(tag)::kValue>(call, stream); });
}

LaunchCode fast_answering_experts(const FastExpertsCall& call, const CombineCall& combine, uint32_t* arrived,
                                  Stream stream) {
  if (call.most_active == 0) return kLaunched;
  return with_fast_codes(call.codes, [&](auto tag) {
    return launch_fast_answering_experts<decltype(tag)::kValue>(call, combine, arrived, stream);
  });
}

LaunchCode fast_fused_product(const FusedProductCall& call, FastCodes codes, Stream stream) {
  if (call.product.rows == 0 || call.product.outputs == 0) return kLaunched;
  return with_fast_codes(codes, [&](auto tag) { return launch_fast_fused<decltype(tag)::kValue>(call, stream); });
}

}  // namespace vernier::cuda
