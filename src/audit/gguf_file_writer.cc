#include <algorithm>
#include <map>

#include "audit/gguf_blocks_of.h"
#include "audit/gguf_output.h"
#include "audit/model_writer.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/expert_stacks.h"
#include "checkpoint/gguf_parts.h"

namespace vernier {

namespace {

class GgufFileWriter final : public ModelWriter {
 public:
  GgufFileWriter(const Checkpoint& checkpoint, std::string partial)
      : checkpoint_(checkpoint), output_(std::move(partial)) {}

  Status begin(const QuantiseJob& job) {
    TRY_STATUS(output_.open());
    TRY_BIND(parts_, GgufParts::open(checkpoint_.path()));
    TRY_STATUS(choose_codecs(job.request));
    TRY_STATUS(lay_out());
    return write_head(job.request.target);
  }

  Result<Codec> kept_codec(const QTensor& matrix, PackUse) const override { return matrix.codec(); }

  Status matrix(const WeightPart& part, const StoredTensor& stored, const QTensor& matrix) override {
    const std::string name = stack_of(stored);
    const size_t place = place_in_stack(stored);
    if (!changed_.contains(name)) return {};
    QTensor rows = matrix;
    if (checkpoint_.dialect().rope_rows_interleaved && part.rope_heads > 0) {
      TRY_BIND(rows, matrix.permute_rows(interleaved_rows(part.rows, part.rope_heads)));
    }
    return output_.write_matrix(name, rows, place);
  }

  Status others(const LoadReport&) override {
    for (const auto& [name, source] : sources_) {
      if (changed_.contains(name)) continue;
      // Experts of a stack lie side by side.
      const size_t bytes = source.tensor->bytes.size() * static_cast<size_t>(source.count);
      TRY_STATUS(output_.write(name, {source.tensor->bytes.data(), bytes}));
      source.tensor->data().release_pages();
    }
    return {};
  }

  Status finish() override { return output_.finish(); }
  int64_t written_bytes() const override { return output_.tensor_bytes(); }

 private:
  /// Which tensors will change and to what, known before any number is read.
  Status choose_codecs(const QuantiseRequest& request) {
    TRY_BIND(WeightQuantiser quantiser, WeightQuantiser::make(checkpoint_, request));
    Status refused;
    auto choose = [&](std::span<const WeightPart> parts, PackUse use, std::vector<QTensor>& segments) -> Status {
      for (size_t i = 0; i < parts.size(); ++i) {
        if (!quantiser.takes(parts[i].name, use)) continue;
        const StoredTensor* stored = find_codes(checkpoint_, parts[i].name);
        Result<Codec> codec = quantiser.codec_for(segments[i].cols());
        TRY_STATUS(check_gguf_codec(codec, segments[i].cols(), parts[i].name));
        if (segments[i].codec() == *codec) continue;
        changed_.emplace(stack_of(*stored), *codec);
        ++matrices_[stack_of(*stored)];
      }
      return {};
    };
    TRY_BIND(LoadReport ignored, stream_weights(checkpoint_, choose, nullptr));
    return {};
  }

  Status lay_out() {
    std::map<std::string, int64_t, std::less<>> experts;  // of each stack; 1 of a tensor by itself
    for (const StoredTensor& tensor : checkpoint_.tensors()) ++experts[stack_of(tensor)];
    for (const StoredTensor& tensor : checkpoint_.tensors()) {
      if (place_in_stack(tensor) == 0 && !loses_its_weight(tensor)) TRY_STATUS(add_tensor(tensor, experts));
    }
    return {};
  }

  /// Scales of codes that are made anew.
  bool loses_its_weight(const StoredTensor& tensor) const {
    const std::string name = stack_of(tensor);
    const size_t dot = name.rfind('.');
    const bool is_scale = name.ends_with(".scale") || name.ends_with(".input_scale");
    return is_scale && changed_.contains(name.substr(0, dot) + ".weight");
  }

  /// A tensor, or the whole stack that this one is the first of.
  Status add_tensor(const StoredTensor& tensor, const std::map<std::string, int64_t, std::less<>>& experts) {
    const std::string name = stack_of(tensor);
    const int64_t count = experts.at(name);
    const auto found = changed_.find(name);
    if (found != changed_.end() && matrices_.at(name) != count) return stack_in_part(name);
    std::vector<int64_t> extents = tensor.extents;
    if (is_of_stack(tensor)) extents.insert(extents.begin(), count);
    sources_.push_back({name, {&tensor, count}});
    if (found == changed_.end()) return output_.add(name, std::move(extents), tensor.type);
    return output_.add_matrix(name, std::move(extents), found->second, count);
  }

  Status write_head(const QuantTarget& target) {
    GgufMetadata metadata;
    for (const auto& [key, value] : parts_->first().metadata()) {
      const bool is_own = key == "general.file_type" || key == "general.quantization_version" ||
                          key == "general.alignment" || key.starts_with("split.");
      if (!is_own) metadata.add(key, value);
    }
    metadata.add_file_type(target);
    return output_.write_head(metadata);
  }

  /// One tensor of the file as the source has it, or the first of a stack.
  struct Source {
    const StoredTensor* tensor;
    int64_t count;
  };

  const Checkpoint& checkpoint_;
  std::shared_ptr<const GgufParts> parts_;
  std::map<std::string, Codec, std::less<>> changed_;     // by name in the file
  std::map<std::string, int64_t, std::less<>> matrices_;  // that change in each of those
  std::vector<std::pair<std::string, Source>> sources_;   // by name in the file
  GgufOutput output_;
};

}  // namespace

Result<std::unique_ptr<ModelWriter>> make_gguf_writer(const Checkpoint& checkpoint, const QuantiseJob& job,
                                                      std::string partial) {
  if (gguf_type_of(job.request.target.codec).empty()) {
    return invalid_argument("--to {}: GGUF files hold no such format; give --out a folder", job.request.target.name);
  }
  if (!checkpoint.dialect().format.starts_with("GGUF")) return make_gguf_converter(checkpoint, job, std::move(partial));
  auto writer = std::make_unique<GgufFileWriter>(checkpoint, std::move(partial));
  TRY_STATUS(writer->begin(job));
  return std::unique_ptr<ModelWriter>(std::move(writer));
}

}  // namespace vernier
