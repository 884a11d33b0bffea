#include "gguf_twin.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_binder.h"
#include "models/registry.h"
#include "tensor/tensor.h"
#include "testing/gguf_writer.h"

namespace vernier::testing {
namespace {

struct Named {
  std::vector<int64_t> extents;  // outermost first
  std::vector<float> values;
};

const std::map<std::string, std::string> kLayerNames = {{"input_layernorm", "attn_norm"},
                                                        {"self_attn.q_proj", "attn_q"},
                                                        {"self_attn.k_proj", "attn_k"},
                                                        {"self_attn.v_proj", "attn_v"},
                                                        {"self_attn.o_proj", "attn_output"},
                                                        {"self_attn.q_norm", "attn_q_norm"},
                                                        {"self_attn.k_norm", "attn_k_norm"},
                                                        {"mlp.gate_proj", "ffn_gate"},
                                                        {"mlp.up_proj", "ffn_up"},
                                                        {"mlp.down_proj", "ffn_down"},
                                                        {"mlp.gate", "ffn_gate_inp"},
                                                        {"mlp.router", "ffn_gate_inp"},
                                                        {"block_sparse_moe.gate", "ffn_gate_inp"}};

const std::map<std::string, std::string> kExpertNames = {{"gate_proj", "ffn_gate_exps"}, {"up_proj", "ffn_up_exps"},
                                                         {"down_proj", "ffn_down_exps"}, {"w1", "ffn_gate_exps"},
                                                         {"w3", "ffn_up_exps"},          {"w2", "ffn_down_exps"}};

Named transposed(const Named& from) {
  const auto rows = static_cast<size_t>(from.extents[0]), cols = static_cast<size_t>(from.extents[1]);
  Named to{{from.extents[1], from.extents[0]}, std::vector<float>(from.values.size())};
  for (size_t row = 0; row < rows; ++row) {
    for (size_t col = 0; col < cols; ++col) to.values[col * rows + row] = from.values[row * cols + col];
  }
  return to;
}

/// Rows `first`, `first` + 2, ... of a matrix or a bias.
Named every_second(const Named& from, int64_t first) {
  const int64_t cols = from.extents.size() == 1 ? 1 : from.extents[1];
  Named to{from.extents, {}};
  to.extents[0] /= 2;
  for (int64_t row = first; row < from.extents[0]; row += 2) {
    to.values.insert(to.values.end(), from.values.begin() + row * cols, from.values.begin() + (row + 1) * cols);
  }
  return to;
}

class Twin {
 public:
  Twin(const Checkpoint& checkpoint, const DecoderSpec& spec) : checkpoint_(checkpoint), spec_(spec) {}

  Result<GgufWriter> write() {
    write_metadata();
    for (const StoredTensor& tensor : checkpoint_.tensors()) {
      TRY_BIND(Named numbers, numbers_of(tensor));
      add(tensor.name, std::move(numbers));
    }
    for (const auto& [name, stack] : stacks_) put(name, stack);
    return std::move(writer_);
  }

 private:
  static Result<Named> numbers_of(const StoredTensor& tensor) {
    const DType dtype = tensor.codec == CodecId::kBF16 ? DType::kBF16 : DType::kF32;
    TRY_BIND(Shape shape, Shape::make(tensor.extents));
    TRY_BIND(Tensor dense, Tensor::make(dtype, shape, tensor.data()));
    return Named{tensor.extents, dense.to_floats()};
  }

  std::string architecture() const {
    static const std::map<std::string, std::string> kNames = {
        {"mixtral", "llama"}, {"qwen3_moe", "qwen3moe"}, {"gpt_oss", "gpt-oss"}, {"gemma2", "gemma2"}};
    return kNames.at(spec_.family);
  }

  void write_metadata() {
    const AttnSpec& attn = spec_.layers.front().attn;
    const std::string a = architecture() + ".";
    auto number = [&](const std::string& key, int64_t value) { writer_.u32(a + key, static_cast<uint32_t>(value)); };
    writer_.text("general.architecture", architecture());
    number("block_count", static_cast<int64_t>(spec_.layers.size()));
    number("context_length", 256);
    number("embedding_length", spec_.hidden);
    number("attention.head_count", attn.heads);
    number("attention.head_count_kv", attn.kv_heads);
    number("attention.key_length", attn.head_dim);
    number("attention.value_length", attn.head_dim);
    writer_.f32(a + "attention.layer_norm_rms_epsilon", spec_.norm_eps);
    writer_.f32(a + "rope.freq_base", static_cast<float>(attn.rope.base));
    if (attn.window) number("attention.sliding_window", *attn.window);
    if (attn.soft_cap > 0) writer_.f32(a + "attn_logit_softcapping", attn.soft_cap);
    if (spec_.final_soft_cap > 0) writer_.f32(a + "final_logit_softcapping", spec_.final_soft_cap);
    if (const auto* yarn = std::get_if<RopeYarn>(&attn.rope.scaling)) {
      writer_.text(a + "rope.scaling.type", "yarn");
      writer_.f32(a + "rope.scaling.factor", static_cast<float>(yarn->factor));
      number("rope.scaling.original_context_length", static_cast<int64_t>(yarn->original_max_positions));
    }
    int64_t dense = 0, width = 0;
    for (const LayerSpec& layer : spec_.layers) {
      dense = std::max(dense, layer.ffn);
      if (!layer.experts) continue;
      if (width == 0) {
        number("expert_count", layer.experts->experts);
        number("expert_used_count", layer.experts->chosen);
      }
      width = layer.experts->width;
    }
    if (width > 0 && spec_.family != "mixtral") number("expert_feed_forward_length", width);
    number("feed_forward_length", dense > 0 ? dense : width);
  }

