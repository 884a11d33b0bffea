#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include "audit/gguf_blocks_of.h"
#include "audit/gguf_output.h"
#include "audit/model_writer.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_names.h"
#include "checkpoint/scale_tensor.h"
#include "models/registry.h"

namespace vernier {

namespace {

/// The architecture under which GGUF files hold a family; empty where none is written.
std::string_view architecture_of(const std::string& family) {
  if (family == "llama" || family == "mistral" || family == "mixtral") return "llama";
  if (family == "qwen3_moe") return "qwen3moe";
  if (family == "qwen2" || family == "qwen3") return family == "qwen2" ? "qwen2" : "qwen3";
  return {};
}

/// Where a matrix goes: a tensor of its own, or the place of an expert in the stack of its layer.
struct Destination {
  std::string tensor;  // in Hugging Face spelling
  std::optional<size_t> expert;
};

/// "...mlp.experts.gate_proj.weight" and 7 of "...block_sparse_moe.experts.7.w1".
Destination destination_of(std::string module) {
  constexpr std::string_view kMixtral = ".block_sparse_moe.", kExperts = ".experts.";
  if (const size_t at = module.find(kMixtral); at != std::string::npos) module.replace(at, kMixtral.size(), ".mlp.");
  const size_t at = module.find(kExperts);
  if (at == std::string::npos) return {module + ".weight", {}};
  const std::string rest = module.substr(at + kExperts.size());
  size_t expert = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), expert);
  std::string matrix = rest.substr(rest.find('.') + 1);
  if (matrix == "w1") matrix = "gate_proj";
  if (matrix == "w2") matrix = "down_proj";
  if (matrix == "w3") matrix = "up_proj";
  return {module.substr(0, at + kExperts.size()) + matrix + ".weight", expert};
}

/// A matrix of an expert that holds both of its first two, as those.
constexpr std::string_view kGateAndUp = ".experts.gate_up_proj.weight";

class GgufConverter final : public ModelWriter {
 public:
  GgufConverter(const Checkpoint& checkpoint, const QuantiseJob& job, std::string partial)
      : checkpoint_(checkpoint), job_(job), output_(std::move(partial)) {}

  Status begin() {
    TRY_STATUS(output_.open());
    TRY_BIND(Config config, checkpoint_.config());
    TRY_BIND(spec_, read_decoder(config));
    family_ = gguf_family(architecture_of(spec_.family));
    if (family_ == nullptr) {
      return unsupported(
          "a model of type {} is written as a folder alone; of folders, llama, mistral, mixtral, qwen2, qwen3 and "
          "qwen3_moe become GGUF files",
          spec_.family);
    }
    TRY_STATUS(check_window());
    TRY_STATUS(check_experts());
    TRY_STATUS(lay_out());
    GgufMetadata metadata;
    add_model(metadata);
    add_vocabulary(metadata);
    metadata.add_file_type(job_.request.target);
    return output_.write_head(metadata);
  }

  Result<Codec> kept_codec(const QTensor& matrix) const override {
    return gguf_type_of(matrix.codec()).empty() ? codec(job_.rest) : matrix.codec();
  }

  Status matrix(const WeightPart& part, const StoredTensor&, const QTensor& matrix) override {
    const Destination to = destination_of(part.name);
    if (to.tensor.ends_with(kGateAndUp)) {
      const int64_t half = matrix.rows() / 2;
      TRY_BIND(const QTensor gate, matrix.slice_rows(0, half));
      TRY_STATUS(write({half_of(to.tensor, "gate_proj"), to.expert}, gate));
      TRY_BIND(const QTensor up, matrix.slice_rows(half, 2 * half));
      return write({half_of(to.tensor, "up_proj"), to.expert}, up);
    }
    QTensor rows = matrix;
    if (family_->rope_rows_interleaved && part.rope_heads > 0) {
      TRY_BIND(rows, matrix.permute_rows(interleaved_rows(part.rows, part.rope_heads)));
    }
    return write(to, rows);
  }

  Status others(const LoadReport&) override {
    for (const StoredTensor* tensor : vectors_) {
      TRY_BIND(const std::string name, name_of(tensor->name));
      TRY_BIND(std::vector<float> values, read_floats(*tensor));
      const int64_t heads = tensor->name.ends_with("q_proj.bias")   ? spec_.layers[0].attn.heads
                            : tensor->name.ends_with("k_proj.bias") ? spec_.layers[0].attn.kv_heads
                                                                    : 0;
      if (family_->rope_rows_interleaved && heads > 0) {
        const std::vector<float> own = values;
        const std::vector<int64_t> order = interleaved_rows(static_cast<int64_t>(own.size()), heads);
        for (size_t i = 0; i < own.size(); ++i) values[i] = own[static_cast<size_t>(order[i])];
      }
      TRY_STATUS(output_.write(name, std::as_bytes(std::span(values))));
    }
    if (divisors_.empty()) return {};
    return output_.write(std::string(kRopeFactorsTensor), std::as_bytes(std::span(divisors_)));
  }

