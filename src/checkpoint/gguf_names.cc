#include "checkpoint/gguf_names.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace vernier {

namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr std::array kFamilies = {
    GgufFamily{"llama", "llama", true, false, false},       GgufFamily{"qwen2", "qwen2", false, false, false},
    GgufFamily{"qwen3", "qwen3", false, false, false},      GgufFamily{"qwen3moe", "qwen3_moe", false, false, false},
    GgufFamily{"gpt-oss", "gpt_oss", false, false, false},  GgufFamily{"gemma2", "gemma2", false, true, true},
    GgufFamily{"gemma3", "gemma3_text", false, true, true},
};

/// Architectures that are recognised and refused by the name people know.
constexpr std::array kModelTypes = {
    Pair{"qwen2moe", "qwen2_moe"},
    Pair{"qwen3next", "qwen3_next"},
    Pair{"qwen2vl", "qwen2_vl"},
    Pair{"qwen3vl", "qwen3_vl"},
    Pair{"qwen35", "qwen3_5"},
    Pair{"deepseek2", "deepseek_v3"},
    Pair{"command-r", "cohere"},
    Pair{"gptneox", "gpt_neox"},
    Pair{"minimax-m2", "minimax_m2"},
    Pair{"falcon-h1", "falcon_h1"},
    Pair{"phi2", "phi"},
    Pair{"glm4moe", "glm4_moe"},
    Pair{"granitehybrid", "granitemoehybrid"},
    Pair{"nomic-bert", "bert"},
    Pair{"modern-bert", "modernbert"},
};

constexpr std::array kModelTensors = {
    Pair{"token_embd", "model.embed_tokens"},
    Pair{"output_norm", "model.norm"},
    Pair{"output", "lm_head"},
};

constexpr std::array kLayerTensors = {
    Pair{"attn_norm", "input_layernorm"},
    Pair{"attn_q", "self_attn.q_proj"},
    Pair{"attn_k", "self_attn.k_proj"},
    Pair{"attn_v", "self_attn.v_proj"},
    Pair{"attn_output", "self_attn.o_proj"},
    Pair{"attn_q_norm", "self_attn.q_norm"},
    Pair{"attn_k_norm", "self_attn.k_norm"},
    Pair{"ffn_gate", "mlp.gate_proj"},
    Pair{"ffn_up", "mlp.up_proj"},
    Pair{"ffn_down", "mlp.down_proj"},
    Pair{"ffn_gate_inp", "mlp.gate"},
    Pair{"ffn_gate_exps", "mlp.experts.gate_proj"},
    Pair{"ffn_up_exps", "mlp.experts.up_proj"},
    Pair{"ffn_down_exps", "mlp.experts.down_proj"},
};

/// What gpt-oss calls otherwise.
constexpr std::array kGptOssTensors = {
    Pair{"post_attention_norm", "post_attention_layernorm"},
    Pair{"ffn_gate_inp", "mlp.router"},
};

template <size_t N>
std::optional<std::string_view> look_up(const std::array<Pair, N>& table, std::string_view name) {
  const auto* found = std::find_if(table.begin(), table.end(), [name](const Pair& pair) { return pair.first == name; });
  if (found == table.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string_view> layer_tensor(const GgufFamily& family, std::string_view name) {
  if (family.model_type == "gpt_oss") {
    if (auto own = look_up(kGptOssTensors, name)) return own;
    if (name == "ffn_norm") return std::nullopt;
  }
  if (name == "ffn_norm") return family.norm_after_blocks ? "pre_feedforward_layernorm" : "post_attention_layernorm";
  if (family.norm_after_blocks && name == "post_attention_norm") return "post_attention_layernorm";
  if (family.norm_after_blocks && name == "post_ffw_norm") return "post_feedforward_layernorm";
  return look_up(kLayerTensors, name);
}

/// A layer's number as a writer prints it: "03" is none, so no two names stand for one tensor.
bool is_layer_number(std::string_view text) {
  if (text.empty() || text.size() > 6 || (text.size() > 1 && text[0] == '0')) return false;
  return std::all_of(text.begin(), text.end(), [](char digit) { return digit >= '0' && digit <= '9'; });
}

}  // namespace

const GgufFamily* gguf_family(std::string_view architecture) {
  const auto* found = std::find_if(kFamilies.begin(), kFamilies.end(),
                                   [&](const GgufFamily& family) { return family.architecture == architecture; });
  return found == kFamilies.end() ? nullptr : found;
}

std::string known_gguf_architectures() {
  std::string list;
  for (const GgufFamily& family : kFamilies) list += fmt::format("{}{}", list.empty() ? "" : ", ", family.architecture);
  return list;
}

std::string_view hf_model_type(std::string_view architecture) {
  if (const GgufFamily* family = gguf_family(architecture)) return family->model_type;
  return look_up(kModelTypes, architecture).value_or(architecture);
}

std::optional<std::string> hf_tensor_name(const GgufFamily& family, std::string_view gguf_name) {
  size_t dot = gguf_name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  std::string_view stem = gguf_name.substr(0, dot);
  std::string_view suffix = gguf_name.substr(dot);
  // The last two belong to NVFP4, whose blocks lack a global scale.
  constexpr std::array<std::string_view, 4> kSuffixes = {".weight", ".bias", ".scale", ".input_scale"};
  if (std::find(kSuffixes.begin(), kSuffixes.end(), suffix) == kSuffixes.end()) return std::nullopt;
  if (auto name = look_up(kModelTensors, stem)) return fmt::format("{}{}", *name, suffix);

  constexpr std::string_view kLayer = "blk.";
  if (stem.substr(0, kLayer.size()) != kLayer) return std::nullopt;
  stem.remove_prefix(kLayer.size());
  dot = stem.find('.');
  if (dot == std::string_view::npos || !is_layer_number(stem.substr(0, dot))) return std::nullopt;
  if (stem.substr(dot + 1) == "attn_sinks" && suffix == ".weight") {
    return fmt::format("model.layers.{}.self_attn.sinks", stem.substr(0, dot));
  }
  auto name = layer_tensor(family, stem.substr(dot + 1));
  if (!name) return std::nullopt;
  return fmt::format("model.layers.{}.{}{}", stem.substr(0, dot), *name, suffix);
}

std::optional<std::string> gguf_tensor_name(const GgufFamily& family, std::string_view hf_name) {
  const size_t dot = hf_name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view module = hf_name.substr(0, dot), suffix = hf_name.substr(dot);
  std::vector<std::string> candidates;
  for (const Pair& pair : kModelTensors) candidates.push_back(fmt::format("{}{}", pair.first, suffix));
  constexpr std::string_view kLayers = "model.layers.";
  if (module.starts_with(kLayers)) {
    const std::string_view number = module.substr(kLayers.size(), module.find('.', kLayers.size()) - kLayers.size());
    auto add = [&](std::string_view name) { candidates.push_back(fmt::format("blk.{}.{}{}", number, name, suffix)); };
    for (const Pair& pair : kLayerTensors) add(pair.first);
    for (std::string_view norm : {"ffn_norm", "post_attention_norm", "post_ffw_norm"}) add(norm);
    candidates.push_back(fmt::format("blk.{}.attn_sinks.weight", number));
  }
  // Whatever is read under that name.
  for (std::string& candidate : candidates) {
    if (hf_tensor_name(family, candidate) == hf_name) return std::move(candidate);
  }
  return std::nullopt;
}

}  // namespace vernier
