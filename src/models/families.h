#pragma once

#include <array>
#include <string_view>

#include "models/decoder_spec.h"
#include "ops/config.h"

namespace vernier {

/// Every family that is built: its model_type and the architecture that goes with it. Each has a reader in the file of
/// its name, `read_<model_type>`, which takes what it knows; `read_decoder` then refuses keys that it left unread.
#define VERNIER_FAMILIES(X)                   \
  X(gemma3, "Gemma3ForConditionalGeneration") \
  X(gemma3_text, "Gemma3ForCausalLM")         \
  X(llama, "LlamaForCausalLM")                \
  X(mistral, "MistralForCausalLM")            \
  X(qwen2, "Qwen2ForCausalLM")                \
  X(qwen3, "Qwen3ForCausalLM")

#define VERNIER_DECLARE(type, architecture) Result<DecoderSpec> read_##type(Config& config);
VERNIER_FAMILIES(VERNIER_DECLARE)
#undef VERNIER_DECLARE

struct WaitingFamily {
  std::string_view model_type;
  std::string_view needs;
};

/// Published families that somebody will try; a type in neither list is refused as unknown.
inline constexpr std::array kWaitingFamilies = {
    WaitingFamily{"gemma", "Gemma 1's reader"},
    WaitingFamily{"gemma2", "soft caps on attention logits and Gemma 2's reader"},
    WaitingFamily{"gemma3n", "alternating updates and per-layer embeddings"},
    WaitingFamily{"gemma4", "Gemma 4's reader and experts"},
    WaitingFamily{"gemma4_text", "Gemma 4's reader and experts"},
    WaitingFamily{"gpt_oss", "experts, attention sinks and YaRN rope"},
    WaitingFamily{"mixtral", "experts"},
    WaitingFamily{"qwen2_moe", "experts"},
    WaitingFamily{"qwen3_moe", "experts"},
    WaitingFamily{"qwen3_next", "linear attention and experts"},
    WaitingFamily{"qwen3_5", "linear attention"},
    WaitingFamily{"qwen2_vl", "pictures and rope over several axes"},
    WaitingFamily{"qwen2_5_vl", "pictures and rope over several axes"},
    WaitingFamily{"qwen3_vl", "pictures and rope over several axes"},
    WaitingFamily{"deepseek_v2", "latent attention and experts"},
    WaitingFamily{"deepseek_v3", "latent attention and experts"},
    WaitingFamily{"deepseek_v32", "sparse latent attention and experts"},
    WaitingFamily{"kimi_k2", "latent attention and experts"},
    WaitingFamily{"longcat_flash", "latent attention and experts that do nothing"},
    WaitingFamily{"llama4", "experts and chunked attention"},
    WaitingFamily{"llama4_text", "experts and chunked attention"},
    WaitingFamily{"mllama", "pictures and cross attention"},
    WaitingFamily{"mistral3", "pictures and Ministral's rope"},
    WaitingFamily{"ministral", "its reader"},
    WaitingFamily{"ministral3", "YaRN rope and its reader"},
    WaitingFamily{"phi", "layer norms with bias"},
    WaitingFamily{"phi3", "fused projections on disk and long rope"},
    WaitingFamily{"phimoe", "experts and long rope"},
    WaitingFamily{"smollm3", "layers without rope"},
    WaitingFamily{"olmo2", "norms after each branch only"},
    WaitingFamily{"olmo3", "norms after each branch only"},
    WaitingFamily{"olmoe", "experts"},
    WaitingFamily{"granite", "its multipliers"},
    WaitingFamily{"granitemoe", "experts and its multipliers"},
    WaitingFamily{"granitemoehybrid", "state-space layers"},
    WaitingFamily{"glm4", "partial rope and its reader"},
    WaitingFamily{"glm4_moe", "experts and partial rope"},
    WaitingFamily{"cohere", "layer norms and parallel branches"},
    WaitingFamily{"cohere2", "layer norms and parallel branches"},
    WaitingFamily{"exaone4", "its reader"},
    WaitingFamily{"nemotron", "layer norms and squared ReLU"},
    WaitingFamily{"nemotron_h", "state-space layers"},
    WaitingFamily{"falcon", "layer norms and parallel branches"},
    WaitingFamily{"falcon_h1", "state-space layers"},
    WaitingFamily{"mamba", "state-space layers"},
    WaitingFamily{"mamba2", "state-space layers"},
    WaitingFamily{"jamba", "state-space layers and experts"},
    WaitingFamily{"starcoder2", "layer norms with bias"},
    WaitingFamily{"stablelm", "layer norms and partial rope"},
    WaitingFamily{"gpt2", "learnt positions"},
    WaitingFamily{"gpt_neox", "layer norms and parallel branches"},
    WaitingFamily{"gptj", "layer norms and parallel branches"},
    WaitingFamily{"opt", "learnt positions"},
    WaitingFamily{"bloom", "ALiBi positions"},
    WaitingFamily{"mpt", "ALiBi positions"},
    WaitingFamily{"internlm2", "fused projections on disk"},
    WaitingFamily{"baichuan", "fused projections on disk"},
    WaitingFamily{"minicpm", "its multipliers"},
    WaitingFamily{"minimax", "linear attention and experts"},
    WaitingFamily{"minimax_m2", "experts"},
    WaitingFamily{"bert", "encoders"},
    WaitingFamily{"roberta", "encoders"},
    WaitingFamily{"xlm-roberta", "encoders"},
    WaitingFamily{"modernbert", "encoders"},
    WaitingFamily{"t5", "encoders with decoders"},
    WaitingFamily{"whisper", "sound"},
};

}  // namespace vernier
