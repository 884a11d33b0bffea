#include "models/registry.h"

#include <algorithm>
#include <array>
#include <utility>

#include "models/families.h"

namespace vernier {
namespace {

struct Family {
  std::string_view model_type;
  std::string_view architecture;
  Result<DecoderSpec> (*read)(Config&);
};

constexpr std::array kFamilies = {
    Family{"deepseek_v2", "DeepseekV2ForCausalLM", read_deepseek_v2},
    Family{"deepseek_v3", "DeepseekV3ForCausalLM", read_deepseek_v3},
    Family{"gemma2", "Gemma2ForCausalLM", read_gemma2},
    Family{"gemma3", "Gemma3ForConditionalGeneration", read_gemma3},
    Family{"gemma3_text", "Gemma3ForCausalLM", read_gemma3_text},
    Family{"gpt_oss", "GptOssForCausalLM", read_gpt_oss},
    Family{"llama", "LlamaForCausalLM", read_llama},
    Family{"longcat_flash", "LongcatFlashForCausalLM", read_longcat_flash},
    Family{"longcat_flash_ngram", "LongcatFlashNgramForCausalLM", read_longcat_flash_ngram},
    Family{"mistral", "MistralForCausalLM", read_mistral},
    Family{"mixtral", "MixtralForCausalLM", read_mixtral},
    Family{"qwen2", "Qwen2ForCausalLM", read_qwen2},
    Family{"qwen3", "Qwen3ForCausalLM", read_qwen3},
    Family{"qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe},
};

struct EncoderFamily {
  std::string_view model_type;
  std::string_view architecture;
  Result<EncoderSpec> (*read)(Config&);
};

constexpr std::array kEncoders = {
    EncoderFamily{"bert", "BertModel", read_bert},
};

struct Waiting {
  std::string_view model_type;
  std::string_view needs;
};

/// Published families that somebody will try. A type that is not here is refused, too, as unknown.
constexpr std::array kWaiting = {
    Waiting{"gemma", "Gemma 1's reader"},
    Waiting{"gemma3n", "alternating updates and per-layer embeddings"},
    Waiting{"gemma4", "Gemma 4's reader"},
    Waiting{"gemma4_text", "Gemma 4's reader"},
    Waiting{"qwen2_moe", "a gate before its shared expert"},
    Waiting{"qwen3_next", "linear attention"},
    Waiting{"qwen3_5", "linear attention"},
    Waiting{"qwen2_vl", "pictures and rope over several axes"},
    Waiting{"qwen2_5_vl", "pictures and rope over several axes"},
    Waiting{"qwen3_vl", "pictures and rope over several axes"},
    Waiting{"deepseek_v32", "sparse latent attention"},
    Waiting{"kimi_k2", "its reader"},
    Waiting{"longcat", "sparse latent attention and further tables of n-grams"},
    Waiting{"llama4", "chunked attention"},
    Waiting{"llama4_text", "chunked attention"},
    Waiting{"mllama", "pictures and cross attention"},
    Waiting{"mistral3", "pictures and Ministral's rope"},
    Waiting{"ministral", "its reader"},
    Waiting{"ministral3", "its reader"},
    Waiting{"phi", "layer norms with bias"},
    Waiting{"phi3", "fused projections on disk and long rope"},
    Waiting{"phimoe", "sparse mixing of its experts and long rope"},
    Waiting{"smollm3", "layers without rope"},
    Waiting{"olmo2", "norms after each branch only"},
    Waiting{"olmo3", "norms after each branch only"},
    Waiting{"olmoe", "norms of whole queries and keys"},
    Waiting{"granite", "its multipliers"},
    Waiting{"granitemoe", "its multipliers"},
    Waiting{"granitemoehybrid", "state-space layers"},
    Waiting{"glm4", "partial rope and its reader"},
    Waiting{"glm4_moe", "partial rope"},
    Waiting{"cohere", "layer norms and parallel branches"},
    Waiting{"cohere2", "layer norms and parallel branches"},
    Waiting{"exaone4", "its reader"},
    Waiting{"nemotron", "layer norms and squared ReLU"},
    Waiting{"nemotron_h", "state-space layers"},
    Waiting{"falcon", "layer norms and parallel branches"},
    Waiting{"falcon_h1", "state-space layers"},
    Waiting{"mamba", "state-space layers"},
    Waiting{"mamba2", "state-space layers"},
    Waiting{"jamba", "state-space layers"},
    Waiting{"starcoder2", "layer norms with bias"},
    Waiting{"stablelm", "layer norms and partial rope"},
    Waiting{"gpt2", "learnt positions"},
    Waiting{"gpt_neox", "layer norms and parallel branches"},
    Waiting{"gptj", "layer norms and parallel branches"},
    Waiting{"opt", "learnt positions"},
    Waiting{"bloom", "ALiBi positions"},
    Waiting{"mpt", "ALiBi positions"},
    Waiting{"internlm2", "fused projections on disk"},
    Waiting{"baichuan", "fused projections on disk"},
    Waiting{"minicpm", "its multipliers"},
    Waiting{"minimax", "linear attention"},
    Waiting{"minimax_m2", "norms of whole queries and keys"},
    Waiting{"roberta", "positions that are counted from the padding token"},
    Waiting{"xlm-roberta", "positions that are counted from the padding token"},
    Waiting{"modernbert", "encoders with rope and windows"},
    Waiting{"t5", "encoders with decoders"},
    Waiting{"whisper", "sound"},
};

std::string list_supported() {
  std::string list;
  for (const Family& family : kFamilies) {
    if (!list.empty()) list += ", ";
    list += family.model_type;
  }
  return list;
}

Result<std::vector<std::string>> read_architectures(Config& config) {
  std::vector<std::string> names;
  const nlohmann::json& value = config.raw("architectures");
  if (value.is_null()) return names;
  if (!value.is_array()) return Error{ErrorCode::kInvalidArgument, "'architectures' is no list", config.where()};
  for (const nlohmann::json& name : value) {
    if (!name.is_string()) {
      return Error{ErrorCode::kInvalidArgument, "'architectures' holds something that is no string", config.where()};
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

/// By model type; a configuration without one is found by its architecture. Null where there is none.
template <class Families>
Result<const typename Families::value_type*> find_among(const Families& families, Config& config) {
  TRY_BIND(std::string type, config.text("model_type", ""));
  TRY_BIND(std::vector<std::string> architectures, read_architectures(config));
  for (const auto& family : families) {
    const bool named =
        std::find(architectures.begin(), architectures.end(), family.architecture) != architectures.end();
    if (type.empty() ? !named : family.model_type != type) continue;
    if (!architectures.empty() && !named) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("architecture '{}' of model type '{}' is not built; expected {}", architectures[0],
                               family.model_type, family.architecture),
                   config.where()};
    }
    return &family;
  }
  return nullptr;
}

/// Why no decoder can be made of a configuration whose model type and architectures could be read.
Error refusal(Config& config) {
  const std::string type = config.text("model_type", "").value();
  const std::vector<std::string> architectures = read_architectures(config).value();
  if (names_encoder(config)) {
    return Error{ErrorCode::kUnsupported,
                 "this model is an encoder: it makes embeddings and generates no text; serve it (vernier serve) and "
                 "ask /v1/embeddings",
                 config.where()};
  }
  for (const Waiting& waiting : kWaiting) {
    if (waiting.model_type != type) continue;
    return Error{ErrorCode::kUnsupported,
                 fmt::format("model type '{}' is recognised and not built yet: it waits for {}; supported are {}", type,
                             waiting.needs, list_supported()),
                 config.where()};
  }
  std::string found = !type.empty()           ? fmt::format("model type '{}' is unknown", type)
                      : architectures.empty() ? "neither 'model_type' nor 'architectures' is set"
                                              : fmt::format("architecture '{}' is unknown", architectures[0]);
  return Error{ErrorCode::kUnsupported, fmt::format("{}; supported are {}", found, list_supported()), config.where()};
}

/// A configuration may give the positions before YaRN stretched them.
void extend_positions(DecoderSpec& spec) {
  constexpr double kMost = 1 << 30;
  for (const LayerSpec& layer : spec.layers) {
    const auto* yarn = std::get_if<RopeYarn>(&layer.attn.rope.scaling);
    if (yarn == nullptr) continue;
    const double reach = std::min(kMost, yarn->factor * yarn->original_max_positions);
    spec.max_positions = std::max(spec.max_positions, static_cast<int64_t>(reach));
  }
}

}  // namespace

Result<DecoderSpec> read_decoder(Config& config) {
  TRY_BIND(const Family* family, find_among(kFamilies, config));
  if (family == nullptr) return refusal(config);
  TRY_BIND(DecoderSpec spec, family->read(config));
  spec.family = family->model_type;
  TRY_STATUS(config.finish());
  extend_positions(spec);
  return spec;
}

Result<EncoderSpec> read_encoder(Config& config) {
  TRY_BIND(const EncoderFamily* family, find_among(kEncoders, config));
  if (family == nullptr) return Error{ErrorCode::kUnsupported, "the configuration is not an encoder's", config.where()};
  TRY_BIND(EncoderSpec spec, family->read(config));
  spec.family = family->model_type;
  TRY_STATUS(config.finish());
  return spec;
}

bool names_encoder(Config& config) {
  const auto family = find_among(kEncoders, config);
  return !family.ok() || *family != nullptr;
}

std::vector<std::string> supported_model_types() {
  std::vector<std::string> types;
  for (const Family& family : kFamilies) types.emplace_back(family.model_type);
  return types;
}

}  // namespace vernier
