#pragma once

#include <cstddef>
#include <cstdint>

namespace vernier {

/// Loops that do nothing but the instruction a kernel lives on: the ceilings that `vernier bench` divides by.
/// Each runs `rounds` rounds and returns operations done; a multiply and an add are two.
struct PeakLoops {
  int64_t (*f32_fma)(int64_t rounds);
  int64_t (*int8_dot)(int64_t rounds);
  int64_t (*bf16_dot)(int64_t rounds);  ///< float32 where nothing multiplies bf16 itself
  /// Reads every byte once; the return value depends on all of them.
  uint64_t (*read)(const std::byte* data, size_t size_bytes);
};

namespace baseline {
PeakLoops peak_loops();
}
namespace avx2 {
PeakLoops peak_loops();
}
namespace avx512 {
PeakLoops peak_loops();
}
namespace amx {
PeakLoops peak_loops();
}

}  // namespace vernier
