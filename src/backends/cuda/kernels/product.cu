#include "backends/cuda/kernels/decode.h"
#include "backends/cuda/kernels/launch.h"

namespace vernier::cuda {

// product_instance.cu.in makes these, one kind of codes a file.
template <Codes K>
LaunchCode launch_product(const ProductCall& call, Stream stream);
template <Codes K>
LaunchCode launch_fused_product(const FusedProductCall& call, Stream stream);
template <Codes K>
LaunchCode launch_grouped_product(const GroupedProductCall& call, Stream stream);
template <Codes K>
LaunchCode launch_gather(const GatherCall& call, Stream stream);

LaunchCode product(const ProductCall& call, Stream stream) {
  if (call.rows == 0 || call.outputs == 0) return kLaunched;
  return with_codes(call.parts[0].weight.kind,
                    [&](auto tag) { return launch_product<decltype(tag)::kValue>(call, stream); });
}

LaunchCode fused_product(const FusedProductCall& call, Stream stream) {
  if (call.product.rows == 0 || call.product.outputs == 0) return kLaunched;
  return with_codes(call.product.parts[0].weight.kind,
                    [&](auto tag) { return launch_fused_product<decltype(tag)::kValue>(call, stream); });
}

LaunchCode grouped_product(const GroupedProductCall& call, Stream stream) {
  if (call.matrices == 0 || call.most_outputs == 0) return kLaunched;
  return with_codes(call.kind, [&](auto tag) { return launch_grouped_product<decltype(tag)::kValue>(call, stream); });
}

LaunchCode gather(const GatherCall& call, Stream stream) {
  if (call.rows == 0) return kLaunched;
  return with_codes(call.table.kind, [&](auto tag) { return launch_gather<decltype(tag)::kValue>(call, stream); });
}

}  // namespace vernier::cuda
