#include "checkpoint/gguf_config.h"

#include <cstring>
#include <set>

#include "checkpoint/byte_reader.h"

namespace vernier {

namespace {

using Json = nlohmann::json;

/// The keys of one architecture ("llama.block_count" is "block_count" here), each read once or named by `finish`.
class ArchitectureKeys {
 public:
  explicit ArchitectureKeys(const Gguf& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key) const { return file_.find(full(key)) != nullptr; }
  const GgufValue* raw(std::string_view key) { return file_.find(mark(key)); }
  void ignore(std::string_view key) { mark(key); }

  Result<std::optional<int64_t>> integer(std::string_view key) { return file_.integer(mark(key)); }
  Result<std::optional<double>> number(std::string_view key) { return file_.number(mark(key)); }
  Result<std::optional<std::string_view>> text(std::string_view key) { return file_.text(mark(key)); }
  Result<int64_t> required_integer(std::string_view key) {
    TRY_BIND(std::optional<int64_t> value, integer(key));
    if (value) return *value;
    return missing(key);
  }
  Result<double> required_number(std::string_view key) {
    TRY_BIND(std::optional<double> value, number(key));
    if (value) return *value;
    return missing(key);
  }
  /// One number, or one for each layer; several different ones are refused.
  Result<std::optional<int64_t>> same_for_all_layers(std::string_view key) {
    const GgufValue* value = raw(key);
    if (value == nullptr || !value->is_array()) return integer(key);
    std::optional<std::vector<int64_t>> each = value->as_integers();
    if (!each || each->empty()) return error(ErrorCode::kCorrupt, "metadata key {} must hold integers", full(key));
    for (int64_t one : *each) {
      if (one != each->front()) {
        return error(ErrorCode::kUnsupported, "metadata key {} differs between layers, which is not supported",
                     full(key));
      }
    }
    return std::optional<int64_t>(each->front());
  }

  Status finish() const {
    std::string unread;
    for (const auto& [key, value] : file_.metadata()) {
      if (key.substr(0, prefix_.size()) != prefix_ || read_.contains(key)) continue;
      unread += fmt::format("{}{}", unread.empty() ? "" : ", ", printable(key));
    }
    if (unread.empty()) return {};
    return error(ErrorCode::kUnsupported, "unknown metadata, may change arithmetic: {}", unread);
  }

  template <class... Args>
  Error error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) const {
    return Error{code, fmt::format(format, std::forward<Args>(args)...), file_.path()};
  }

 private:
  const std::string& mark(std::string_view key) { return *read_.insert(full(key)).first; }
  Error missing(std::string_view key) const {
    return error(ErrorCode::kCorrupt, "metadata key {} is missing; the model cannot be built without it", full(key));
  }

  const Gguf& file_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
};

/// Rows of the embedding table are the vocabulary; every other source must agree with them.
Result<int64_t> vocabulary_size(ArchitectureKeys& keys, const GgufParts& parts) {
  const GgufTensor* embedding = parts.find("token_embd.weight");
  if (embedding == nullptr) {
    return keys.error(ErrorCode::kCorrupt, "tensor token_embd.weight is missing: this file holds no language model");
  }
  auto rows = static_cast<int64_t>(embedding->extents[1]);
  TRY_BIND(std::optional<int64_t> said, keys.integer("vocab_size"));
  if (said && *said != rows) {
    return keys.error(ErrorCode::kCorrupt, "{} is {}, but token_embd.weight has {} rows", keys.full("vocab_size"),
                      *said, rows);
  }
  const GgufValue* tokens = parts.first().find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->is_array() && static_cast<int64_t>(tokens->count()) > rows) {
    return keys.error(ErrorCode::kCorrupt, "tokenizer.ggml.tokens has {} entries, but token_embd.weight has {} rows",
                      tokens->count(), rows);
  }
  return rows;
}

Result<int64_t> head_dimension(ArchitectureKeys& keys, int64_t hidden, int64_t heads) {
  TRY_BIND(std::optional<int64_t> key_length, keys.integer("attention.key_length"));
  TRY_BIND(std::optional<int64_t> value_length, keys.integer("attention.value_length"));
  if (heads < 1 || (!key_length && hidden % heads != 0)) {
    return keys.error(ErrorCode::kCorrupt, "{} heads do not divide {} columns, and there is no attention.key_length",
                      heads, hidden);
  }
  int64_t dim = key_length.value_or(hidden / heads);
  if (value_length.value_or(dim) != dim) {
    return keys.error(ErrorCode::kUnsupported, "keys of {} numbers with values of {} are not supported", dim,
                      *value_length);
  }
  TRY_BIND(std::optional<int64_t> rotated, keys.integer("rope.dimension_count"));
  if (rotated.value_or(dim) != dim) {
    return keys.error(ErrorCode::kUnsupported, "rope over {} of a head's {} numbers is not supported", *rotated, dim);
  }
  return dim;
}

