// TENSOR-6: the codes of a QTensor come with their scales or not at all.
#include "tensor/qtensor.h"

namespace vernier {

size_t use(const QTensor& tensor) {
#ifndef VERNIER_MISUSE
  QTensor::View view = tensor.view();
  return view.codes.size() + view.inner_scales.size() + view.outer_scales.size();
#elif VERNIER_MISUSE == 1
  return tensor.codes().size();  // expect-error: has no member named
#elif VERNIER_MISUSE == 2
  return tensor.codes_.size();  // expect-error: is private
#elif VERNIER_MISUSE == 3
  return tensor.data() != nullptr;  // expect-error: has no member named
#endif
}

}  // namespace vernier
