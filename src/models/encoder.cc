#include "models/encoder.h"

#include <array>
#include <utility>

namespace vernier {

Result<Encoder::Layer> Encoder::bind_layer(const EncoderSpec& spec, int index, const std::string& prefix,
                                           Binder& binder) {
  const AttnSpec& attn = spec.attn;
  Layer layer;
  layer.attn.spec = attn;
  layer.attn.layer = index;
  TRY_BIND(layer.qkv, binder.weight<Split::kColumns>({{prefix + "attention.self.query", attn.q_cols()},
                                                      {prefix + "attention.self.key", attn.kv_cols()},
                                                      {prefix + "attention.self.value", attn.kv_cols()}},
                                                     spec.hidden, BiasRule::kRequired));
  TRY_BIND(layer.output, binder.weight<Split::kRows>({{prefix + "attention.output.dense", spec.hidden}}, attn.q_cols(),
                                                     BiasRule::kRequired));
  TRY_BIND(layer.attn_norm, binder.layer_norm(prefix + "attention.output.LayerNorm", spec.hidden, spec.norm_eps));
  TRY_BIND(layer.up, binder.weight<Split::kColumns>({{prefix + "intermediate.dense", spec.ffn}}, spec.hidden,
                                                    BiasRule::kRequired));
  TRY_BIND(layer.down,
           binder.weight<Split::kRows>({{prefix + "output.dense", spec.hidden}}, spec.ffn, BiasRule::kRequired));
  TRY_BIND(layer.ffn_norm, binder.layer_norm(prefix + "output.LayerNorm", spec.hidden, spec.norm_eps));
  return layer;
}

Result<Encoder> Encoder::bind(EncoderSpec spec, Binder& binder) {
  Encoder encoder;
  // A model that was saved with a head for some task keeps the encoder under a name of its own.
  const std::string within = "bert.";
  const std::string prefix = binder.has(within + "embeddings.word_embeddings") ? within : "";
  const std::string tables = prefix + "embeddings.";
  TRY_BIND(encoder.tokens_, binder.embedding(tables + "word_embeddings", spec.vocab, spec.hidden, false));
  TRY_BIND(encoder.positions_,
           binder.embedding(tables + "position_embeddings", spec.max_positions, spec.hidden, false));
  TRY_BIND(encoder.token_types_,
           binder.embedding(tables + "token_type_embeddings", spec.token_types, spec.hidden, false));
  TRY_BIND(encoder.embedding_norm_, binder.layer_norm(tables + "LayerNorm", spec.hidden, spec.norm_eps));
  for (int index = 0; index < spec.layers; ++index) {
    TRY_BIND(Layer layer, bind_layer(spec, index, fmt::format("{}encoder.layer.{}.", prefix, index), binder));
    encoder.layers_.push_back(std::move(layer));
  }
  encoder.spec_ = std::move(spec);
  return encoder;
}

std::span<const std::string> Encoder::unneeded_tensors() {
  static const std::array<std::string, 3> kNames = {"pooler.dense.weight", "pooler.dense.bias",
                                                    "embeddings.position_ids"};
  return kNames;
}

std::vector<DecoderPart> Encoder::parts() const {
  std::vector<DecoderPart> parts;
  auto product = [&](int layer, const char* op, const auto& weight) {
    parts.push_back({layer, op, weight.name, weight.matrix.get(), nullptr});
  };
  for (const auto* table : {&tokens_, &positions_, &token_types_}) product(-1, "embed", *table);
  for (const Layer& layer : layers_) {
    const int index = layer.attn.layer;
    product(index, "qkv", layer.qkv);
    parts.push_back({index, "attend", "", nullptr, &layer.attn});
    product(index, "output", layer.output);
    product(index, "up", layer.up);
    product(index, "down", layer.down);
  }
  return parts;
}

Value Encoder::forward(Ops& ops) const {
  Value x = ops.add(ops.look_up(positions_, LookUp::kPosition), ops.embed(tokens_, 1));
  x = ops.layer_norm(ops.add(ops.look_up(token_types_, LookUp::kFirst), std::move(x)), embedding_norm_);
  for (const Layer& layer : layers_) {
    Partial attended = ops.linear(ops.attend(ops.linear(x, layer.qkv), layer.attn), layer.output);
    x = ops.layer_norm(ops.reduce_add(std::move(attended), std::move(x)), layer.attn_norm);
    Partial fed = ops.linear(ops.activate(ops.linear(x, layer.up), spec_.act), layer.down);
    x = ops.layer_norm(ops.reduce_add(std::move(fed), std::move(x)), layer.ffn_norm);
  }
  return x;
}

}  // namespace vernier