  void put(const std::string& name, const Named& tensor) {
    writer_.f32_tensor(name, {tensor.extents.rbegin(), tensor.extents.rend()}, tensor.values);
  }

  void add(const std::string& name, Named tensor) {
    static const std::map<std::string, std::string> kNames = {{"model.embed_tokens.weight", "token_embd.weight"},
                                                              {"model.norm.weight", "output_norm.weight"},
                                                              {"lm_head.weight", "output.weight"}};
    const bool folded = spec_.norm_rule == NormRule::kOnePlus && name.find("norm") != std::string::npos;
    for (float& value : tensor.values) value += folded ? 1 : 0;
    if (const auto found = kNames.find(name); found != kNames.end()) return put(found->second, tensor);
    const size_t layer_end = name.find('.', sizeof("model.layers.") - 1);
    const std::string block = "blk." + name.substr(13, layer_end - 13) + ".";
    add_layer_tensor(block, name.substr(layer_end + 1), std::move(tensor));
  }

  void add_layer_tensor(const std::string& block, const std::string& name, Named tensor) {
    if (name == "self_attn.sinks") return put(block + "attn_sinks.weight", tensor);
    const size_t dot = name.rfind('.');
    const std::string stem = name.substr(0, dot), suffix = name.substr(dot);
    const size_t experts = stem.find(".experts.");
    if (experts != std::string::npos) return add_expert(block, stem.substr(experts + 9), suffix, std::move(tensor));
    if (stem == "post_attention_layernorm") {
      const bool other = spec_.post_norms || spec_.family == "gpt_oss";
      return put(block + (other ? "post_attention_norm" : "ffn_norm") + suffix, tensor);
    }
    if (stem == "pre_feedforward_layernorm") return put(block + "ffn_norm" + suffix, tensor);
    if (stem == "post_feedforward_layernorm") return put(block + "post_ffw_norm" + suffix, tensor);
    const AttnSpec& attn = spec_.layers.front().attn;
    // Files of Gemma 2 cannot say what scores are scaled by.
    const float folded = attn.scale * std::sqrt(static_cast<float>(attn.head_dim));
    if (stem == "self_attn.q_proj") std::ranges::for_each(tensor.values, [&](float& value) { value *= folded; });
    if (architecture() == "llama" && stem == "self_attn.q_proj") tensor = interleaved(tensor, attn.heads);
    if (architecture() == "llama" && stem == "self_attn.k_proj") tensor = interleaved(tensor, attn.kv_heads);
    put(block + kLayerNames.at(stem) + suffix, tensor);
  }

  static Named interleaved(const Named& from, int64_t heads) {
    const std::vector<int64_t> order = deinterleaved_rows(from.extents[0], heads);
    Named to{from.extents, std::vector<float>(from.values.size())};
    for (size_t row = 0; row < order.size(); ++row) {
      std::copy_n(from.values.begin() + static_cast<std::ptrdiff_t>(row) * from.extents[1], from.extents[1],
                  to.values.begin() + order[row] * from.extents[1]);
    }
    return to;
  }

  /// `rest` is "3.gate_proj".
  void add_expert(const std::string& block, const std::string& rest, const std::string& suffix, Named tensor) {
    const std::string matrix = rest.substr(rest.find('.') + 1);
    const bool turned = spec_.family == "gpt_oss" && tensor.extents.size() == 2;
    if (turned) tensor = transposed(tensor);
    if (matrix == "gate_up_proj") {
      stack(block + "ffn_gate_exps" + suffix, every_second(tensor, 0));
      return stack(block + "ffn_up_exps" + suffix, every_second(tensor, 1));
    }
    stack(block + kExpertNames.at(matrix) + suffix, tensor);
  }

  /// Experts of one layer come in the order of their numbers.
  void stack(const std::string& name, const Named& one) {
    Named& all = stacks_[name];
    if (all.extents.empty()) {
      all.extents = one.extents;
      all.extents.insert(all.extents.begin(), 0);
    }
    ++all.extents[0];
    all.values.insert(all.values.end(), one.values.begin(), one.values.end());
  }

  const Checkpoint& checkpoint_;
  const DecoderSpec& spec_;
  GgufWriter writer_;
  std::map<std::string, Named> stacks_;
};

}  // namespace

Status write_gguf_twin(const std::string& folder, const std::string& path) {
  TRY_BIND(auto checkpoint, Checkpoint::open(folder));
  TRY_BIND(Config config, checkpoint->config());
  TRY_BIND(DecoderSpec spec, read_decoder(config));
  TRY_BIND(GgufWriter writer, Twin(*checkpoint, spec).write());
  writer.write(path);
  return {};
}

}  // namespace vernier::testing