Result<Json> rope_factors(const ArchitectureKeys& keys, const GgufTensor& tensor) {
  if (tensor.type->name != "F32" || tensor.rank != 1) {
    return keys.error(ErrorCode::kUnsupported, "tensor {} must be one row of F32, found {} of rank {}",
                      kRopeFactorsTensor, tensor.type->name, tensor.rank);
  }
  Json factors = Json::array();
  for (size_t i = 0; i < tensor.elements(); ++i) {
    float factor = 0;
    std::memcpy(&factor, tensor.bytes.data() + i * sizeof(float), sizeof(float));
    factors.push_back(factor);
  }
  return Json{{"rope_type", "frequency_factors"}, {"factors", std::move(factors)}};
}

/// `rope_scaling` in Hugging Face spelling, null where nothing is scaled.
Result<Json> rope_scaling(ArchitectureKeys& keys, const GgufParts& parts) {
  TRY_BIND(std::optional<std::string_view> type, keys.text("rope.scaling.type"));
  TRY_BIND(std::optional<double> factor, keys.number("rope.scaling.factor"));
  TRY_BIND(std::optional<double> older_factor, keys.number("rope.scale_linear"));
  TRY_BIND(std::optional<int64_t> original, keys.integer("rope.scaling.original_context_length"));
  keys.ignore("rope.scaling.finetuned");
  if (factor && older_factor && *factor != *older_factor) {
    return keys.error(ErrorCode::kCorrupt, "rope.scaling.factor is {} and rope.scale_linear is {}", *factor,
                      *older_factor);
  }
  if (!factor) factor = older_factor;
  // A factor without a type scales linearly; 0 and 1 stand for none.
  std::string_view kind = type.value_or(factor.value_or(0) > 0 && factor != 1.0 ? "linear" : "none");
  const GgufTensor* factors = parts.find(kRopeFactorsTensor);
  if (factors != nullptr) {
    if (kind != "none") {
      return keys.error(ErrorCode::kUnsupported, "rope scaling '{}' together with tensor {} is not supported",
                        printable(kind), kRopeFactorsTensor);
    }
    return rope_factors(keys, *factors);
  }
  if (kind == "none") return Json();
  Json scaling = {{"rope_type", kind}};
  if (factor) scaling["factor"] = *factor;
  // Linear scaling does not depend on it; the other kinds are refused by name where the model is read.
  if (original && kind != "linear") scaling["original_max_position_embeddings"] = *original;
  return scaling;
}

/// Converters write Mistral as architecture `llama`; its window tells them apart.
Status add_mistral(ArchitectureKeys& keys, Json& config) {
  TRY_BIND(std::optional<int64_t> window, keys.integer("attention.sliding_window"));
  if (window.value_or(0) == 0) return {};
  if (*window < 0) return keys.error(ErrorCode::kCorrupt, "attention.sliding_window is {}", *window);
  if (config["attention_bias"] == true || config["mlp_bias"] == true) {
    return keys.error(ErrorCode::kUnsupported, "attention.sliding_window together with biases is not supported");
  }
  config.erase("mlp_bias");
  config["model_type"] = "mistral";
  config["sliding_window"] = *window;
  return {};
}

/// Gemma 3's converter leaves out what every Gemma 3 has in common.
Status add_gemma3(ArchitectureKeys& keys, Json& config) {
  TRY_BIND(std::optional<int64_t> window, keys.integer("attention.sliding_window"));
  if (window.value_or(0) < 1)
    return keys.error(ErrorCode::kCorrupt, "attention.sliding_window is missing or not positive");
  config["sliding_window"] = *window;
  TRY_BIND(std::optional<double> local_base, keys.number("rope.freq_base_swa"));
  config["rope_local_base_freq"] = local_base.value_or(10000.0);
  const GgufValue* pattern = keys.raw("attention.sliding_window_pattern");
  if (pattern != nullptr && pattern->is_array()) {
    Json types = Json::array();
    std::span<const std::byte> slides = pattern->elements(GgufType::kBool);
    for (std::byte slide : slides) types.push_back(slide != std::byte{0} ? "sliding_attention" : "full_attention");
    config["layer_types"] = std::move(types);
  } else {
    TRY_BIND(std::optional<int64_t> period, keys.integer("attention.sliding_window_pattern"));
    config["sliding_window_pattern"] = period.value_or(6);
  }
  // The 27B model alone scales queries by columns per head, not by the head's own size.
  constexpr int64_t kLayersOf27B = 62;
  auto hidden = config["hidden_size"].get<int64_t>();
  bool by_columns = config["num_hidden_layers"] == kLayersOf27B;
  config["query_pre_attn_scalar"] =
      by_columns ? hidden / config["num_attention_heads"].get<int64_t>() : config["head_dim"].get<int64_t>();
  TRY_BIND(std::optional<double> cap, keys.number("final_logit_softcapping"));
  if (cap.value_or(0) != 0) config["final_logit_softcapping"] = *cap;
  return {};
}

