#include "backends/cpu/kernels/rows.h"
#include "backends/cpu/kernels/vec.h"

namespace vernier::avx2 {

#include "backends/cpu/kernels/rows_body.h"

}  // namespace vernier::avx2
