#include <array>
#include <charconv>
#include <map>
#include <set>

#include "audit/gguf_blocks_of.h"
#include "audit/gguf_model_keys.h"
#include "audit/gguf_output.h"
#include "audit/model_writer.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/scale_tensor.h"
#include "models/registry.h"

namespace vernier {

namespace {

/// Where numbers go: a tensor of their own, or the place of an expert in the stack of its layer.
struct Destination {
  std::string tensor;  // in Hugging Face spelling
  std::optional<size_t> expert;
};

/// "...mlp.experts.gate_proj.weight" and 7 of "...block_sparse_moe.experts.7.w1" and ".weight".
Destination destination_of(std::string module, std::string_view end) {
  constexpr std::string_view kMixtral = ".block_sparse_moe.", kExperts = ".experts.";
  if (const size_t at = module.find(kMixtral); at != std::string::npos) module.replace(at, kMixtral.size(), ".mlp.");
  const size_t at = module.find(kExperts);
  if (at == std::string::npos) return {fmt::format("{}{}", module, end), {}};
  const std::string rest = module.substr(at + kExperts.size());
  size_t expert = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), expert);
  std::string matrix = rest.substr(rest.find('.') + 1);
  if (matrix == "w1") matrix = "gate_proj";
  if (matrix == "w2") matrix = "down_proj";
  if (matrix == "w3") matrix = "up_proj";
  return {fmt::format("{}{}{}", module.substr(0, at + kExperts.size()), matrix, end), expert};
}

/// Numbers of an expert that are those of its first two matrices, and what those are called.
constexpr std::string_view kGateAndUp = ".experts.gate_up_proj";
constexpr std::array kHalves = {"gate_proj", "up_proj"};

/// Which half, in the place of both.
Destination half_of(const Destination& both, size_t half) {
  const size_t at = both.tensor.find(kGateAndUp) + kGateAndUp.size();
  return {fmt::format("{}{}{}", both.tensor.substr(0, at - std::string_view("gate_up_proj").size()), kHalves[half],
                      both.tensor.substr(at)),
          both.expert};
}

bool is_gate_and_up(const Destination& to) {
  return to.tensor.find(kGateAndUp) != std::string::npos;
}

class GgufConverter final : public ModelWriter {
 public:
  GgufConverter(const Checkpoint& checkpoint, const QuantiseJob& job, std::string partial)
      : checkpoint_(checkpoint), job_(job), output_(std::move(partial)) {}

  Status begin() {
    TRY_STATUS(output_.open());
    TRY_BIND(Config config, checkpoint_.config());
    TRY_BIND(spec_, read_decoder(config));
    family_ = gguf_family_of(spec_);
    if (family_ == nullptr) {
      return unsupported(
          "a model of type {} is written as a folder alone; of folders, llama, mistral, mixtral, qwen2, qwen3, "
          "qwen3_moe, "
          "gemma2, gemma3 and gpt_oss become GGUF files",
          spec_.family);
    }
    TRY_STATUS(check_gguf_can_tell(*family_, spec_));
    for (const LayerSpec& layer : spec_.layers) {
      if (layer.experts) experts_ = layer.experts->experts;
    }
    TRY_STATUS(lay_out());
    GgufMetadata metadata;
    add_model_keys(*family_, spec_, checkpoint_, metadata);
    add_vocabulary_keys(checkpoint_, job_.vocabulary, metadata);
    metadata.add_file_type(job_.request.target);
    return output_.write_head(metadata);
  }

  /// Routers are float32: readers round activations to the type of what they multiply them with.
  Result<Codec> kept_codec(const QTensor& matrix, PackUse use) const override {
    if (use == PackUse::kRouter) return codec(CodecId::kF32);
    return gguf_type_of(matrix.codec()).empty() ? codec(job_.rest) : matrix.codec();
  }

  Status matrix(const WeightPart& part, const StoredTensor&, const QTensor& matrix) override {
    const Destination to = destination_of(part.name, ".weight");
    if (is_gate_and_up(to)) {
      const int64_t half = matrix.rows() / 2;
      for (size_t i = 0; i < kHalves.size(); ++i) {
        const auto first = static_cast<int64_t>(i) * half;
        TRY_BIND(const QTensor rows, matrix.slice_rows(first, first + half));
        TRY_STATUS(write(half_of(to, i), rows));
      }
      return {};
    }
    QTensor rows = matrix;
    if (family_->rope_rows_interleaved && part.rope_heads > 0) {
      TRY_BIND(rows, matrix.permute_rows(interleaved_rows(part.rows, part.rope_heads)));
    }
    return write(to, rows);
  }

