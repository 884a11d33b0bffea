#include "models/decoder.h"

#include <algorithm>
#include <utility>

#include "models/bind_experts.h"

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

/// One part for all experts that are packed alike, which they are as a rule.
template <Split S>
void add_experts(std::vector<DecoderPart>& parts, int layer, const char* op, const ExpertsSpec& spec,
                 const std::vector<Weight<S>>& weights) {
  std::vector<std::string> kinds;
  const size_t first = parts.size();
  for (const Weight<S>& weight : weights) {
    const PackedInfo info = weight.matrix->info();
    const std::string kind = info.codec + " as " + info.layout;
    const auto found = std::ranges::find(kinds, kind);
    if (found != kinds.end()) {
      ++parts[first + static_cast<size_t>(found - kinds.begin())].alike;
      continue;
    }
    kinds.push_back(kind);
    parts.push_back({layer, op, weight.name, weight.matrix.get(), nullptr, &spec});
  }
  for (size_t i = first; i < parts.size(); ++i) {
    if (parts[i].alike > 1) parts[i].weights += fmt::format(" and {} experts alike", parts[i].alike - 1);
  }
}

/// Matrices of all heads, which are packed alike.
void add_heads(std::vector<DecoderPart>& parts, int layer, const char* op,
               const std::vector<Weight<Split::kNone>>& weights) {
  parts.push_back({layer, op, weights.front().name, weights.front().matrix.get(), nullptr, nullptr});
  parts.back().alike = static_cast<int64_t>(weights.size());
}

}  // namespace

/// What a checkpoint calls a layer's modules.
struct Decoder::LayerNames {
  std::string prefix;  // "model.layers.3."
  std::string number;  // ".1" of modules that share a stored layer

  LayerNames(const DecoderSpec& spec, const std::string& model, int layer)
      : prefix(fmt::format("{}layers.{}.", model, layer / spec.stored_together)),
        number(spec.stored_together > 1 ? fmt::format(".{}", layer % spec.stored_together) : "") {}

  std::string norm(const char* name) const { return prefix + name + number; }
  std::string attention(const char* name) const { return prefix + "self_attn" + number + "." + name; }
  std::string feed() const { return prefix + (number.empty() ? "mlp." : "mlps" + number + "."); }
};

int64_t DecoderPart::rows_of(int64_t rows) const {
  if (experts == nullptr) return rows;
  return std::max<int64_t>(1, (rows * experts->chosen + experts->experts - 1) / experts->experts);
}

double DecoderPart::matrices_of_row() const {
  const auto all = static_cast<double>(alike);
  return experts == nullptr ? all : all * experts->chosen / experts->experts;
}

Result<AttnLayer> Decoder::bind_attention(const DecoderSpec& spec, const CacheSpec& cache, const LayerNames& names,
                                          Binder& binder) {
  AttnLayer attention;
  attention.spec = spec.layers[static_cast<size_t>(cache.layer)].attn;
  attention.layer = cache.layer;
  attention.cache_class = cache.cache_class;
  attention.qk_norm_eps = spec.norm_eps;
  if (attention.spec.qk_norm) {
    auto head_norm = [&](const char* name) {
      return binder.norm(names.attention(name), attention.spec.head_dim, spec.norm_eps, spec.norm_rule);
    };
    TRY_BIND(Norm q_norm, head_norm("q_norm"));
    TRY_BIND(Norm k_norm, head_norm("k_norm"));
    attention.q_norm = std::move(q_norm.weight);
    attention.k_norm = std::move(k_norm.weight);
  }
  if (attention.spec.sinks) {
    TRY_BIND(attention.sinks, binder.vector(names.attention("sinks"), attention.spec.heads));
  }
  return attention;
}

