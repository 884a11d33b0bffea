#include "ops/backend.h"

namespace vernier {

Result<MachineLimits> Backend::measure_limits(int64_t) {
  return unsupported("the {} backend has no limits to measure; it is made to be right, not fast", name());
}

Result<double> Backend::measure_library_products() {
  return unsupported("the {} backend has no library of its vendor to be compared with", name());
}

Status Backend::use_tactics(std::shared_ptr<TacticStore>, TacticUse use) {
  if (use.pins.empty() && use.skip.empty()) return {};
  return unsupported("the {} backend chooses by no tactics: there is nothing to pin or to skip; cpu does", name());
}

Result<MeasuredTactic> Backend::measure_linear(const PackedMatrix&, const Problem&, int64_t, const MeasureRules&) {
  return unsupported("the {} backend measures no tactics; cpu does", name());
}

}  // namespace vernier
