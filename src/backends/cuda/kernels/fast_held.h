#pragma once

#include "backends/cuda/kernels/choose.h"
#include "backends/cuda/kernels/fast.h"

/// Experts of few rows by MXFP4: fast_gated_experts and fast_answering_experts by rows that are laid out. C++17; no
/// header of CUDA.
namespace vernier::cuda {

struct HeldExpertsCall {
  FastExpertsCall of;
  const uint32_t* laid = nullptr;  ///< x: [rows], or, of down, [places], of laid_row_words
  uint32_t* laid_out = nullptr;    ///< [places] gated rows
  VERNIER_COMPARED(HeldExpertsCall)
};
LaunchCode held_gated_experts(const HeldExpertsCall& call, Stream stream);
/// The launch before is held_gated_experts of the same step: weights are read before it ends.
LaunchCode held_answering_experts(const HeldExpertsCall& call, const CombineCall& combine, uint32_t* arrived,
                                  Stream stream);

}  // namespace vernier::cuda
