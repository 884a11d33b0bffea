// TENSOR-5: a QTensor is made by the validating `make` (or another member that keeps its laws) and by nothing else.
#include "tensor/qtensor.h"

namespace vernier {

Result<QTensor> use(QTensorParts parts) {
#ifndef VERNIER_MISUSE
  return QTensor::make(std::move(parts));
#elif VERNIER_MISUSE == 1
  return QTensor(std::move(parts));  // expect-error: is private within this context
#elif VERNIER_MISUSE == 2
  (void)parts;
  QTensor empty;  // expect-error: no matching function for call to
  return empty;
#elif VERNIER_MISUSE == 3
  QTensor whole = std::move(parts);  // expect-error: is private within this context
  return whole;
#elif VERNIER_MISUSE == 4
  return parts;  // expect-error: could not convert
#endif
}

}  // namespace vernier
