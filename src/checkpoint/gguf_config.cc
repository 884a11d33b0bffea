#include "checkpoint/gguf_config.h"

#include <cmath>
#include <cstring>
#include <set>

#include "checkpoint/byte_reader.h"

namespace vernier {

namespace {

using Json = nlohmann::json;

constexpr int64_t kMostBlocks = 65536;

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

/// What YaRN has beside its factor. Two keys say how much attention grows: as a whole, and beyond what the factor
/// gives.
Status add_yarn(ArchitectureKeys& keys, Json& scaling) {
  TRY_BIND(std::optional<double> fast, keys.number("rope.scaling.yarn_beta_fast"));
  TRY_BIND(std::optional<double> slow, keys.number("rope.scaling.yarn_beta_slow"));
  TRY_BIND(std::optional<double> ramp, keys.number("rope.scaling.yarn_ext_factor"));
  TRY_BIND(std::optional<double> whole, keys.number("rope.scaling.yarn_attn_factor"));
  TRY_BIND(std::optional<double> beyond, keys.number("rope.scaling.attn_factor"));
  if (ramp.value_or(1) != 1 && *ramp >= 0) {  // a negative one stands for none
    return keys.error(ErrorCode::kUnsupported, "rope.scaling.yarn_ext_factor is {}, and only 1 is built", *ramp);
  }
  if (whole && beyond) {
    return keys.error(ErrorCode::kCorrupt, "rope.scaling.yarn_attn_factor and rope.scaling.attn_factor are both there");
  }
  if (fast) scaling["beta_fast"] = *fast;
  if (slow) scaling["beta_slow"] = *slow;
  if (whole) scaling["attention_factor"] = *whole;
  if (beyond && scaling.contains("factor")) {
    const double factor = scaling["factor"].get<double>();
    scaling["attention_factor"] = *beyond * (factor > 1 ? 0.1 * std::log(factor) + 1 : 1);
  }
  return {};
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
  if (kind == "yarn") TRY_STATUS(add_yarn(keys, scaling));
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

/// The 27B model alone scales queries by columns per head, not by the head's own size.
void add_query_scalar(Json& config, int64_t layers_of_27b) {
  const bool by_columns = config["num_hidden_layers"] == layers_of_27b;
  config["query_pre_attn_scalar"] =
      by_columns ? config["hidden_size"].get<int64_t>() / config["num_attention_heads"].get<int64_t>()
                 : config["head_dim"].get<int64_t>();
}

/// The window, and which layers have it where the file says so: a flag for each, or the number of layers of which the
/// last sees everything. False where there is no window.
Result<bool> add_windows(ArchitectureKeys& keys, Json& config) {
  TRY_BIND(std::optional<int64_t> window, keys.integer("attention.sliding_window"));
  if (window.value_or(0) < 0) return keys.error(ErrorCode::kCorrupt, "attention.sliding_window is {}", *window);
  const GgufValue* pattern = keys.raw("attention.sliding_window_pattern");
  if (window.value_or(0) == 0) return false;
  config["sliding_window"] = *window;
  if (pattern == nullptr) return true;
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  std::vector<int64_t> slides;
  if (!pattern->is_array()) {
    TRY_BIND(const std::optional<int64_t> period, keys.integer("attention.sliding_window_pattern"));
    for (int64_t i = 0; i < layers; ++i) slides.push_back(*period < 1 || (i + 1) % *period != 0 ? 1 : 0);
  } else if (pattern->element_type() == GgufType::kBool) {
    for (std::byte flag : pattern->elements(GgufType::kBool)) slides.push_back(flag != std::byte{0} ? 1 : 0);
  } else {
    slides = pattern->as_integers().value_or(std::vector<int64_t>());
  }
  if (slides.empty()) {
    return keys.error(ErrorCode::kCorrupt, "attention.sliding_window_pattern must be a number or hold flags");
  }
  Json types = Json::array();
  for (int64_t flag : slides) types.push_back(flag != 0 ? "sliding_attention" : "full_attention");
  config["layer_types"] = std::move(types);
  return true;
}

/// The same of a family whose models all have one.
Status require_windows(ArchitectureKeys& keys, Json& config) {
  TRY_BIND(const bool any, add_windows(keys, config));
  if (any) return {};
  return keys.error(ErrorCode::kCorrupt, "attention.sliding_window is missing or not positive");
}

/// Gemma 3's converter leaves out what every Gemma 3 has in common. Without a window all layers see everything.
Status add_gemma3(ArchitectureKeys& keys, Json& config) {
  TRY_BIND(const bool slides, add_windows(keys, config));
  if (!config.contains("layer_types")) config["sliding_window_pattern"] = slides ? 6 : 1;
  TRY_BIND(std::optional<double> local_base, keys.number("rope.freq_base_swa"));
  config["rope_local_base_freq"] = local_base.value_or(10000.0);
  add_query_scalar(config, 62);
  TRY_BIND(std::optional<double> cap, keys.number("final_logit_softcapping"));
  if (cap.value_or(0) != 0) config["final_logit_softcapping"] = *cap;
  return {};
}

/// Other directions of attention and the like: allowed only where they say that there are none.
Status refuse_other_arithmetic(ArchitectureKeys& keys) {
  if (const GgufValue* causal = keys.raw("attention.causal"); causal != nullptr && causal->as_bool() != true) {
    return keys.error(ErrorCode::kUnsupported, "attention.causal is not true: encoders are not built yet");
  }
  keys.ignore("tensor_data_layout");  // says how the converter got there
  return {};
}

/// Counts of experts in Hugging Face spelling; false where the model has none.
Result<bool> add_experts(ArchitectureKeys& keys, Json& config) {
  TRY_BIND(std::optional<int64_t> experts, keys.integer("expert_count"));
  TRY_BIND(std::optional<int64_t> used, keys.integer("expert_used_count"));
  if (experts.value_or(0) == 0 && used.value_or(0) == 0) return false;
  if (!experts || !used) {
    return keys.error(ErrorCode::kCorrupt, "of {} and {} one is missing", keys.full("expert_count"),
                      keys.full("expert_used_count"));
  }
  config["num_local_experts"] = *experts;
  config["num_experts_per_tok"] = *used;
  return true;
}

/// Mixtral comes as architecture `llama` with experts.
Status add_mixtral(ArchitectureKeys& keys, Json& config) {
  if (config["attention_bias"] == true || config["mlp_bias"] == true) {
    return keys.error(ErrorCode::kUnsupported, "experts together with biases are not supported for this architecture");
  }
  TRY_BIND(std::optional<int64_t> window, keys.integer("attention.sliding_window"));
  if (window.value_or(0) > 0) config["sliding_window"] = *window;
  config.erase("attention_bias");
  config.erase("mlp_bias");
  config["model_type"] = "mixtral";
  return {};
}

/// Layers without a router are dense. Files say nothing of the weights' sum, which is 1 in every published model.
Status add_qwen3_moe(ArchitectureKeys& keys, const GgufParts& parts, Json& config) {
  TRY_BIND(config["moe_intermediate_size"], keys.required_integer("expert_feed_forward_length"));
  config["norm_topk_prob"] = true;
  Json dense = Json::array();
  for (int64_t layer = 0; layer < config["num_hidden_layers"].get<int64_t>(); ++layer) {
    if (parts.find(fmt::format("blk.{}.ffn_gate_inp.weight", layer)) == nullptr) dense.push_back(layer);
  }
  config["mlp_only_layers"] = std::move(dense);
  return {};
}

/// The converter leaves out what every gpt-oss has in common; its ramp of YaRN does not end at whole pairs.
Status add_gpt_oss(ArchitectureKeys& keys, Json& config) {
  TRY_BIND(int64_t width, keys.required_integer("expert_feed_forward_length"));
  config["intermediate_size"] = width;
  TRY_STATUS(require_windows(keys, config));
  if (config.contains("rope_scaling") && config["rope_scaling"]["rope_type"] == "yarn") {
    config["rope_scaling"]["truncate"] = false;
  }
  return {};
}

/// Caps that are absent are off.
Status add_gemma2(ArchitectureKeys& keys, Json& config) {
  TRY_STATUS(require_windows(keys, config));
  TRY_BIND(std::optional<double> attention, keys.number("attn_logit_softcapping"));
  TRY_BIND(std::optional<double> final, keys.number("final_logit_softcapping"));
  config["attn_logit_softcapping"] = attention.value_or(0);
  config["final_logit_softcapping"] = final.value_or(0);
  add_query_scalar(config, 46);
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
  if (!ffn && keys.has("expert_feed_forward_length")) ffn = 1;  // no layer is dense
  if (!ffn) return keys.error(ErrorCode::kCorrupt, "metadata key {} is missing", keys.full("feed_forward_length"));
  TRY_BIND(const int64_t layers, keys.required_integer("block_count"));
  if (layers > kMostBlocks) {
    return keys.error(ErrorCode::kCorrupt, "{} is {}, at most {}", keys.full("block_count"), layers, kMostBlocks);
  }
  config["num_hidden_layers"] = layers;
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

/// What differs between families.
Status add_family(ArchitectureKeys& keys, const GgufParts& parts, std::string_view type, Json& config) {
  TRY_BIND(bool experts, add_experts(keys, config));
  if (experts && type != "llama" && type != "qwen3_moe" && type != "gpt_oss") {
    return keys.error(ErrorCode::kUnsupported, "{} experts, of which architecture {} has none",
                      config["num_local_experts"].get<int64_t>(), type);
  }
  if (type == "llama" || type == "qwen3" || type == "qwen3_moe") {
    config["attention_bias"] = any_bias(parts, "attn_q") || any_bias(parts, "attn_output");
  }
  if (type == "llama") {
    config["mlp_bias"] = any_bias(parts, "ffn_down");
    return experts ? add_mixtral(keys, config) : add_mistral(keys, config);
  }
  if (type == "qwen3_moe") return add_qwen3_moe(keys, parts, config);
  if (type == "gpt_oss") return add_gpt_oss(keys, config);
  if (type == "gemma2") return add_gemma2(keys, config);
  if (type == "gemma3_text") return add_gemma3(keys, config);
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
  TRY_STATUS(add_family(keys, parts, family->model_type, config));
  TRY_STATUS(keys.finish());
  return config;
}

}  // namespace vernier
