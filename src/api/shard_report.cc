#include "api/shard_report.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "api/layer_cuts.h"
#include "ops/planned_backend.h"
#include "tensor/prepared.h"

namespace vernier {
namespace {

using StoredPart = PlannedBackend::StoredPart;

/// A product as one rank has it: rows of each part, and columns.
struct RankProduct {
  std::vector<StoredPart> parts;  // with the rank's rows
  int64_t cols = 0;
  double matrices = 1;         // alike
  double matrices_of_row = 1;  // of those that a row meets
  ProductUse use = ProductUse::kLinear;
};

/// Adds what the device's kernel makes of rows of one codec.
Status add_codec(const Codec& codec, const std::vector<int64_t>& rows, const RankProduct& product,
                 const DeviceFeatures& device, RankShare& share) {
  const int64_t outputs = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  const bool fill_blocks =
      std::all_of(rows.begin(), rows.end() - 1, [&](int64_t own) { return own % std::max(codec.group_rows, 1) == 0; });
  ProductProblem problem{codec, outputs, product.cols};
  problem.parts = static_cast<int>(rows.size());
  problem.experts = product.use != ProductUse::kLinear;
  problem.parts_fill_blocks = fill_blocks;
  const ProductKernel& kernel = product_kernel(choose_product(problem, device));
  Layout layout = kernel.layout_for(static_cast<int>(rows.size()));
  // Codes are made anew for words of exponents before they are laid out; sizes alone matter here.
  Codec laid = codec;
  if (kernel.powers_of_two) laid = block_codec(codec.id, codec.group_rows, codec.group_cols, ScaleType::kE8M0);
  TRY_BIND(PreparedExtents extents, prepared_extents(laid, rows, product.cols, layout));
  const double logical = static_cast<double>(extents.rows) * static_cast<double>(extents.cols);
  const double physical = static_cast<double>(extents.physical_rows) * static_cast<double>(extents.physical_cols);
  int64_t stored = 0;
  for (int64_t of_part : rows) {
    TRY_BIND(int64_t codes, codec.code_bytes(of_part, product.cols));
    stored += codes + codec.groups_down(of_part) * codec.groups_across(product.cols) *
                          (codec.inner == ScaleType::kF32    ? 4
                           : codec.inner == ScaleType::kNone ? 0
                                                             : 1);
  }
  share.weight_bytes += static_cast<int64_t>(product.matrices) * stored;
  if (physical > logical) {
    share.padding_bytes += static_cast<int64_t>(product.matrices) * extents.padding_bytes;
    share.padding_flops += 2 * product.matrices_of_row * (physical - logical);
  }
  share.flops += 2 * product.matrices_of_row * logical;
  return {};
}

Status add_product(const RankProduct& product, const DeviceFeatures& device, RankShare& share) {
  std::vector<bool> taken(product.parts.size(), false);
  for (size_t i = 0; i < product.parts.size(); ++i) {
    if (taken[i] || product.parts[i].rows == 0) continue;
    std::vector<int64_t> rows;
    for (size_t j = i; j < product.parts.size(); ++j) {
      if (taken[j] || product.parts[j].rows == 0 || !(product.parts[j].codec == product.parts[i].codec)) continue;
      taken[j] = true;
      rows.push_back(product.parts[j].rows);
    }
    TRY_STATUS(add_codec(product.parts[i].codec, rows, product, device, share));
  }
  return {};
}

/// Rows of blocks smaller than they were, where a cut goes through them.
Codec codec_of_rows(const Codec& codec, int64_t begin, int64_t end) {
  if (codec.id != CodecId::kE4M3Block && codec.id != CodecId::kE5M2Block) return codec;
  const auto part = static_cast<int>(std::gcd(std::gcd(int64_t{codec.group_rows}, begin), end));
  return part == codec.group_rows ? codec : block_codec(codec.id, part, codec.group_cols, codec.inner);
}

Codec codec_of_cols(const Codec& codec, int64_t begin, int64_t end) {
  if (codec.id != CodecId::kE4M3Block && codec.id != CodecId::kE5M2Block) return codec;
  const auto part = static_cast<int>(std::gcd(std::gcd(int64_t{codec.group_cols}, begin), end));
  return part == codec.group_cols ? codec : block_codec(codec.id, codec.group_rows, part, codec.inner);
}

/// What a rank has of a part.
RankProduct rank_product(const DecoderPart& part, const LayerSpec& spec, const LayerCuts& cuts, size_t rank) {
  const PartCut cut = cut_part(part, spec, cuts, rank);
  RankProduct product{PlannedBackend::stored_parts(*part.matrix), part.matrix->cols(), cut.matrices,
                      cut.matrices_of_row, cut.use};
  if (cut.halved) {
    const StoredPart half{product.parts[0].codec, product.parts[0].rows / 2};
    product.parts = {half, half};
  }
  for (size_t i = 0; i < cut.rows.size(); ++i) {
    const AxisCut& rows = cut.rows[i];
    product.parts[i] = {codec_of_rows(product.parts[i].codec, rows.begin, rows.end), rows.size()};
  }
  if (!cut.cols) return product;
  for (StoredPart& of : product.parts) {
    of.codec = codec_of_cols(of.codec, cut.cols->begin, cut.cols->end);
    if (cut.cols->size() == 0) of.rows = 0;
  }
  product.cols = std::max<int64_t>(cut.cols->size(), 1);
  return product;
}

/// Adds what a rank has of key-value heads that the rank before it has already.
Status add_repeated(const LayerCuts& cuts, size_t rank, RankProduct product, const DeviceFeatures& device,
                    RankShare& share) {
  if (rank == 0 || cuts.heads[rank].kv_heads.size() == 0 ||
      cuts.heads[rank].kv_heads != cuts.heads[rank - 1].kv_heads) {
    return {};
  }
  product.parts.erase(product.parts.begin());  // the queries are its own
  RankShare repeated;
  TRY_STATUS(add_product(product, device, repeated));
  share.repeated_bytes += repeated.weight_bytes;
  share.repeated_flops += repeated.flops;
  return {};
}

/// The numbers of a rank that are told of it, from the first layer that has each.
void describe_rank(const LayerSpec& spec, const LayerCuts& cuts, size_t rank, RankShare& share) {
  if (share.heads == 0) {
    share.heads = cuts.heads[rank].heads.size();
    share.kv_heads = cuts.heads[rank].kv_heads.size();
  }
  if (share.feed_forward == 0 && !cuts.feed.empty()) share.feed_forward = cuts.feed[rank].size();
  if (spec.experts && share.expert_width == 0) {
    share.experts = cuts.experts.empty() ? spec.experts->weighted() : cuts.experts[rank].size();
    share.expert_width = cuts.experts.empty() ? cuts.expert_widths[rank].size() : spec.experts->width;
  }
}

double share_of_flops(const std::vector<RankShare>& ranks, double RankShare::*of) {
  double all = 0, part = 0;
  for (const RankShare& rank : ranks) {
    all += rank.flops + rank.padding_flops;
    part += rank.*of;
  }
  return all > 0 ? part / all : 0;
}

/// How heads stand on ranks, from the first layer.
void describe_heads(const AttnSpec& attn, const LayerCuts& cuts, ShardReport& report) {
  report.kv_heads_repeat = !attn.latent && static_cast<int64_t>(cuts.heads.size()) > attn.kv_heads;
  int64_t stand = 0;
  for (const HeadCut& cut : cuts.heads) {
    stand += cut.kv_heads.size();
    if (cut.heads.size() == 0) ++report.ranks_without_heads;
  }
  report.cache_copies = static_cast<double>(stand) / (attn.latent ? 1 : attn.kv_heads);
}

}  // namespace

int64_t ShardReport::padding_bytes() const {
  int64_t bytes = 0;
  for (const RankShare& rank : ranks) bytes += rank.padding_bytes;
  return bytes;
}

int64_t ShardReport::repeated_bytes() const {
  int64_t bytes = 0;
  for (const RankShare& rank : ranks) bytes += rank.repeated_bytes;
  return bytes;
}

double ShardReport::padding_share() const {
  return share_of_flops(ranks, &RankShare::padding_flops);
}

double ShardReport::repeated_share() const {
  return share_of_flops(ranks, &RankShare::repeated_flops);
}

Result<ShardReport> plan_shards(const Decoder& decoder, const DeviceFeatures& device, int ranks, ExpertCut cut) {
  const std::vector<LayerSpec>& layers = decoder.spec().layers;
  TRY_BIND(const std::vector<LayerCuts> cuts, cut_layers(decoder, ranks, cut));
  const std::vector<DecoderPart> parts = decoder.parts();
  ShardReport report;
  describe_heads(layers[0].attn, cuts[0], report);
  for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) {
    RankShare& share = report.ranks.emplace_back();
    for (const DecoderPart& part : parts) {
      if (part.matrix == nullptr || part.op == "embed") continue;
      RankProduct product{PlannedBackend::stored_parts(*part.matrix), part.matrix->cols(), 1, 1, ProductUse::kLinear};
      if (part.layer >= 0) {
        const auto layer = static_cast<size_t>(part.layer);
        product = rank_product(part, layers[layer], cuts[layer], rank);
        if (part.op == "qkv") TRY_STATUS(add_repeated(cuts[layer], rank, product, device, share));
      }
      TRY_STATUS(add_product(product, device, share));
    }
    for (size_t layer = 0; layer < layers.size(); ++layer) describe_rank(layers[layer], cuts[layer], rank, share);
  }
  return report;
}

std::vector<int> ranks_without_padding(const Decoder& decoder, const DeviceFeatures& device, int ranks, ExpertCut cut) {
  std::vector<int> found;
  for (int other = 1; other <= 4 * ranks; ++other) {
    const Result<ShardReport> report = plan_shards(decoder, device, other, cut);
    if (report.ok() && report->padding_bytes() == 0 && report->ranks_without_heads == 0) found.push_back(other);
  }
  std::ranges::stable_sort(found, {}, [&](int other) { return std::abs(other - ranks); });
  if (found.size() > 2) found.resize(2);
  return found;
}

}  // namespace vernier
