#include "ops/backend.h"

namespace vernier {

Result<MachineLimits> Backend::measure_limits(int64_t) {
  return unsupported("the {} backend has no limits to measure; it is made to be right, not fast", name());
}

Result<double> Backend::measure_library_products() {
  return unsupported("the {} backend has no library of its vendor to be compared with", name());
}

}  // namespace vernier
