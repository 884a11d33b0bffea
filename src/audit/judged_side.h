#pragma once

#include "audit/judged_backend.h"
#include "ops/ops.h"

namespace vernier {

/// Who computes, of those that a JudgedBackend knows.
enum class JudgedSide : uint8_t { kTested, kUnquantised, kReference };

/// What a model was bound to, as one side has it; null stays null.
std::shared_ptr<const PackedMatrix> side_of(const std::shared_ptr<const PackedMatrix>& matrix, JudgedSide side);
std::shared_ptr<const PackedVector> side_of(const std::shared_ptr<const PackedVector>& vector, JudgedSide side);
Norm side_of(const Norm& norm, JudgedSide side);
LayerNorm side_of(const LayerNorm& norm, JudgedSide side);
AttnLayer side_of(const AttnLayer& layer, JudgedSide side);
LatentLayer side_of(const LatentLayer& layer, JudgedSide side);
ExpertsLayer side_of(const ExpertsLayer& layer, JudgedSide side);

template <Split S>
Weight<S> side_of(const Weight<S>& weight, JudgedSide side) {
  return {weight.name, side_of(weight.matrix, side), side_of(weight.bias, side), weight.input_scale};
}

}  // namespace vernier
