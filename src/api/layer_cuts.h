#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "models/decoder.h"
#include "ops/planned_backend.h"
#include "ops/shard_plan.h"

namespace vernier {

/// How experts meet ranks.
enum class ExpertCut : uint8_t {
  kWidth,  ///< each rank has a part of every expert
  kWhole,  ///< each rank has some experts
};

/// How one layer is cut, by rank.
struct LayerCuts {
  std::vector<HeadCut> heads;
  std::vector<AxisCut> feed;           ///< of the dense part's width; empty: it has none
  std::vector<AxisCut> expert_widths;  ///< under ExpertCut::kWidth
  std::vector<AxisCut> experts;        ///< under ExpertCut::kWhole
};

/// Of each layer of a decoder that is bound to a PlannedBackend. Refuses a number of ranks that its heads cannot be cut
/// for, with the nearest that work.
Result<std::vector<LayerCuts>> cut_layers(const Decoder& decoder, int ranks, ExpertCut cut);

/// What a rank has of a part of a layer.
struct PartCut {
  ProductUse use = ProductUse::kLinear;
  bool halved = false;               ///< gate and up are stored as one part and are cut as two
  std::vector<AxisCut> rows = {};    ///< of each stored part, or half; empty: all rows are there
  std::optional<AxisCut> cols = {};  ///< none: all columns are there
  double matrices = 1;               ///< of those that the part stands for
  double matrices_of_row = 1;        ///< of those, the ones that a row meets
};
/// By the op's place in a layer; whole where the op is cut nowhere.
PartCut cut_part(const DecoderPart& part, const LayerSpec& spec, const LayerCuts& cuts, size_t rank);

}  // namespace vernier
