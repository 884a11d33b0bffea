#include "models/bind_experts.h"

#include <utility>

namespace vernier {
namespace {

/// The spelling under which this checkpoint stores its experts, the first where it has none: the binder's error then
/// says what is missing.
const ExpertNames& stored_names(const DecoderSpec& spec, const std::string& prefix, const Binder& binder) {
  CHECK(!spec.expert_names.empty(), "{}: experts without names", spec.family);
  for (const ExpertNames& names : spec.expert_names) {
    const std::string& first = names.gate_up.empty() ? names.gate : names.gate_up;
    if (binder.has(fmt::format("{}{}.experts.0.{}", prefix, names.block, first))) return names;
  }
  return spec.expert_names.front();
}

std::vector<WeightPart> gate_up_parts(const ExpertNames& names, const std::string& expert, int64_t width) {
  if (names.gate_up.empty()) return {{expert + names.gate, width}, {expert + names.up, width}};
  WeightPart both{expert + names.gate_up, 2 * width};
  both.halves_alternate = names.halves_alternate;
  both.dense_is_transposed = names.dense_are_transposed;
  return {both};
}

}  // namespace

Result<ExpertsLayer> bind_experts(const DecoderSpec& spec, const ExpertsSpec& experts, const std::string& prefix,
                                  Binder& binder) {
  const ExpertNames& names = stored_names(spec, prefix, binder);
  ExpertsLayer layer;
  layer.name = prefix + names.block;
  layer.spec = experts;
  const std::string router = fmt::format("{}.{}", layer.name, names.router);
  TRY_BIND(layer.router, binder.router(router, experts.experts, spec.hidden, spec.router_bias));
  if (spec.corrects_scores) {
    TRY_BIND(layer.correction, binder.vector(fmt::format("{}.{}", layer.name, names.correction), experts.experts));
  }
  for (int expert = 0; expert < experts.weighted(); ++expert) {
    const std::string own = fmt::format("{}.experts.{}.", layer.name, expert);
    TRY_BIND(auto gate_up,
             binder.weight<Split::kColumns>(gate_up_parts(names, own, experts.width), spec.hidden, spec.experts_bias));
    WeightPart back{own + names.down, spec.hidden};
    back.dense_is_transposed = names.dense_are_transposed;
    TRY_BIND(auto down, binder.weight<Split::kRows>({back}, experts.width, spec.experts_bias));
    layer.gate_up.push_back(std::move(gate_up));
    layer.down.push_back(std::move(down));
  }
  return layer;
}

}  // namespace vernier