/// Experts, other directions of attention and the like: allowed only where they say that there are none.
Status refuse_other_arithmetic(ArchitectureKeys& keys) {
  TRY_BIND(std::optional<int64_t> experts, keys.integer("expert_count"));
  TRY_BIND(std::optional<int64_t> used, keys.integer("expert_used_count"));
  if (experts.value_or(0) > 0 || used.value_or(0) > 0) {
    return keys.error(ErrorCode::kUnsupported, "{} experts: mixtures of experts (mixtral) are not built yet",
                      experts.value_or(*used));
  }
  if (const GgufValue* causal = keys.raw("attention.causal"); causal != nullptr && causal->as_bool() != true) {
    return keys.error(ErrorCode::kUnsupported, "attention.causal is not true: encoders are not built yet");
  }
  keys.ignore("tensor_data_layout");  // says how the converter got there
  return {};
}

bool any_bias(const GgufParts& parts, std::string_view tensor) {
  return parts.find(fmt::format("blk.0.{}.bias", tensor)) != nullptr;
}

Status add_sizes(ArchitectureKeys& keys, const GgufParts& parts, Json& config) {
  TRY_BIND(int64_t hidden, keys.required_integer("embedding_length"));
  TRY_BIND(int64_t heads, keys.required_integer("attention.head_count"));
  TRY_BIND(std::optional<int64_t> kv_heads, keys.same_for_all_layers("attention.head_count_kv"));
  TRY_BIND(std::optional<int64_t> ffn, keys.same_for_all_layers("feed_forward_length"));
  if (!ffn) return keys.error(ErrorCode::kCorrupt, "metadata key {} is missing", keys.full("feed_forward_length"));
  TRY_BIND(config["num_hidden_layers"], keys.required_integer("block_count"));
  TRY_BIND(config["max_position_embeddings"], keys.required_integer("context_length"));
  TRY_BIND(config["rms_norm_eps"], keys.required_number("attention.layer_norm_rms_epsilon"));
  TRY_BIND(config["head_dim"], head_dimension(keys, hidden, heads));
  TRY_BIND(config["vocab_size"], vocabulary_size(keys, parts));
  config["hidden_size"] = hidden;
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = kv_heads.value_or(heads);
  config["intermediate_size"] = *ffn;
  return {};
}

}  // namespace

Result<Json> gguf_config(const GgufParts& parts) {
  const Gguf& file = parts.first();
  TRY_BIND(std::optional<std::string_view> architecture, file.text("general.architecture"));
  TRY_BIND(std::optional<std::string_view> type, file.text("general.type"));
  Error where{ErrorCode::kUnsupported, {}, file.path()};
  if (!architecture) {
    where.message = "metadata key general.architecture is missing: this file holds no language model";
    return where;
  }
  if (type && *type != "model") {
    where.message = fmt::format("the file holds a '{}', not a model", printable(*type));
    return where;
  }
  const GgufFamily* family = gguf_family(*architecture);
  if (family == nullptr) {
    where.message =
        fmt::format("GGUF architecture '{}' (model type {}) is not built yet; there are: {}", printable(*architecture),
                    printable(hf_model_type(*architecture)), known_gguf_architectures());
    return where;
  }

  ArchitectureKeys keys(file, *architecture);
  Json config = {{"model_type", family->model_type}};
  TRY_STATUS(refuse_other_arithmetic(keys));
  TRY_STATUS(add_sizes(keys, parts, config));
  config["tie_word_embeddings"] = parts.find("output.weight") == nullptr;
  TRY_BIND(std::optional<double> base, keys.number("rope.freq_base"));
  config["rope_theta"] = base.value_or(10000.0);
  TRY_BIND(Json scaling, rope_scaling(keys, parts));
  if (!scaling.is_null()) config["rope_scaling"] = std::move(scaling);
  if (family->model_type == "llama" || family->model_type == "qwen3") {
    config["attention_bias"] = any_bias(parts, "attn_q") || any_bias(parts, "attn_output");
  }
  if (family->model_type == "llama") {
    config["mlp_bias"] = any_bias(parts, "ffn_down");
    TRY_STATUS(add_mistral(keys, config));
  }
  if (family->model_type == "gemma3_text") TRY_STATUS(add_gemma3(keys, config));
  TRY_STATUS(keys.finish());
  return config;
}

}  // namespace vernier