  Status finish() override { return output_.finish(); }
  int64_t written_bytes() const override { return output_.tensor_bytes(); }

 private:
  static std::string half_of(const std::string& both, const char* half) {
    return fmt::format("{}.experts.{}.weight", both.substr(0, both.size() - kGateAndUp.size()), half);
  }

  Status write(const Destination& to, const QTensor& rows) {
    TRY_BIND(const std::string name, name_of(to.tensor));
    return output_.write_matrix(name, rows, to.expert.value_or(0));
  }

  /// A tensor, or a whole stack when its first expert is met.
  Status add(const Destination& to, int64_t rows, int64_t cols, const Codec& codec) {
    TRY_BIND(const std::string name, name_of(to.tensor));
    std::vector<int64_t> extents = {rows, cols};
    const int64_t experts = to.expert ? experts_->experts : 1;
    if (to.expert) extents.insert(extents.begin(), experts);
    if (to.expert.value_or(0) != 0) {
      return stacked_.at(name) == codec ? Status() : stack_in_part(name);
    }
    if (to.expert) stacked_.emplace(name, codec);
    return output_.add_matrix(name, std::move(extents), codec, experts);
  }

  Result<std::string> name_of(const std::string& tensor) const {
    if (std::optional<std::string> name = gguf_tensor_name(*family_, tensor)) return *std::move(name);
    return Error{ErrorCode::kUnsupported, "GGUF files have no name for this tensor", printable(tensor)};
  }

  /// One window for all layers, or none.
  Status check_window() const {
    for (const LayerSpec& layer : spec_.layers) {
      const bool fits = layer.attn.window == spec_.layers[0].attn.window;
      if (fits && (!layer.attn.window || spec_.family == "mistral" || spec_.family == "mixtral")) continue;
      return unsupported("layers of {} with windows of their own are not written into GGUF files", spec_.family);
    }
    return {};
  }

  /// The same in all layers that have any, of a kind that these files can tell of.
  Status check_experts() {
    for (const LayerSpec& layer : spec_.layers) {
      if (!layer.experts) continue;
      if (!layer.experts->normalize) {
        return unsupported("weights of experts whose sum is not 1 (norm_topk_prob) are not written into GGUF files");
      }
      experts_ = layer.experts;
    }
    return {};
  }

