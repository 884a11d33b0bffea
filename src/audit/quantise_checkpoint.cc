#include "audit/quantise_checkpoint.h"

#include <algorithm>
#include <filesystem>

#include "audit/model_writer.h"
#include "audit/output_place.h"
#include "base/unfinished_output.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/scale_tensor.h"
#include "models/encoder.h"
#include "models/registry.h"
#include "ops/null_backend.h"

namespace vernier {

namespace {

namespace fs = std::filesystem;

bool names_gguf(const std::string& out) {
  return fs::path(out).extension() == ".gguf";
}

/// Quantises each weight and hands it to the writer, with a record of what it lost.
class WeightStream {
 public:
  WeightStream(const Checkpoint& checkpoint, const QuantiseJob& job, const WeightQuantiser& quantiser,
               ModelWriter& writer)
      : checkpoint_(checkpoint), job_(job), quantiser_(quantiser), writer_(writer) {}

  Status take(std::span<const WeightPart> parts, PackUse use, std::vector<QTensor>& segments) {
    const std::vector<QTensor> before = segments;
    TRY_STATUS(quantiser_.apply(parts, use, segments));
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!quantiser_.takes(parts[i].name, use)) {
        TRY_BIND(Codec kept, writer_.kept_codec(segments[i], use));
        TRY_BIND(segments[i], quantise(segments[i], kept, {0, job_.request.threads}));
      }
      TRY_STATUS(put(parts[i], before[i], segments[i]));
    }
    return {};
  }

  QuantiseSummary summary;
  std::vector<std::string> too_lossy;

 private:
  Status put(const WeightPart& part, const QTensor& before, const QTensor& after) {
    const StoredTensor* stored = find_codes(checkpoint_, part.name);
    TRY_STATUS(writer_.matrix(part, *stored, after));
    if (before.codec() == after.codec()) return {};
    QuantisedMatrix entry{part.name,
                          std::string(before.codec().name),
                          std::string(after.codec().name),
                          after.rows(),
                          after.cols(),
                          static_cast<int64_t>(after.stored_bytes()),
                          measure_loss(before, after, job_.request.threads)};
    summary.all.signal += entry.loss.signal;
    summary.all.noise += entry.loss.noise;
    if (entry.loss.snr_db() < job_.min_snr_db) {
      too_lossy.push_back(fmt::format("{} {:.2f} dB (worst block {:.2f} dB at [{}, {}])", printable(part.name),
                                      entry.loss.snr_db(), entry.loss.worst_db, entry.loss.worst_row,
                                      entry.loss.worst_col));
    }
    summary.matrices.push_back(std::move(entry));
    return {};
  }

  const Checkpoint& checkpoint_;
  const QuantiseJob& job_;
  const WeightQuantiser& quantiser_;
  ModelWriter& writer_;
};

Error below_bound(const std::vector<std::string>& too_lossy, double bound) {
  constexpr size_t kShown = 8;
  std::string list;
  for (size_t i = 0; i < std::min(too_lossy.size(), kShown); ++i) list += (i == 0 ? "" : "; ") + too_lossy[i];
  if (too_lossy.size() > kShown) list += fmt::format("; and {} more", too_lossy.size() - kShown);
  return make_error(ErrorCode::kInternal, "nothing is written: {} matrices fall below --min-snr {:g} dB: {}",
                    too_lossy.size(), bound, list);
}

Result<QuantiseSummary> write_to(const fs::path& partial, const Checkpoint& checkpoint, const QuantiseJob& job) {
  TRY_BIND(WeightQuantiser quantiser, WeightQuantiser::make(checkpoint, job.request));
  TRY_BIND(std::unique_ptr<ModelWriter> writer, names_gguf(job.out)
                                                    ? make_gguf_writer(checkpoint, job, partial.string())
                                                    : make_folder_writer(checkpoint, job, partial.string()));
  WeightStream stream(checkpoint, job, quantiser, *writer);
  TRY_BIND(LoadReport report, stream_weights(
                                  checkpoint,
                                  [&](std::span<const WeightPart> parts, PackUse use, std::vector<QTensor>& segments) {
                                    return stream.take(parts, use, segments);
                                  },
                                  job.on_progress));
  if (!stream.too_lossy.empty()) return below_bound(stream.too_lossy, job.min_snr_db);
  TRY_STATUS(writer->others(report));
  TRY_STATUS(writer->finish());
  stream.summary.source_bytes = report.stored_bytes();
  stream.summary.written_bytes = writer->written_bytes();
  stream.summary.notes = report.warnings;
  return std::move(stream.summary);
}

}  // namespace

Result<LoadReport> stream_weights(const Checkpoint& checkpoint, CheckpointBinder::Rewrite rewrite,
                                  std::function<void(const BindProgress&)> on_progress) {
  NullBackend nothing;
  CheckpointBinder binder(checkpoint, nothing, std::move(on_progress));
  binder.rewrite_with(std::move(rewrite));
  TRY_BIND(Config config, checkpoint.config());
  if (names_encoder(config)) {
    TRY_BIND(EncoderSpec spec, read_encoder(config));
    TRY_BIND(Encoder encoder, Encoder::bind(std::move(spec), binder));
    TRY_STATUS(binder.finish(Encoder::unneeded_tensors()));
  } else {
    TRY_BIND(DecoderSpec spec, read_decoder(config));
    TRY_BIND(Decoder decoder, Decoder::bind(std::move(spec), binder));
    TRY_STATUS(binder.finish(decoder.spec().unneeded));
  }
  return binder.report();
}

Result<QuantiseSummary> quantise_checkpoint(const Checkpoint& checkpoint, const QuantiseJob& job) {
  TRY_BIND(const OutputPlace place, OutputPlace::make(job.out, checkpoint, job.overwrite));
  TRY_STATUS(place.make_parent());
  TRY_BIND(const auto unfinished, UnfinishedOutput::begin(place.partial()));
  TRY_BIND(QuantiseSummary summary, write_to(place.partial(), checkpoint, job));
  TRY_STATUS(unfinished->put([&] { return place.put(); }));
  return summary;
}

}  // namespace vernier