  Status others(const LoadReport&) override {
    for (const StoredTensor* tensor : vectors_) TRY_STATUS(write_vector(*tensor));
    if (divisors_.empty()) return {};
    return output_.write(std::string(kRopeFactorsTensor), std::as_bytes(std::span(divisors_)));
  }

  Status finish() override { return output_.finish(); }
  int64_t written_bytes() const override { return output_.tensor_bytes(); }

 private:
  Status write(const Destination& to, const QTensor& rows) {
    TRY_BIND(const std::string name, name_of(to.tensor));
    return output_.write_matrix(name, rows, to.expert.value_or(0));
  }

  /// A tensor, or a whole stack when its first expert is met.
  Status add(const Destination& to, int64_t rows, int64_t cols, const Codec& codec) {
    TRY_BIND(const std::string name, name_of(to.tensor));
    std::vector<int64_t> extents = {rows, cols};
    const int64_t experts = to.expert ? experts_ : 1;
    if (to.expert) extents.insert(extents.begin(), experts);
    if (to.expert.value_or(0) != 0) {
      return stacked_.at(name) == codec ? Status() : stack_in_part(name);
    }
    if (to.expert) stacked_.emplace(name, codec);
    return output_.add_matrix(name, std::move(extents), codec, experts);
  }

  Result<std::string> name_of(std::string tensor) const {
    if (tensor.starts_with(prefix_)) tensor = "model." + tensor.substr(prefix_.size());
    if (std::optional<std::string> name = gguf_tensor_name(*family_, tensor)) return *std::move(name);
    return Error{ErrorCode::kUnsupported, "GGUF files have no name for this tensor", printable(tensor)};
  }

  /// The table of tensors, known before any number is read.
  Status lay_out() {
    for (const std::string& other : spec_.other) {
      if (find_codes(checkpoint_, other + "embed_tokens") != nullptr) prefix_ = other;
    }
    if (find_codes(checkpoint_, spec_.prefix + "embed_tokens") != nullptr) prefix_ = spec_.prefix;
    TRY_BIND(const WeightQuantiser quantiser, WeightQuantiser::make(checkpoint_, job_.request));
    auto choose = [&](std::span<const WeightPart> parts, PackUse use, std::vector<QTensor>& segments) -> Status {
      for (size_t i = 0; i < parts.size(); ++i) {
        const QTensor& segment = segments[i];
        const Result<Codec> codec =
            quantiser.takes(parts[i].name, use) ? quantiser.codec_for(segment.cols()) : kept_codec(segment, use);
        TRY_STATUS(check_gguf_codec(codec, segment.cols(), parts[i].name));
        if (parts[i].halves_alternate) alternating_.insert(parts[i].name);
        const Destination to = destination_of(parts[i].name, ".weight");
        if (!is_gate_and_up(to)) {
          TRY_STATUS(add(to, segment.rows(), segment.cols(), *codec));
          continue;
        }
        for (size_t half = 0; half < kHalves.size(); ++half) {
          TRY_STATUS(add(half_of(to, half), segment.rows() / 2, segment.cols(), *codec));
        }
      }
      return {};
    };
    TRY_BIND(const LoadReport report, stream_weights(checkpoint_, choose, nullptr));
    for (size_t i = 0; i < report.tensors.size(); ++i) {
      const StoredTensor& tensor = checkpoint_.tensors()[i];
      if (report.tensors[i].use == TensorUse::kCacheScale) {
        return Error{ErrorCode::kUnsupported, "GGUF files have no place for scales of the cache",
                     printable(tensor.name)};
      }
      if (report.tensors[i].use != TensorUse::kVector) continue;
      TRY_STATUS(add_vector(tensor));
      vectors_.push_back(&tensor);
    }
    return add_divisors();
  }

