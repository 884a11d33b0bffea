#include "api/loaded_shard.h"

#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint_binder.h"
#include "models/registry.h"

namespace vernier {
namespace {

/// What a rank has of the stored parts of a matrix; empty: nothing.
Result<std::vector<QTensor>> cut_segments(const PackedMatrix& matrix, const PartCut& cut) {
  std::vector<QTensor> own;
  const std::span<const QTensor> stored = PlannedBackend::segments(matrix);
  if (cut.cols && cut.cols->size() == 0) return own;
  for (size_t i = 0; i < std::max(stored.size(), cut.rows.size()); ++i) {
    const QTensor& whole = stored[cut.halved ? 0 : i];
    AxisCut rows = cut.rows.empty() ? AxisCut{0, whole.rows()} : cut.rows[i];
    if (rows.size() == 0) continue;
    if (cut.halved && i == 1) rows = {rows.begin + whole.rows() / 2, rows.end + whole.rows() / 2};
    TRY_BIND(QTensor part, cut_rows(whole, rows));
    if (cut.cols) {
      TRY_BIND(part, cut_cols(part, *cut.cols));
    }
    own.push_back(std::move(part));
  }
  return own;
}

/// All that a problem of these may depend on.
std::string describe(const DecoderPart& part, const std::vector<QTensor>& segments, PackUse use) {
  std::string text = fmt::format("{} {}", part.op, static_cast<int>(use));
  if (part.experts != nullptr) text += fmt::format(" {} of {}", part.experts->chosen, part.experts->experts);
  for (const QTensor& segment : segments) {
    text += fmt::format(" {} {}x{} of {}x{}", segment.codec().name, segment.rows(), segment.cols(),
                        segment.codec().group_rows, segment.codec().group_cols);
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<LoadedShard>> LoadedShard::load(const std::string& path, const LoadOptions& options, int ranks,
                                                       int rank) {
  std::unique_ptr<LoadedShard> shard(new LoadedShard);
  TRY_BIND(shard->checkpoint_, Checkpoint::open(path));
  TRY_BIND(Config config, shard->checkpoint_->config());
  TRY_BIND(DecoderSpec spec, read_decoder(config));
  TRY_BIND(shard->backend_, make_backend(options.backend));
  shard->tactics_ = options.tactics;
  TRY_STATUS(shard->backend_->use_tactics(options.tactics, options.tactic_use));
  shard->planned_ = std::make_unique<PlannedBackend>(PlanRules{});
  CheckpointBinder binder(*shard->checkpoint_, *shard->planned_, options.on_progress);
  TRY_STATUS(quantise_while_binding(*shard->checkpoint_, options, binder));
  TRY_BIND(shard->decoder_, Decoder::bind(std::move(spec), binder));
  TRY_STATUS(binder.finish(shard->decoder_->spec().unneeded));
  TRY_BIND(const std::vector<LayerCuts> cuts, cut_layers(*shard->decoder_, ranks, ExpertCut::kWidth));
  for (const DecoderPart& part : shard->decoder_->parts()) {
    if (part.matrix == nullptr || part.op == "embed") continue;
    PartCut cut;
    if (part.layer >= 0) {
      const auto layer = static_cast<size_t>(part.layer);
      cut = cut_part(part, shard->decoder_->spec().layers[layer], cuts[layer], static_cast<size_t>(rank));
    }
    TRY_STATUS(shard->pack_part(part, cut));
  }
  return shard;
}

Status LoadedShard::pack_part(const DecoderPart& part, const PartCut& cut) {
  TRY_BIND(const std::vector<QTensor> segments, cut_segments(*part.matrix, cut));
  const bool headless = cut.matrices == 0;
  if (segments.empty() || headless) return {};
  const PackUse use = PlannedBackend::use_of(*part.matrix);
  std::string description = describe(part, segments, use);
  if (std::ranges::find(seen_, description) != seen_.end()) return {};
  seen_.push_back(std::move(description));
  TRY_BIND(std::shared_ptr<const PackedMatrix> packed, backend_->pack(segments, use));
  parts_.push_back(part);
  parts_.back().matrix = packed.get();
  matrices_.push_back(std::move(packed));
  return {};
}

}  // namespace vernier
