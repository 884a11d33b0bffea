#include "backends/cpu/kernels/attend.h"
#include "backends/cpu/kernels/kv_codes.h"
#include "backends/cpu/kernels/vec.h"

namespace vernier::avx512 {

constexpr Isa kIsa = Isa::kAvx512;
#include "backends/cpu/kernels/attend_body.h"

}  // namespace vernier::avx512
