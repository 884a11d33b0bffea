#include "audit/gguf_model_keys.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace vernier {

namespace {

/// How many layers of 27B models scale queries by columns per head, which readers of these files know them by.
constexpr int64_t kGemma2Of27b = 46, kGemma3Of27b = 62;

/// What readers multiply scores by.
float scale_of_readers(const DecoderSpec& spec) {
  const AttnSpec& attn = spec.layers.front().attn;
  const int64_t of_27b = spec.family == "gemma2" ? kGemma2Of27b : kGemma3Of27b;
  const bool by_columns = spec.family.starts_with("gemma") && std::ssize(spec.layers) == of_27b;
  const int64_t scalar = by_columns ? spec.hidden / attn.heads : attn.head_dim;
  return 1 / std::sqrt(static_cast<float>(scalar));
}

bool same_rope(const RopeSpec& a, const RopeSpec& b) {
  return a.dim == b.dim && a.magnitude() == b.magnitude() && a.frequencies() == b.frequencies();
}

/// Families whose layers may differ in their windows, and how many layers come to one that has none if no key says.
int64_t usual_period(const DecoderSpec& spec) {
  if (spec.family == "gemma2" || spec.family == "gpt_oss") return 2;
  return spec.family.starts_with("gemma3") ? 6 : 0;
}

Status check_windows(const DecoderSpec& spec) {
  const AttnSpec& leading = leading_attention(spec);
  std::optional<int> window;
  for (const LayerSpec& layer : spec.layers) {
    const bool slides = layer.attn.window.has_value();
    if (slides && window && *window != *layer.attn.window) {
      return unsupported("windows of {} and of {} tokens: GGUF files have a place for one", *window,
                         *layer.attn.window);
    }
    if (slides) window = layer.attn.window;
    const bool has_own_rope = slides && spec.family.starts_with("gemma3");
    if (has_own_rope && !std::holds_alternative<RopePlain>(layer.attn.rope.scaling)) {
      return unsupported("rope of sliding layers that is scaled ({}) is not written into GGUF files",
                         layer.attn.rope.to_string());
    }
    if (!has_own_rope && !same_rope(layer.attn.rope, leading.rope)) {
      return unsupported("layers with ropes of their own are not written into GGUF files");
    }
    const bool one_for_all = slides == spec.layers.front().attn.window.has_value();
    const bool may_slide = spec.family == "mistral" || spec.family == "mixtral";
    if (usual_period(spec) == 0 && (!one_for_all || (slides && !may_slide))) {
      return unsupported("layers of {} with windows of their own are not written into GGUF files", spec.family);
    }
  }
  return {};
}

/// gpt-oss's gate has no keys, so it is that of the published models.
bool gate_is_usual(const DecoderSpec& spec, const ExpertsSpec& experts) {
  if (spec.family != "gpt_oss") return experts.gate.is_plain() && experts.gate.act == Act::kSilu;
  return experts.gate.act == Act::kSilu && experts.gate.limit == 7.0F && experts.gate.slope == 1.702F &&
         experts.gate.up_offset == 1;
}

Status check_rope(const DecoderSpec& spec) {
  const auto* yarn = std::get_if<RopeYarn>(&leading_attention(spec).rope.scaling);
  const bool whole_pairs = spec.family != "gpt_oss";
  if (yarn == nullptr || yarn->truncate == whole_pairs) return {};
  return unsupported("YaRN of {} with 'truncate' {}: GGUF files have no key for it, and readers take {}", spec.family,
                     yarn->truncate, whole_pairs);
}

Status check_biases(const DecoderSpec& spec) {
  const bool is_gemma = spec.family.starts_with("gemma"), is_gpt_oss = spec.family == "gpt_oss";
  if (is_gemma && (spec.qkv_bias != BiasRule::kNone || spec.output_bias != BiasRule::kNone)) {
    return unsupported("biases of attention are not written into GGUF files of {}", spec.family);
  }
  if (is_gpt_oss && (spec.qkv_bias == BiasRule::kNone || spec.output_bias == BiasRule::kNone)) {
    return unsupported("gpt_oss without biases of attention is not written into GGUF files");
  }
  return {};
}

void add_rope_keys(const std::string& architecture, const RopeSpec& rope, GgufMetadata& metadata) {
  metadata.f32(architecture + ".rope.freq_base", static_cast<float>(rope.base));
  const std::string scaling = architecture + ".rope.scaling.";
  if (const auto* linear = std::get_if<RopeLinear>(&rope.scaling)) {
    metadata.text(scaling + "type", "linear");
    metadata.f32(scaling + "factor", static_cast<float>(linear->factor));
  }
  const auto* yarn = std::get_if<RopeYarn>(&rope.scaling);
  if (yarn == nullptr) return;
  metadata.text(scaling + "type", "yarn");
  metadata.f32(scaling + "factor", static_cast<float>(yarn->factor));
  metadata.u32(scaling + "original_context_length", static_cast<uint32_t>(yarn->original_max_positions));
  metadata.f32(scaling + "yarn_beta_fast", static_cast<float>(yarn->beta_fast));
  metadata.f32(scaling + "yarn_beta_slow", static_cast<float>(yarn->beta_slow));
  const double usual = yarn->factor > 1 ? 0.1 * std::log(yarn->factor) + 1 : 1;
  if (std::abs(yarn->magnitude - usual) > 1e-9 * usual) {
    metadata.f32(scaling + "attn_factor", static_cast<float>(yarn->magnitude / usual));
  }
}

/// The window and the layers that have it.
void add_window_keys(const std::string& architecture, const DecoderSpec& spec, GgufMetadata& metadata) {
  std::vector<bool> slides;
  std::optional<int> window;
  for (const LayerSpec& layer : spec.layers) {
    slides.push_back(layer.attn.window.has_value());
    if (layer.attn.window) window = layer.attn.window;
  }
  const int64_t period = usual_period(spec);
  const bool required = period == 2;
  if (!window && !required) return;
  // Readers ask for a window even where no layer has it.
  const int64_t tokens = window ? *window : spec.max_positions;
  metadata.u32(architecture + ".attention.sliding_window", static_cast<uint32_t>(tokens));
  bool usual = true;
  for (size_t i = 0; i < slides.size(); ++i) {
    usual = usual && slides[i] == ((static_cast<int64_t>(i) + 1) % std::max<int64_t>(period, 1) != 0);
  }
  if (period > 0 && !usual) metadata.bools(architecture + ".attention.sliding_window_pattern", slides);
  if (!spec.family.starts_with("gemma3")) return;
  const auto sliding =
      std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.attn.window.has_value(); });
  metadata.f32(architecture + ".rope.freq_base_swa", static_cast<float>(sliding->attn.rope.base));
}