Result<Decoder::Latent> Decoder::bind_latent(const DecoderSpec& spec, AttnLayer attention, const LayerNames& names,
                                             Binder& binder) {
  constexpr float kEps = 1e-6f;  // whatever the configuration says of other norms
  const LatentSpec& of = *attention.spec.latent;
  const int64_t q_cols = int64_t{attention.spec.heads} * of.query_dim();
  Latent latent;
  if (of.q_rank > 0) {
    TRY_BIND(latent.q_down, binder.weight<Split::kNone>({{names.attention("q_a_proj"), of.q_rank}}, spec.hidden));
    TRY_BIND(latent.q_norm, binder.norm(names.attention("q_a_layernorm"), of.q_rank, kEps, spec.norm_rule));
  }
  TRY_BIND(latent.q, binder.weight<Split::kColumns>({{names.attention(of.q_rank > 0 ? "q_b_proj" : "q_proj"), q_cols}},
                                                    of.q_rank > 0 ? of.q_rank : spec.hidden));
  TRY_BIND(latent.compress,
           binder.weight<Split::kNone>({{names.attention("kv_a_proj_with_mqa"), of.row_dim()}}, spec.hidden));
  LatentLayer& layer = latent.layer;
  TRY_BIND(layer.norm,
           binder.norm(names.attention("kv_a_layernorm"), of.rank, kEps, {spec.norm_rule.one_plus, of.norm_scale}));
  TRY_BIND(LatentHeads heads, binder.latent_heads(names.attention("kv_b_proj"), attention.spec.heads, of));
  layer.keys = std::move(heads.keys);
  layer.values = std::move(heads.values);
  layer.spec = of;
  layer.rope = std::exchange(attention.spec.rope, RopeSpec{});
  layer.attn = std::move(attention);
  return latent;
}

Result<Decoder::Feed> Decoder::bind_feed(const DecoderSpec& spec, int64_t width, const std::string& prefix,
                                         Binder& binder) {
  TRY_BIND(auto gate_up, binder.weight<Split::kColumns>({{prefix + "gate_proj", width}, {prefix + "up_proj", width}},
                                                        spec.hidden, spec.ffn_bias));
  TRY_BIND(auto down, binder.weight<Split::kRows>({{prefix + "down_proj", spec.hidden}}, width, spec.ffn_bias));
  return Feed{std::move(gate_up), std::move(down)};
}

/// The feed-forward branch: one part, or experts, with a part that every row meets where the family has one.
Status Decoder::bind_branch(const DecoderSpec& spec, const LayerSpec& of, const LayerNames& names, Binder& binder,
                            Layer& layer) {
  if (of.ffn > 0) {
    TRY_BIND(layer.feed, bind_feed(spec, of.ffn, names.feed(), binder));
  }
  if (!of.experts) return {};
  CHECK(!spec.post_norms || of.ffn + of.shared_ffn == 0, "{}: experts beside another part, and a norm after both",
        spec.family);
  CHECK(of.ffn == 0 || of.shared_ffn == 0, "{}: experts beside a part of its own and shared ones", spec.family);
  CHECK(!of.experts_late || of.ffn > 0, "{}: a layer of experts alone, whose answers join in the next", spec.family);
  layer.experts_late = of.experts_late;
  TRY_BIND(layer.experts, bind_experts(spec, *of.experts, names.prefix, binder));
  if (of.shared_ffn > 0) {
    TRY_BIND(layer.feed, bind_feed(spec, of.shared_ffn, layer.experts->name + ".shared_experts.", binder));
  }
  return {};
}