  /// The table of tensors, known before any number is read.
  Status lay_out() {
    TRY_BIND(const WeightQuantiser quantiser, WeightQuantiser::make(checkpoint_, job_.request));
    auto choose = [&](std::span<const WeightPart> parts, PackUse use, std::vector<QTensor>& segments) -> Status {
      for (size_t i = 0; i < parts.size(); ++i) {
        const QTensor& segment = segments[i];
        const Result<Codec> codec =
            quantiser.takes(parts[i].name, use) ? quantiser.codec_for(segment.cols()) : kept_codec(segment);
        TRY_STATUS(check_gguf_codec(codec, segment.cols(), parts[i].name));
        const Destination to = destination_of(parts[i].name);
        if (!to.tensor.ends_with(kGateAndUp)) {
          TRY_STATUS(add(to, segment.rows(), segment.cols(), *codec));
          continue;
        }
        for (const char* half : {"gate_proj", "up_proj"}) {
          TRY_STATUS(add({half_of(to.tensor, half), to.expert}, segment.rows() / 2, segment.cols(), *codec));
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
      TRY_BIND(const std::string name, name_of(tensor.name));
      TRY_STATUS(output_.add(name, tensor.extents, "F32"));
      vectors_.push_back(&tensor);
    }
    return add_divisors();
  }

  /// What each pair's frequency is divided by, where scaling is more than one factor.
  Status add_divisors() {
    const RopeSpec& rope = spec_.layers[0].attn.rope;
    if (std::holds_alternative<RopeYarn>(rope.scaling)) {
      return unsupported("rope scaled by YaRN is not written into GGUF files");
    }
    if (!std::holds_alternative<RopeLlama3>(rope.scaling)) return {};
    RopeSpec plain = rope;
    plain.scaling = RopePlain{};
    const std::vector<float> before = plain.frequencies(), after = rope.frequencies();
    for (size_t i = 0; i < before.size(); ++i) divisors_.push_back(before[i] / after[i]);
    return output_.add(std::string(kRopeFactorsTensor), {static_cast<int64_t>(divisors_.size())}, "F32");
  }

  void add_model(GgufMetadata& metadata) const {
    const std::string architecture(family_->architecture);
    const AttnSpec& attn = spec_.layers[0].attn;
    auto number = [&](const char* key, int64_t value) {
      metadata.u32(fmt::format("{}.{}", architecture, key), static_cast<uint32_t>(value));
    };
    metadata.text("general.architecture", architecture);
    metadata.text("general.type", "model");
    std::filesystem::path source(checkpoint_.path());
    metadata.text("general.name", (source.has_filename() ? source : source.parent_path()).filename().string());
    number("block_count", std::ssize(spec_.layers));
    number("context_length", spec_.max_positions);
    number("embedding_length", spec_.hidden);
    int64_t ffn = 0;
    for (const LayerSpec& layer : spec_.layers) ffn = std::max(ffn, layer.ffn);
    number("feed_forward_length", ffn > 0 ? ffn : experts_->width);
    if (experts_) {
      number("expert_count", experts_->experts);
      number("expert_used_count", experts_->chosen);
      if (spec_.family != "mixtral") number("expert_feed_forward_length", experts_->width);
    }
    number("vocab_size", spec_.vocab);
    number("attention.head_count", attn.heads);
    number("attention.head_count_kv", attn.kv_heads);
    number("attention.key_length", attn.head_dim);
    number("attention.value_length", attn.head_dim);
    number("rope.dimension_count", attn.rope.dim);
    if (attn.window) number("attention.sliding_window", *attn.window);
    metadata.f32(architecture + ".attention.layer_norm_rms_epsilon", spec_.norm_eps);
    metadata.f32(architecture + ".rope.freq_base", static_cast<float>(attn.rope.base));
    if (const auto* linear = std::get_if<RopeLinear>(&attn.rope.scaling)) {
      metadata.text(architecture + ".rope.scaling.type", "linear");
      metadata.f32(architecture + ".rope.scaling.factor", static_cast<float>(linear->factor));
    }
    const GenerationDefaults& advised = checkpoint_.generation();
    auto sampling = [&](const char* key, const std::optional<double>& value) {
      if (value) metadata.f32(fmt::format("general.sampling.{}", key), static_cast<float>(*value));
    };
    sampling("temp", advised.temperature);
    sampling("top_p", advised.top_p);
    sampling("min_p", advised.min_p);
    sampling("penalty_repeat", advised.repetition_penalty);
    if (advised.top_k) metadata.i32("general.sampling.top_k", *advised.top_k);
  }

  void add_vocabulary(GgufMetadata& metadata) const {
    for (const StoredTemplate& stored : checkpoint_.chat_templates()) {
      const std::string key = stored.name == "default" ? "" : "." + stored.name;
      metadata.text("tokenizer.chat_template" + key, stored.text);
    }
    if (!job_.vocabulary) return;
    const GgufVocabulary& of = *job_.vocabulary;
    metadata.text("tokenizer.ggml.model", of.model);
    metadata.text("tokenizer.ggml.pre", of.pre);
    metadata.texts("tokenizer.ggml.tokens", of.tokens);
    metadata.i32s("tokenizer.ggml.token_type", of.token_types);
    metadata.texts("tokenizer.ggml.merges", of.merges);
    auto id = [&](const char* key, const std::optional<int64_t>& value) {
      if (value) metadata.u32(fmt::format("tokenizer.ggml.{}_token_id", key), static_cast<uint32_t>(*value));
    };
    id("bos", of.bos);
    id("eos", of.eos);
    // GGUF files have names for two further tokens that end an answer.
    size_t further = 0;
    for (int32_t end : checkpoint_.generation().eos_ids) {
      if (end != of.eos && further < 2) id(further++ == 0 ? "eot" : "eom", end);
    }
    if (of.add_bos) metadata.boolean("tokenizer.ggml.add_bos_token", *of.add_bos);
    if (of.add_eos) metadata.boolean("tokenizer.ggml.add_eos_token", *of.add_eos);
  }

  const Checkpoint& checkpoint_;
  const QuantiseJob& job_;
  GgufOutput output_;
  DecoderSpec spec_;
  const GgufFamily* family_ = nullptr;
  std::optional<ExpertsSpec> experts_;                 // of the layers that have any
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