void add_sampling_keys(const GenerationDefaults& advised, GgufMetadata& metadata) {
  auto sampling = [&](const char* key, const std::optional<double>& value) {
    if (value) metadata.f32(fmt::format("general.sampling.{}", key), static_cast<float>(*value));
  };
  sampling("temp", advised.temperature);
  sampling("top_p", advised.top_p);
  sampling("min_p", advised.min_p);
  sampling("penalty_repeat", advised.repetition_penalty);
  if (advised.top_k) metadata.i32("general.sampling.top_k", *advised.top_k);
}

}  // namespace

const GgufFamily* gguf_family_of(const DecoderSpec& spec) {
  const std::string& family = spec.family;
  if (family == "llama" || family == "mistral" || family == "mixtral") return gguf_family("llama");
  for (const char* architecture : {"qwen2", "qwen3", "qwen3moe", "gemma2", "gemma3", "gpt-oss"}) {
    const GgufFamily* found = gguf_family(architecture);
    if (found->model_type == family || (family == "gemma3" && architecture == family)) return found;
  }
  return nullptr;
}

const AttnSpec& leading_attention(const DecoderSpec& spec) {
  const auto full = std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return !layer.attn.window; });
  return full != spec.layers.end() ? full->attn : spec.layers.front().attn;
}

float query_factor(const DecoderSpec& spec) {
  if (!spec.family.starts_with("gemma3")) return 1;
  const float usual = scale_of_readers(spec), own = spec.layers.front().attn.scale;
  return own == usual ? 1 : own / usual;
}

Status check_gguf_can_tell(const GgufFamily& family, const DecoderSpec& spec) {
  TRY_STATUS(check_windows(spec));
  TRY_STATUS(check_rope(spec));
  TRY_STATUS(check_biases(spec));
  const bool is_gemma = family.norms_hold_one;
  if (spec.act != (is_gemma ? Act::kGeluTanh : Act::kSilu)) {
    return unsupported("{} with another activation than its family's is not written into GGUF files", spec.family);
  }
  const float usual = scale_of_readers(spec);
  if (query_factor(spec) == 1 && std::abs(spec.layers.front().attn.scale - usual) > 1e-6F * usual) {
    return unsupported(
        "{} whose scores are scaled by {:g} ('query_pre_attn_scalar') is not written into GGUF files, "
        "whose readers take {:g}",
        spec.family, spec.layers.front().attn.scale, usual);
  }
  for (const LayerSpec& layer : spec.layers) {
    if (!layer.experts) continue;
    if (!layer.experts->normalize) {
      return unsupported("weights of experts whose sum is not 1 (norm_topk_prob) are not written into GGUF files");
    }
    if (!gate_is_usual(spec, *layer.experts)) {
      return unsupported(
          "experts of {} whose gate differs from the published models' ('swiglu_limit', 'hidden_act') "
          "are not written into GGUF files",
          spec.family);
    }
  }
  return {};
}

