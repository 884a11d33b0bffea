#include "models/decoder.h"

#include <utility>

namespace vernier {
namespace {

/// The prefix under which this checkpoint stores the model: the first that has an embedding table.
std::string stored_prefix(const DecoderSpec& spec, const Binder& binder) {
  if (binder.has(spec.prefix + "embed_tokens")) return spec.prefix;
  for (const std::string& prefix : spec.other) {
    if (binder.has(prefix + "embed_tokens")) return prefix;
  }
  return spec.prefix;  // the binder's error then names what is missing
}

/// Adds a branch's unreduced sum to the residual, normed first where the family does so.
Value join(Ops& ops, Partial branch, const std::optional<Norm>& post_norm, Value residual) {
  if (!post_norm) return ops.reduce_add(std::move(branch), std::move(residual));
  return ops.add(ops.rms_norm(ops.reduce(std::move(branch)), *post_norm), std::move(residual));
}

}  // namespace

Result<Decoder::Layer> Decoder::bind_layer(const DecoderSpec& spec, const CacheSpec& cache, const std::string& prefix,
                                           Binder& binder) {
  const LayerSpec& layer = spec.layers[static_cast<size_t>(cache.layer)];
  const AttnSpec& attn = layer.attn;
  auto norm = [&](const char* name) { return binder.norm(prefix + name, spec.hidden, spec.norm_eps, spec.norm_rule); };
  auto head_norm = [&](const char* name) {
    return binder.norm(prefix + name, attn.head_dim, spec.norm_eps, spec.norm_rule);
  };

  TRY_BIND(Norm attn_norm, norm("input_layernorm"));
  TRY_BIND(auto qkv, binder.weight<Split::kColumns>({{prefix + "self_attn.q_proj", attn.q_cols(), attn.heads},
                                                     {prefix + "self_attn.k_proj", attn.kv_cols(), attn.kv_heads},
                                                     {prefix + "self_attn.v_proj", attn.kv_cols(), 0}},
                                                    spec.hidden, spec.qkv_bias));
  AttnLayer attention;
  attention.spec = attn;
  attention.layer = cache.layer;
  attention.cache_class = cache.cache_class;
  attention.qk_norm_eps = spec.norm_eps;
  if (attn.qk_norm) {
    TRY_BIND(Norm q_norm, head_norm("self_attn.q_norm"));
    TRY_BIND(Norm k_norm, head_norm("self_attn.k_norm"));
    attention.q_norm = std::move(q_norm.weight);
    attention.k_norm = std::move(k_norm.weight);
  }
  TRY_BIND(auto output, binder.weight<Split::kRows>({{prefix + "self_attn.o_proj", spec.hidden, 0}}, attn.q_cols(),
                                                    spec.output_bias));
  std::optional<Norm> attn_post_norm, ffn_post_norm;
  if (spec.post_norms) {
    TRY_BIND(attn_post_norm, norm("post_attention_layernorm"));
  }
  TRY_BIND(Norm ffn_norm, norm(spec.post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm"));
  TRY_BIND(auto gate_up, binder.weight<Split::kColumns>(
                             {{prefix + "mlp.gate_proj", layer.ffn, 0}, {prefix + "mlp.up_proj", layer.ffn, 0}},
                             spec.hidden, spec.ffn_bias));
  TRY_BIND(auto down,
           binder.weight<Split::kRows>({{prefix + "mlp.down_proj", spec.hidden, 0}}, layer.ffn, spec.ffn_bias));
  if (spec.post_norms) {
    TRY_BIND(ffn_post_norm, norm("post_feedforward_layernorm"));
  }
  return Layer{std::move(attn_norm),      std::move(qkv),      std::move(attention), std::move(output),
               std::move(attn_post_norm), std::move(ffn_norm), std::move(gate_up),   std::move(down),
               std::move(ffn_post_norm)};
}

Result<Decoder> Decoder::bind(DecoderSpec spec, Binder& binder) {
  Decoder decoder;
  std::string prefix = stored_prefix(spec, binder);
  // A head that is stored all the same is the one its makers meant, whatever the flag says.
  bool tied = spec.tied && !binder.has(spec.head);
  TRY_BIND(decoder.embedding_, binder.embedding(prefix + "embed_tokens", spec.vocab, spec.hidden, tied));
  // The stored type and scales of the cache are the engine's; binding needs each layer's class alone.
  for (const CacheSpec& cache : cache_specs(spec, CodecId::kF32)) {
    TRY_BIND(Layer layer, bind_layer(spec, cache, fmt::format("{}layers.{}.", prefix, cache.layer), binder));
    decoder.layers_.push_back(std::move(layer));
  }
  TRY_BIND(decoder.final_norm_, binder.norm(prefix + "norm", spec.hidden, spec.norm_eps, spec.norm_rule));
  if (tied) {
    decoder.head_ = decoder.embedding_;
  } else {
    TRY_BIND(decoder.head_, binder.weight<Split::kNone>({{spec.head, spec.vocab, 0}}, spec.hidden));
  }
  decoder.spec_ = std::move(spec);
  return decoder;
}

std::vector<DecoderPart> Decoder::parts() const {
  std::vector<DecoderPart> parts;
  auto product = [&](int layer, const char* op, const auto& weight) {
    parts.push_back({layer, op, weight.name, weight.matrix.get(), nullptr});
  };
  product(-1, "embed", embedding_);
  for (const Layer& layer : layers_) {
    const int index = layer.attn.layer;
    product(index, "qkv", layer.qkv);
    parts.push_back({index, "attend", "", nullptr, &layer.attn});
    product(index, "output", layer.output);
    product(index, "gate_up", layer.gate_up);
    product(index, "down", layer.down);
  }
  product(-1, "head", head_);
  return parts;
}

Value Decoder::run_layer(Ops& ops, const Layer& layer, Value x) const {
  Partial attended =
      ops.linear(ops.attend(ops.linear(ops.rms_norm(x, layer.attn_norm), layer.qkv), layer.attn), layer.output);
  x = join(ops, std::move(attended), layer.attn_post_norm, std::move(x));
  Partial fed =
      ops.linear(ops.gate(ops.linear(ops.rms_norm(x, layer.ffn_norm), layer.gate_up), GateSpec{spec_.act}), layer.down);
  return join(ops, std::move(fed), layer.ffn_post_norm, std::move(x));
}

Value Decoder::forward(Ops& ops) const {
  Value x = ops.embed(embedding_, spec_.embed_scale);
  for (const Layer& layer : layers_) x = run_layer(ops, layer, std::move(x));
  return x;
}

Value Decoder::normed(Ops& ops, const Value& hidden) const {
  return ops.rms_norm(hidden, final_norm_);
}

Value Decoder::head(Ops& ops, const Value& hidden) const {
  Value logits = ops.linear(ops.rms_norm(ops.select_rows(hidden), final_norm_), head_);
  if (spec_.final_soft_cap <= 0) return logits;
  return ops.soft_cap(std::move(logits), spec_.final_soft_cap);
}

}  // namespace vernier