Result<Decoder::Layer> Decoder::bind_layer(const DecoderSpec& spec, const CacheSpec& cache, const LayerNames& names,
                                           Binder& binder) {
  const LayerSpec& of = spec.layers[static_cast<size_t>(cache.layer)];
  const AttnSpec& attn = of.attn;
  auto norm = [&](const char* name) {
    return binder.norm(names.norm(name), spec.hidden, spec.norm_eps, spec.norm_rule);
  };
  Layer layer;
  TRY_BIND(layer.attn_norm, norm("input_layernorm"));
  if (!attn.latent) {
    TRY_BIND(layer.qkv, binder.weight<Split::kColumns>({{names.attention("q_proj"), attn.q_cols(), attn.heads},
                                                        {names.attention("k_proj"), attn.kv_cols(), attn.kv_heads},
                                                        {names.attention("v_proj"), attn.kv_cols(), 0}},
                                                       spec.hidden, spec.qkv_bias));
  }
  TRY_BIND(layer.attn, bind_attention(spec, cache, names, binder));
  if (attn.latent) {
    TRY_BIND(layer.latent, bind_latent(spec, layer.attn, names, binder));
  }
  const int64_t answer_cols = attn.latent ? int64_t{attn.heads} * attn.latent->value_dim : attn.q_cols();
  TRY_BIND(layer.output,
           binder.weight<Split::kRows>({{names.attention("o_proj"), spec.hidden, 0}}, answer_cols, spec.output_bias));
  if (spec.post_norms) {
    TRY_BIND(layer.attn_post_norm, norm("post_attention_layernorm"));
  }
  TRY_BIND(layer.ffn_norm, norm(spec.post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm"));
  TRY_STATUS(bind_branch(spec, of, names, binder, layer));
  if (spec.post_norms) {
    TRY_BIND(layer.ffn_post_norm, norm("post_feedforward_layernorm"));
  }
  return layer;
}

Result<std::vector<Decoder::Ngrams>> Decoder::bind_ngrams(const DecoderSpec& spec, const std::string& prefix,
                                                          Binder& binder) {
  const std::string name = prefix + "ngram_embeddings.";
  const auto count = static_cast<int64_t>(spec.ngrams.size());
  if (binder.has(fmt::format("{}embedders.{}", name, count))) {
    return unsupported("{}embedders.{} is stored, and the configuration asks for {} tables of n-grams", name, count,
                       count);
  }
  std::vector<Ngrams> all;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t width = spec.hidden / count;
    Ngrams one;
    one.spec = spec.ngrams[static_cast<size_t>(i)];
    TRY_BIND(one.table, binder.embedding(fmt::format("{}embedders.{}", name, i), one.spec.rows, width, false));
    TRY_BIND(one.projection,
             binder.weight<Split::kNone>({{fmt::format("{}post_projs.{}", name, i), spec.hidden}}, width));
    all.push_back(std::move(one));
  }
  return all;
}

Result<Decoder> Decoder::bind(DecoderSpec spec, Binder& binder) {
  Decoder decoder;
  std::string prefix = stored_prefix(spec, binder);
  // A head that is stored all the same is the one its makers meant, whatever the flag says.
  bool tied = spec.tied && !binder.has(spec.head);
  TRY_BIND(decoder.embedding_, binder.embedding(prefix + "embed_tokens", spec.vocab, spec.hidden, tied));
  TRY_BIND(decoder.ngrams_, bind_ngrams(spec, prefix, binder));
  // The stored type and scales of the cache are the engine's; binding needs each layer's class alone.
  for (const CacheSpec& cache : cache_specs(spec, CodecId::kF32)) {
    TRY_BIND(Layer layer, bind_layer(spec, cache, LayerNames(spec, prefix, cache.layer), binder));
    decoder.layers_.push_back(std::move(layer));
  }
  CHECK(!decoder.layers_.back().experts_late, "{}: answers of the last layer's experts have no layer to join in",
        spec.family);
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
    parts.push_back({layer, op, weight.name, weight.matrix.get(), nullptr, nullptr});
  };
  product(-1, "embed", embedding_);
  for (const Ngrams& ngrams : ngrams_) {
    product(-1, "embed", ngrams.table);
    product(-1, "ngram_projection", ngrams.projection);
  }
  for (const Layer& layer : layers_) {
    const int index = layer.attn.layer;
    if (layer.latent) {
      if (layer.latent->q_down) product(index, "q_down", *layer.latent->q_down);
      product(index, "q", layer.latent->q);
      product(index, "compress", layer.latent->compress);
      add_heads(parts, index, "latent_keys", layer.latent->layer.keys);
      add_heads(parts, index, "latent_values", layer.latent->layer.values);
    } else {
      product(index, "qkv", layer.qkv);
    }
    parts.push_back({index, "attend", "", nullptr, layer.latent ? &layer.latent->layer.attn : &layer.attn, nullptr});
    product(index, "output", layer.output);
    if (layer.experts) {
      product(index, "router", layer.experts->router);
      add_experts(parts, index, "experts_gate_up", layer.experts->spec, layer.experts->gate_up);
      add_experts(parts, index, "experts_down", layer.experts->spec, layer.experts->down);
    }
    if (layer.feed) {
      const bool shared = spec_.layers[static_cast<size_t>(index)].ffn == 0;
      product(index, shared ? "shared_gate_up" : "gate_up", layer.feed->gate_up);
      product(index, shared ? "shared_down" : "down", layer.feed->down);
    }
  }
  product(-1, "head", head_);
  return parts;
}

