#pragma once

namespace vernier {

/// What a device can do at most, measured now, all its threads together: the numbers that rates are divided by.
struct MachineLimits {
  double read_bytes_per_s = 0;  ///< from memory, over a buffer of the size asked for
  double int8_ops_per_s = 0;    ///< 8-bit dot products; a multiply and an add are two
  double bf16_ops_per_s = 0;    ///< products of bf16 summed in float32; 0: not measured
  double f32_ops_per_s = 0;
};

}  // namespace vernier
