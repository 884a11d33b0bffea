// TENSOR-6: no dense tensor holds narrow codes, so no dense function can be handed them.
#include "tensor/qtensor.h"
#include "tensor/tensor.h"

namespace vernier {

std::vector<float> norm_of(const Tensor& weight);

std::vector<float> use(Shape shape, Bytes bytes, const QTensor& quantised) {
  (void)quantised;
#ifndef VERNIER_MISUSE
  return norm_of(Tensor::make(DType::kBF16, shape, bytes).value());
#elif VERNIER_MISUSE == 1
  return norm_of(Tensor::make(DType::kE4M3, shape, bytes).value());  // expect-error: is not a member of
#elif VERNIER_MISUSE == 2
  return norm_of(Tensor::make(CodecId::kE4M3Tensor, shape, bytes).value());  // expect-error: cannot convert
#elif VERNIER_MISUSE == 3
  return norm_of(Tensor::make(Element::kE2M1, shape, bytes).value());  // expect-error: cannot convert
#elif VERNIER_MISUSE == 4
  return norm_of(quantised);  // expect-error: invalid initialization of reference
#endif
}

}  // namespace vernier
