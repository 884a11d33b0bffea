#include "audit/judged_side.h"

namespace vernier {

std::shared_ptr<const PackedMatrix> side_of(const std::shared_ptr<const PackedMatrix>& matrix, JudgedSide side) {
  if (matrix == nullptr) return nullptr;
  const JudgedMatrix::Sides& sides = dynamic_cast<const JudgedMatrix&>(*matrix).sides();
  if (side == JudgedSide::kTested) return sides.tested;
  if (side == JudgedSide::kUnquantised) return sides.unquantised;
  return sides.reference;
}

std::shared_ptr<const PackedVector> side_of(const std::shared_ptr<const PackedVector>& vector, JudgedSide side) {
  if (vector == nullptr) return nullptr;
  const JudgedVector::Sides& sides = dynamic_cast<const JudgedVector&>(*vector).sides();
  if (side == JudgedSide::kTested) return sides.tested;
  if (side == JudgedSide::kUnquantised) return sides.unquantised;
  return sides.reference;
}

Norm side_of(const Norm& norm, JudgedSide side) {
  return {norm.name, side_of(norm.weight, side), norm.eps};
}

LayerNorm side_of(const LayerNorm& norm, JudgedSide side) {
  return {norm.name, side_of(norm.weight, side), side_of(norm.bias, side), norm.eps};
}

AttnLayer side_of(const AttnLayer& layer, JudgedSide side) {
  AttnLayer own = layer;
  own.q_norm = side_of(layer.q_norm, side);
  own.k_norm = side_of(layer.k_norm, side);
  own.sinks = side_of(layer.sinks, side);
  return own;
}

LatentLayer side_of(const LatentLayer& layer, JudgedSide side) {
  LatentLayer own = layer;
  own.attn = side_of(layer.attn, side);
  own.norm = side_of(layer.norm, side);
  for (auto& key : own.keys) key = side_of(key, side);
  for (auto& value : own.values) value = side_of(value, side);
  return own;
}

ExpertsLayer side_of(const ExpertsLayer& layer, JudgedSide side) {
  ExpertsLayer own = layer;
  own.router = side_of(layer.router, side);
  own.correction = side_of(layer.correction, side);
  for (auto& weight : own.gate_up) weight = side_of(weight, side);
  for (auto& weight : own.down) weight = side_of(weight, side);
  return own;
}

}  // namespace vernier
