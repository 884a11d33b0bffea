#include "checkpoint/gpt_oss_files.h"

#include <array>
#include <string_view>
#include <utility>

#include "checkpoint/byte_reader.h"

namespace vernier {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostExtent = 1 << 24;

Result<int64_t> whole_number(const Json& config, const char* key) {
  const Json value = config.value(key, Json());
  if (!value.is_number_integer() || value < 1 || value > kMostExtent) {
    return corrupt("\"{}\" is {}, expected a whole number from 1 to {}", key, printable(value.dump()), kMostExtent);
  }
  return value.get<int64_t>();
}

Result<double> taken_number(Json& config, const char* key) {
  const Json value = config.value(key, Json());
  if (!value.is_number()) return corrupt("\"{}\" is {}, expected a number", key, printable(value.dump()));
  config.erase(key);
  return value.get<double>();
}

/// What follows "block.3.", and what Hugging Face calls it behind "model.layers.3.".
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kNames = {{
    {"attn.norm.scale", "input_layernorm.weight"},
    {"attn.out.weight", "self_attn.o_proj.weight"},
    {"attn.out.bias", "self_attn.o_proj.bias"},
    {"attn.sinks", "self_attn.sinks"},
    {"mlp.norm.scale", "post_attention_layernorm.weight"},
    {"mlp.gate.weight", "mlp.router.weight"},
    {"mlp.gate.bias", "mlp.router.bias"},
    {"mlp.mlp1_weight.blocks", "mlp.experts.gate_up_proj_blocks"},
    {"mlp.mlp1_weight.scales", "mlp.experts.gate_up_proj_scales"},
    {"mlp.mlp1_bias", "mlp.experts.gate_up_proj_bias"},
    {"mlp.mlp2_weight.blocks", "mlp.experts.down_proj_blocks"},
    {"mlp.mlp2_weight.scales", "mlp.experts.down_proj_scales"},
    {"mlp.mlp2_bias", "mlp.experts.down_proj_bias"},
}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kOuterNames = {{
    {"embedding.weight", "model.embed_tokens.weight"},
    {"norm.scale", "model.norm.weight"},
    {"unembedding.weight", "lm_head.weight"},
}};

struct QkvRows {
  int64_t q = 0;
  int64_t kv = 0;
};

/// Rows of `whole`, which is a matrix or a vector.
StoredTensor rows_of(const StoredTensor& whole, std::string name, int64_t begin, int64_t rows) {
  StoredTensor part = whole;
  const size_t row_bytes = whole.bytes.size() / static_cast<size_t>(whole.extents[0]);
  part.name = std::move(name);
  part.file_name = fmt::format("{}[{}:{}]", whole.file_name, begin, begin + rows);
  part.extents[0] = rows;
  part.bytes = whole.bytes.subspan(static_cast<size_t>(begin) * row_bytes, static_cast<size_t>(rows) * row_bytes);
  return part;
}

Status add_qkv(const StoredTensor& whole, const std::string& layer, std::string_view kind, QkvRows rows,
               std::vector<StoredTensor>& out) {
  if (whole.extents.empty() || whole.extents[0] != rows.q + 2 * rows.kv) {
    return corrupt("{} has {} rows, expected {} of Q and {} each of K and V", printable(whole.file_name),
                   whole.extents.empty() ? 0 : whole.extents[0], rows.q, rows.kv);
  }
  const std::string stem = layer + "self_attn.";
  out.push_back(rows_of(whole, fmt::format("{}q_proj.{}", stem, kind), 0, rows.q));
  out.push_back(rows_of(whole, fmt::format("{}k_proj.{}", stem, kind), rows.q, rows.kv));
  out.push_back(rows_of(whole, fmt::format("{}v_proj.{}", stem, kind), rows.q + rows.kv, rows.kv));
  return {};
}

Status add_respelled(StoredTensor tensor, QkvRows rows, std::vector<StoredTensor>& out) {
  const std::string name = tensor.name;
  for (const auto& [theirs, ours] : kOuterNames) {
    if (name != theirs) continue;
    tensor.name = ours;
    out.push_back(std::move(tensor));
    return {};
  }
  constexpr std::string_view kBlock = "block.";
  const size_t dot = name.find('.', kBlock.size());
  if (!name.starts_with(kBlock) || dot == std::string::npos) {
    out.push_back(std::move(tensor));  // refused as a tensor that nothing takes
    return {};
  }
  const std::string layer = fmt::format("model.layers.{}.", name.substr(kBlock.size(), dot - kBlock.size()));
  const std::string rest = name.substr(dot + 1);
  if (rest == "attn.qkv.weight" || rest == "attn.qkv.bias") {
    return add_qkv(tensor, layer, rest.substr(rest.rfind('.') + 1), rows, out);
  }
  for (const auto& [theirs, ours] : kNames) {
    if (rest != theirs) continue;
    tensor.name = layer + std::string(ours);
    break;
  }
  out.push_back(std::move(tensor));
  return {};
}

}  // namespace

bool is_original_gpt_oss(const Json& config) {
  return !config.contains("model_type") && !config.contains("architectures") && config.contains("swiglu_limit") &&
         config.contains("experts_per_token") && config.contains("initial_context_length");
}

Status respell_gpt_oss_config(Json& config) {
  TRY_BIND(const int64_t layers, whole_number(config, "num_hidden_layers"));
  TRY_BIND(const int64_t context, whole_number(config, "initial_context_length"));
  TRY_BIND(const double theta, taken_number(config, "rope_theta"));
  TRY_BIND(const double factor, taken_number(config, "rope_scaling_factor"));
  TRY_BIND(const double slow, taken_number(config, "rope_ntk_alpha"));
  TRY_BIND(const double fast, taken_number(config, "rope_ntk_beta"));
  if (layers > 10000) return corrupt("\"num_hidden_layers\" is {}", layers);
  if (!(factor >= 1 && factor * static_cast<double>(context) < 1e9)) {
    return corrupt("\"rope_scaling_factor\" is {}, expected 1 or more", factor);
  }
  for (const auto& [theirs, ours] :
       {std::pair("num_experts", "num_local_experts"), std::pair("experts_per_token", "num_experts_per_tok")}) {
    if (!config.contains(theirs)) return corrupt("\"{}\" is missing", theirs);
    config[ours] = config[theirs];
    config.erase(theirs);
  }
  config.erase("initial_context_length");
  config["model_type"] = "gpt_oss";
  config["attention_bias"] = true;
  config["hidden_act"] = "silu";
  config["rms_norm_eps"] = 1e-5;
  config["tie_word_embeddings"] = false;
  config["max_position_embeddings"] = static_cast<int64_t>(factor * static_cast<double>(context));
  config["rope_parameters"] = {{"rope_type", "yarn"}, {"rope_theta", theta},
                               {"factor", factor},    {"beta_fast", fast},
                               {"beta_slow", slow},   {"original_max_position_embeddings", context},
                               {"truncate", false}};
  Json kinds = Json::array();
  for (int64_t i = 0; i < layers; ++i) kinds.push_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
  config["layer_types"] = std::move(kinds);
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  constexpr int64_t kHarmonyVocabulary = 201088;
  if (config.value("vocab_size", Json()) == kHarmonyVocabulary) {  // <|return|>, <|endoftext|>, <|call|>
    config["bos_token_id"] = 199998;
    config["eos_token_id"] = {200002, 199999, 200012};
  }
  return {};
}

Status respell_gpt_oss_tensors(const Json& config, std::vector<StoredTensor>& tensors) {
  TRY_BIND(const int64_t head_dim, whole_number(config, "head_dim"));
  TRY_BIND(const int64_t heads, whole_number(config, "num_attention_heads"));
  TRY_BIND(const int64_t kv_heads, whole_number(config, "num_key_value_heads"));
  const QkvRows rows{heads * head_dim, kv_heads * head_dim};
  std::vector<StoredTensor> respelled;
  for (StoredTensor& tensor : tensors) TRY_STATUS(add_respelled(std::move(tensor), rows, respelled));
  tensors = std::move(respelled);
  return {};
}

}  // namespace vernier
