#include "backends/cpu/kernels/attend.h"
#include "backends/cpu/kernels/kv_codes.h"
#include "backends/cpu/kernels/vec.h"

namespace vernier::baseline {

constexpr Isa kIsa = Isa::kBaseline;
#include "backends/cpu/kernels/attend_body.h"

}  // namespace vernier::baseline
