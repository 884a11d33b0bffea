#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "testing/gguf_writer.h"
#include "testing/safetensors_writer.h"
#include "testing/temp_folder.h"

namespace vernier::testing {

/// A llama of two layers with weights that differ everywhere, to be written in either format.
struct TinyModel {
  static constexpr int64_t kHidden = 8, kHeads = 2, kKvHeads = 1, kHeadDim = 4, kFfn = 12, kVocab = 6, kLayers = 2;

  struct Named {
    std::vector<int64_t> extents;  // outermost first
    std::vector<float> values;
  };
  std::map<std::string, Named> tensors;  // in Hugging Face spelling

  explicit TinyModel(bool tied = false) {
    add("model.embed_tokens.weight", {kVocab, kHidden});
    add("model.norm.weight", {kHidden});
    if (!tied) add("lm_head.weight", {kVocab, kHidden});
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      std::string prefix = "model.layers." + std::to_string(layer) + ".";
      add(prefix + "input_layernorm.weight", {kHidden});
      add(prefix + "post_attention_layernorm.weight", {kHidden});
      add(prefix + "self_attn.q_proj.weight", {kHeads * kHeadDim, kHidden});
      add(prefix + "self_attn.k_proj.weight", {kKvHeads * kHeadDim, kHidden});
      add(prefix + "self_attn.v_proj.weight", {kKvHeads * kHeadDim, kHidden});
      add(prefix + "self_attn.o_proj.weight", {kHidden, kHeads * kHeadDim});
      add(prefix + "mlp.gate_proj.weight", {kFfn, kHidden});
      add(prefix + "mlp.up_proj.weight", {kFfn, kHidden});
      add(prefix + "mlp.down_proj.weight", {kHidden, kFfn});
    }
  }

  void add(const std::string& name, std::vector<int64_t> extents) {
    int64_t count = 1;
    for (int64_t extent : extents) count *= extent;
    Named& tensor = tensors[name];
    tensor.extents = std::move(extents);
    for (int64_t i = 0; i < count; ++i) tensor.values.push_back(0.3f + 0.017f * static_cast<float>(next_++));
  }

  static std::string config(const std::string& more = "") {
    return R"({"model_type":"llama","hidden_size":8,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":4,)"
           R"("intermediate_size":12,"vocab_size":6,"num_hidden_layers":2,"max_position_embeddings":64,)"
           R"("rms_norm_eps":1e-5)" +
           more + "}";
  }

  std::string safetensors() const {
    SafetensorsWriter writer;
    for (const auto& [name, tensor] : tensors) writer.f32(name, tensor.extents, tensor.values);
    return writer.bytes();
  }
  void write_folder(const TempFolder& folder, const std::string& more_config = "") const {
    folder.write("config.json", config(more_config));
    folder.write("model.safetensors", safetensors());
  }

  static std::string gguf_name(std::string name) {
    static const std::vector<std::pair<std::string, std::string>> kNames = {{"model.embed_tokens", "token_embd"},
                                                                            {"model.norm", "output_norm"},
                                                                            {"lm_head", "output"},
                                                                            {"model.layers.", "blk."},
                                                                            {"input_layernorm", "attn_norm"},
                                                                            {"post_attention_layernorm", "ffn_norm"},
                                                                            {"self_attn.q_proj", "attn_q"},
                                                                            {"self_attn.k_proj", "attn_k"},
                                                                            {"self_attn.v_proj", "attn_v"},
                                                                            {"self_attn.o_proj", "attn_output"},
                                                                            {"mlp.gate_proj", "ffn_gate"},
                                                                            {"mlp.up_proj", "ffn_up"},
                                                                            {"mlp.down_proj", "ffn_down"}};
    for (const auto& [from, to] : kNames) {
      if (size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
    }
    return name;
  }
  /// As a converter to GGUF does it: within a head, row 2 j + t comes from row t * dim / 2 + j.
  static Named interleaved(const Named& tensor, int64_t heads) {
    Named out = tensor;
    int64_t cols = tensor.extents.size() > 1 ? tensor.extents[1] : 1;
    int64_t dim = tensor.extents[0] / heads;
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t pair = 0; pair < dim / 2; ++pair) {
        for (int64_t side = 0; side < 2; ++side) {
          for (int64_t col = 0; col < cols; ++col) {
            int64_t to = head * dim + 2 * pair + side, from = head * dim + side * dim / 2 + pair;
            out.values[static_cast<size_t>(to * cols + col)] = tensor.values[static_cast<size_t>(from * cols + col)];
          }
        }
      }
    }
    return out;
  }

  static void add_metadata(GgufWriter& writer) {
    writer.text("general.architecture", "llama").u32("llama.block_count", kLayers).u32("llama.context_length", 64);
    writer.u32("llama.embedding_length", kHidden).u32("llama.feed_forward_length", kFfn);
    writer.u32("llama.attention.head_count", kHeads).u32("llama.attention.head_count_kv", kKvHeads);
    writer.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f).f32("llama.rope.freq_base", 20000);
  }
  void add_tensor(GgufWriter& writer, const std::string& name) const {
    Named tensor = tensors.at(name);
    if (name.find("q_proj") != std::string::npos) tensor = interleaved(tensor, kHeads);
    if (name.find("k_proj") != std::string::npos) tensor = interleaved(tensor, kKvHeads);
    std::vector<uint64_t> extents(tensor.extents.rbegin(), tensor.extents.rend());
    writer.f32_tensor(gguf_name(name), extents, tensor.values);
  }
  void add_tensors(GgufWriter& writer) const {
    for (const auto& [name, tensor] : tensors) add_tensor(writer, name);
  }
  std::string gguf() const {
    GgufWriter writer;
    add_metadata(writer);
    add_tensors(writer);
    return writer.bytes();
  }

 private:
  int next_ = 0;
};

}  // namespace vernier::testing
