#pragma once

#include <cstdint>

#include "backends/cpu/cpu_isa.h"

namespace vernier {

/// A SiLU's gate between limits: g = min(gate, limit), u = up within [-limit, limit], g / (1 + e^(-slope g)) * (u +
/// offset).
struct GateClamp {
  float limit;
  float slope;
  float up_offset;
};

/// Work on single rows of float32 between the products. `out` may be an input.
struct RowKernels {
  /// x * weight / sqrt(mean(x^2) + eps).
  void (*norm)(const float* x, const float* weight, float eps, int64_t cols, float* out) = nullptr;
  /// (x - mean) / sqrt(variance + eps) * weight + bias.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, int64_t cols,
                     float* out) = nullptr;
  /// act(gate) * up.
  void (*gate_silu)(const float* gate, const float* up, int64_t cols, float* out) = nullptr;
  void (*gate_gelu_tanh)(const float* gate, const float* up, int64_t cols, float* out) = nullptr;
  void (*gate_gelu)(const float* gate, const float* up, int64_t cols, float* out) = nullptr;
  void (*gate_clamped)(const float* gate, const float* up, GateClamp clamp, int64_t cols, float* out) = nullptr;
  void (*silu)(const float* x, int64_t cols, float* out) = nullptr;
  void (*gelu_tanh)(const float* x, int64_t cols, float* out) = nullptr;
  void (*gelu)(const float* x, int64_t cols, float* out) = nullptr;
  void (*add)(const float* x, const float* y, int64_t cols, float* out) = nullptr;
  /// x + factor * y.
  void (*add_scaled)(const float* x, const float* y, float factor, int64_t cols, float* out) = nullptr;
  void (*scale)(const float* x, float factor, int64_t cols, float* out) = nullptr;
  /// cap * tanh(x / cap).
  void (*soft_cap)(const float* x, float cap, int64_t cols, float* out) = nullptr;
  /// The largest number, NaN if there is one.
  float (*largest)(const float* x, int64_t cols) = nullptr;
  /// Sum of e^(x - shift).
  double (*sum_exp)(const float* x, float shift, int64_t cols) = nullptr;
};

namespace baseline {
extern const RowKernels row_kernels;
}
namespace avx2 {
extern const RowKernels row_kernels;
}
namespace avx512 {
extern const RowKernels row_kernels;
}

}  // namespace vernier
