#include "backends/cpu/kernels/attend.h"
#include "backends/cpu/kernels/kv_codes.h"
#include "backends/cpu/kernels/vec.h"

namespace vernier::avx2 {

constexpr Isa kIsa = Isa::kAvx2;
#include "backends/cpu/kernels/attend_body.h"

}  // namespace vernier::avx2
