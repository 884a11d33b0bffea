#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace vernier {

/// What the tensors of one GGUF architecture are called and how they differ from the Hugging Face checkpoint they were
/// made of.
struct GgufFamily {
  std::string_view architecture;  ///< general.architecture
  std::string_view model_type;    ///< in Hugging Face spelling
  bool rope_rows_interleaved;     ///< rows of Q and K were reordered so that rotary pairs are neighbours
  bool norms_hold_one;            ///< the 1 of (1 + w) was added to norm weights
  bool norm_after_blocks;         ///< ffn_norm stands before the feed-forward, post_* norms after each block
};

/// Null for architectures whose GGUF form is not understood.
const GgufFamily* gguf_family(std::string_view architecture);
/// "llama, qwen2, ..."
std::string known_gguf_architectures();
/// What Hugging Face calls the model type of a GGUF architecture; the architecture itself where nothing better is
/// known.
std::string_view hf_model_type(std::string_view architecture);

/// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; nullopt for a tensor that has no such name.
std::optional<std::string> hf_tensor_name(const GgufFamily& family, std::string_view gguf_name);

/// The other way about: "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight".
std::optional<std::string> gguf_tensor_name(const GgufFamily& family, std::string_view hf_name);

}  // namespace vernier
