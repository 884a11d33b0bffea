#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "backends/cuda/kernels/block.cuh"

/// What a kernel of its own and a part of a product do alike, to the bit.
namespace vernier::cuda {

inline constexpr int kNormThreads = 256;  ///< of a block that norms; it decides the order of a sum

/// 1 / sqrt(mean(x^2) + eps) in every thread of a block of kNormThreads.
__device__ __forceinline__ float inverse_norm(const float* x, int64_t cols, float eps, float* scratch) {
  float squares = 0;
  for (int64_t i = threadIdx.x; i < cols; i += kNormThreads) squares = fmaf(x[i], x[i], squares);
  squares = block_all(squares, Sum{}, scratch);
  return 1.0f / sqrtf(squares / static_cast<float>(cols) + eps);
}

/// 1 / (1 + e^-x) where no power overflows into a NaN: e^-x may be infinite, and the quotient is then 0.
__device__ __forceinline__ float activated(float x, Activation act, float slope) {
  if (act == Activation::kSilu) return x / (1.0f + expf(-slope * x));
  if (act == Activation::kGelu) return 0.5f * x * erfcf(-x * 0.70710678118654752440f);
  const float inner = 0.79788456080286535588f * (x + 0.044715f * x * x * x);
  // 1 + tanh(t) = 2 / (1 + e^(-2t)): what is left of a negative number is right to its own size.
  return x / (1.0f + expf(-2.0f * inner));
}

__device__ __forceinline__ float gated(float g, float up, const GateRule& rule) {
  if (rule.limit > 0) {
    // A NaN stays one: it is no larger than the limit.
    g = g > rule.limit ? rule.limit : g;
    up = up > rule.limit ? rule.limit : up < -rule.limit ? -rule.limit : up;
  }
  return activated(g, rule.act, rule.slope) * (up + rule.up_offset);
}

}  // namespace vernier::cuda