void add_model_keys(const GgufFamily& family, const DecoderSpec& spec, const Checkpoint& checkpoint,
                    GgufMetadata& metadata) {
  const std::string architecture(family.architecture);
  const AttnSpec& attn = leading_attention(spec);
  auto number = [&](const char* key, int64_t value) {
    metadata.u32(fmt::format("{}.{}", architecture, key), static_cast<uint32_t>(value));
  };
  metadata.text("general.architecture", architecture);
  metadata.text("general.type", "model");
  std::filesystem::path source(checkpoint.path());
  metadata.text("general.name", (source.has_filename() ? source : source.parent_path()).filename().string());
  number("block_count", std::ssize(spec.layers));
  number("context_length", spec.max_positions);
  number("embedding_length", spec.hidden);
  int64_t ffn = 0;
  std::optional<ExpertsSpec> experts;
  for (const LayerSpec& layer : spec.layers) {
    ffn = std::max(ffn, layer.ffn);
    if (layer.experts) experts = layer.experts;
  }
  number("feed_forward_length", ffn > 0 || !experts ? ffn : experts->width);
  if (experts) {
    number("expert_count", experts->experts);
    number("expert_used_count", experts->chosen);
    if (spec.family != "mixtral") number("expert_feed_forward_length", experts->width);
  }
  number("vocab_size", spec.vocab);
  number("attention.head_count", attn.heads);
  number("attention.head_count_kv", attn.kv_heads);
  number("attention.key_length", attn.head_dim);
  number("attention.value_length", attn.head_dim);
  number("rope.dimension_count", attn.rope.dim);
  metadata.f32(architecture + ".attention.layer_norm_rms_epsilon", spec.norm_eps);
  add_window_keys(architecture, spec, metadata);
  add_rope_keys(architecture, attn.rope, metadata);
  if (attn.soft_cap > 0) metadata.f32(architecture + ".attn_logit_softcapping", attn.soft_cap);
  if (spec.final_soft_cap > 0) metadata.f32(architecture + ".final_logit_softcapping", spec.final_soft_cap);
  add_sampling_keys(checkpoint.generation(), metadata);
}

void add_vocabulary_keys(const Checkpoint& checkpoint, const std::optional<GgufVocabulary>& vocabulary,
                         GgufMetadata& metadata) {
  for (const StoredTemplate& stored : checkpoint.chat_templates()) {
    const std::string key = stored.name == "default" ? "" : "." + stored.name;
    metadata.text("tokenizer.chat_template" + key, stored.text);
  }
  if (!vocabulary) return metadata.text("tokenizer.ggml.model", "none");
  const GgufVocabulary& of = *vocabulary;
  metadata.text("tokenizer.ggml.model", of.model);
  metadata.text("tokenizer.ggml.pre", of.pre);
  metadata.texts("tokenizer.ggml.tokens", of.tokens);
  if (!of.scores.empty()) metadata.f32s("tokenizer.ggml.scores", of.scores);
  metadata.i32s("tokenizer.ggml.token_type", of.token_types);
  if (!of.merges.empty()) metadata.texts("tokenizer.ggml.merges", of.merges);
  auto id = [&](const char* key, const std::optional<int64_t>& value) {
    if (value) metadata.u32(fmt::format("tokenizer.ggml.{}_token_id", key), static_cast<uint32_t>(*value));
  };
  id("bos", of.bos);
  id("eos", of.eos);
  id("unknown", of.unknown);
  // GGUF files have names for two further tokens that end an answer.
  size_t further = 0;
  for (int32_t end : checkpoint.generation().eos_ids) {
    if (end != of.eos && further < 2) id(further++ == 0 ? "eot" : "eom", end);
  }
  auto flag = [&](const char* key, const std::optional<bool>& value) {
    if (value) metadata.boolean(fmt::format("tokenizer.ggml.{}", key), *value);
  };
  flag("add_bos_token", of.add_bos);
  flag("add_eos_token", of.add_eos);
  flag("add_space_prefix", of.add_space_prefix);
}

}  // namespace vernier
