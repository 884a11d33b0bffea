#include "api/layer_cuts.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace vernier {
namespace {

using StoredPart = PlannedBackend::StoredPart;

/// The parts of a decoder, by layer and op.
class PartIndex {
 public:
  explicit PartIndex(const Decoder& decoder) : parts_(decoder.parts()) {}
  std::vector<StoredPart> stored(int layer, std::string_view op) const {
    for (const DecoderPart& part : parts_) {
      if (part.layer == layer && part.op == op) return PlannedBackend::stored_parts(*part.matrix);
    }
    return {};
  }

 private:
  std::vector<DecoderPart> parts_;
};

/// Scale groups that a cut of a width may not go through: of the rows that make it and of the columns that take it.
int64_t width_unit(const std::vector<StoredPart>& makers, const std::vector<StoredPart>& takers, int64_t width) {
  int64_t unit = 1;
  for (const StoredPart& part : makers) unit = std::lcm(unit, std::max(part.codec.group_rows, 1));
  for (const StoredPart& part : takers) unit = std::lcm(unit, std::max(part.codec.group_cols, 1));
  // A width within one group is whole on one rank.
  return std::min(unit, width);
}

Result<LayerCuts> cut_layer(const LayerSpec& spec, int layer, const PartIndex& index, int ranks, ExpertCut cut) {
  LayerCuts cuts;
  int64_t unit = 1;
  const int dim = spec.attn.latent ? spec.attn.latent->value_dim : spec.attn.head_dim;
  for (const StoredPart& part : index.stored(layer, "output")) unit = std::lcm(unit, head_unit(dim, part.codec));
  // Compressed rows are the one key-value head of all queries.
  TRY_BIND(cuts.heads, cut_heads(spec.attn.heads, spec.attn.latent ? 1 : spec.attn.kv_heads, unit, ranks));
  const int64_t feed = spec.ffn > 0 ? spec.ffn : spec.shared_ffn;
  if (feed > 0) {
    const char* maker = spec.ffn > 0 ? "gate_up" : "shared_gate_up";
    const char* taker = spec.ffn > 0 ? "down" : "shared_down";
    TRY_BIND(cuts.feed,
             cut_axis(feed, width_unit(index.stored(layer, maker), index.stored(layer, taker), feed), ranks));
  }
  if (!spec.experts) return cuts;
  const int64_t width = spec.experts->width;
  if (cut == ExpertCut::kWhole) {
    TRY_BIND(cuts.experts, cut_axis(spec.experts->weighted(), 1, ranks));
    return cuts;
  }
  TRY_BIND(
      cuts.expert_widths,
      cut_axis(width, width_unit(index.stored(layer, "experts_gate_up"), index.stored(layer, "experts_down"), width),
               ranks));
  return cuts;
}

AxisCut by_head(const AxisCut& cut, int64_t dim) {
  return {cut.begin * dim, cut.end * dim};
}

void cut_experts(const DecoderPart& part, const std::vector<StoredPart>& stored, const LayerCuts& cuts, size_t rank,
                 PartCut& own) {
  const bool gated = part.op == "experts_gate_up";
  own.use = gated ? ProductUse::kExpertsGated : ProductUse::kExperts;
  own.halved = gated && stored.size() == 1;
  if (!cuts.experts.empty()) {
    const double share = static_cast<double>(cuts.experts[rank].size()) / part.experts->weighted();
    own.matrices *= share;
    own.matrices_of_row *= share;
  } else if (gated) {
    own.rows.assign(own.halved ? 2 : stored.size(), cuts.expert_widths[rank]);
  } else {
    own.cols = cuts.expert_widths[rank];
  }
}

}  // namespace

Result<std::vector<LayerCuts>> cut_layers(const Decoder& decoder, int ranks, ExpertCut cut) {
  const PartIndex index(decoder);
  std::vector<LayerCuts> cuts;
  for (const LayerSpec& spec : decoder.spec().layers) {
    TRY_BIND(LayerCuts own, cut_layer(spec, static_cast<int>(cuts.size()), index, ranks, cut));
    cuts.push_back(std::move(own));
  }
  return cuts;
}

PartCut cut_part(const DecoderPart& part, const LayerSpec& spec, const LayerCuts& cuts, size_t rank) {
  const std::vector<StoredPart> stored = PlannedBackend::stored_parts(*part.matrix);
  PartCut own;
  own.matrices = static_cast<double>(part.alike);
  own.matrices_of_row = part.matrices_of_row();
  const HeadCut& heads = cuts.heads[rank];
  if (part.op == "qkv") {
    own.rows.assign(stored.size(), by_head(heads.kv_heads, spec.attn.head_dim));
    own.rows[0] = by_head(heads.heads, spec.attn.head_dim);
  } else if (part.op == "q") {
    own.rows = {by_head(heads.heads, spec.attn.latent->query_dim())};
  } else if (part.op == "latent_keys" || part.op == "latent_values") {
    own.matrices = own.matrices_of_row = static_cast<double>(heads.heads.size());
  } else if (part.op == "output") {
    own.cols = by_head(heads.heads, spec.attn.latent ? spec.attn.latent->value_dim : spec.attn.head_dim);
  } else if (part.op == "gate_up" || part.op == "shared_gate_up") {
    own.rows.assign(stored.size(), cuts.feed[rank]);
  } else if (part.op == "down" || part.op == "shared_down") {
    own.cols = cuts.feed[rank];
  } else if (part.experts != nullptr) {
    cut_experts(part, stored, cuts, rank, own);
  }
  return own;
}

}  // namespace vernier