  /// "model.norm.weight", and ".bias" of a module.
  static Destination vector_destination(const StoredTensor& tensor) {
    const size_t dot = tensor.name.rfind('.');
    return destination_of(tensor.name.substr(0, dot), tensor.name.substr(dot));
  }

  Status add_vector(const StoredTensor& tensor) {
    const Destination to = vector_destination(tensor);
    if (to.expert.value_or(0) != 0) return {};
    std::vector<int64_t> extents = tensor.extents;
    if (is_gate_and_up(to)) extents.back() /= 2;
    if (to.expert) extents.insert(extents.begin(), experts_);
    for (size_t half = 0; half < (is_gate_and_up(to) ? kHalves.size() : 1); ++half) {
      TRY_BIND(const std::string name, name_of(is_gate_and_up(to) ? half_of(to, half).tensor : to.tensor));
      TRY_STATUS(output_.add(name, extents, "F32"));
    }
    return {};
  }

  /// A norm, a bias, sinks.
  Status write_vector(const StoredTensor& tensor) {
    const Destination to = vector_destination(tensor);
    TRY_BIND(std::vector<float> values, read_floats(tensor));
    auto put = [&](const Destination& place, std::span<const float> numbers) -> Status {
      TRY_BIND(const std::string name, name_of(place.tensor));
      return output_.write(name, std::as_bytes(numbers), place.expert.value_or(0));
    };
    auto reorder = [&](const std::vector<int64_t>& order) {
      const std::vector<float> own = values;
      for (size_t i = 0; i < values.size(); ++i) values[i] = own[static_cast<size_t>(order[i])];
    };
    const auto count = static_cast<int64_t>(values.size());
    if (is_gate_and_up(to)) {
      if (alternating_.contains(tensor.name.substr(0, tensor.name.rfind('.')))) reorder(halves_apart(count));
      const size_t half = values.size() / 2;
      TRY_STATUS(put(half_of(to, 0), std::span(values).first(half)));
      return put(half_of(to, 1), std::span(values).last(half));
    }
    const int64_t heads = tensor.name.ends_with("q_proj.bias")   ? spec_.layers[0].attn.heads
                          : tensor.name.ends_with("k_proj.bias") ? spec_.layers[0].attn.kv_heads
                                                                 : 0;
    if (family_->rope_rows_interleaved && heads > 0) reorder(interleaved_rows(count, heads));
    const bool holds_one = family_->norms_hold_one && tensor.name.ends_with("norm.weight");
    const float factor = tensor.name.ends_with(".q_norm.weight") ? query_factor(spec_) : 1;
    for (float& value : values) value = factor * (holds_one ? value + 1 : value);
    return put(to, values);
  }

  /// What each pair's frequency is divided by, where scaling is more than one factor.
  Status add_divisors() {
    const RopeSpec& rope = leading_attention(spec_).rope;
    if (!std::holds_alternative<RopeLlama3>(rope.scaling)) return {};
    RopeSpec plain = rope;
    plain.scaling = RopePlain{};
    const std::vector<float> before = plain.frequencies(), after = rope.frequencies();
    for (size_t i = 0; i < before.size(); ++i) divisors_.push_back(before[i] / after[i]);
    return output_.add(std::string(kRopeFactorsTensor), {static_cast<int64_t>(divisors_.size())}, "F32");
  }

  const Checkpoint& checkpoint_;
  const QuantiseJob& job_;
  GgufOutput output_;
  DecoderSpec spec_;
  const GgufFamily* family_ = nullptr;
  std::string prefix_ = "model.";                      // of the checkpoint's names
  int64_t experts_ = 0;                                // of a layer
  std::set<std::string, std::less<>> alternating_;     // modules whose rows of gate and up take turns
  std::map<std::string, Codec, std::less<>> stacked_;  // stacks of experts, by name in the file
  std::vector<const StoredTensor*> vectors_;
  std::vector<float> divisors_;
};

}  // namespace

Result<std::unique_ptr<ModelWriter>> make_gguf_converter(const Checkpoint& checkpoint, const QuantiseJob& job,
                                                         std::string partial) {
  auto writer = std::make_unique<GgufConverter>(checkpoint, job, std::move(partial));
  TRY_STATUS(writer->begin());
  return std::unique_ptr<ModelWriter>(std::move(writer));
}

}  // namespace vernier