Shard Decoder::run_latent(Ops& ops, const Latent& latent, const Value& x) const {
  const Value compressed = ops.linear(x, latent.compress);
  if (!latent.q_down) return ops.attend_latent(ops.linear(x, latent.q), compressed, latent.layer);
  const Value narrow = ops.linear(x, *latent.q_down);
  return ops.attend_latent(ops.linear(ops.rms_norm(narrow, *latent.q_norm), latent.q), compressed, latent.layer);
}

Partial Decoder::run_feed(Ops& ops, const Feed& feed, const Value& x) const {
  return ops.linear(ops.gate(ops.linear(x, feed.gate_up), GateSpec{spec_.act}), feed.down);
}

Value Decoder::embed(Ops& ops) const {
  const float share = 1.0f / static_cast<float>(1 + ngrams_.size());
  Value x = ops.embed(embedding_, spec_.embed_scale * share);
  for (const Ngrams& ngrams : ngrams_) {
    x = ops.add(ops.linear(ops.embed_ngrams(ngrams.table, ngrams.spec, share), ngrams.projection), std::move(x));
  }
  return x;
}

Value Decoder::run_branch(Ops& ops, const Layer& layer, Value x, std::optional<Partial>& late) const {
  std::optional<Partial> own, chosen;
  {
    const Value normed = ops.rms_norm(x, layer.ffn_norm);
    if (layer.feed) own = run_feed(ops, *layer.feed, normed);
    if (layer.experts) chosen = ops.experts(normed, *layer.experts);
  }
  if (chosen && own) x = ops.reduce_add(*std::move(own), std::move(x));
  if (layer.experts_late) {
    late = std::move(chosen);
    return x;
  }
  x = join(ops, chosen ? *std::move(chosen) : *std::move(own), layer.ffn_post_norm, std::move(x));
  if (late) x = ops.reduce_add(*std::exchange(late, std::nullopt), std::move(x));
  return x;
}

Value Decoder::run_layer(Ops& ops, const Layer& layer, Value x, std::optional<Partial>& late) const {
  auto attended = [&] {
    const Value normed = ops.rms_norm(x, layer.attn_norm);
    if (layer.latent) return ops.linear(run_latent(ops, *layer.latent, normed), layer.output);
    return ops.linear(ops.attend(ops.linear(normed, layer.qkv), layer.attn), layer.output);
  }();
  return run_branch(ops, layer, join(ops, std::move(attended), layer.attn_post_norm, std::move(x)), late);
}

Value Decoder::forward(Ops& ops) const {
  Value x = embed(ops);
  std::optional<Partial> late;  // answers of experts that join one layer later
  for (const Layer& layer : layers_) x = run_layer(ops, layer, std::move(x), late);
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
