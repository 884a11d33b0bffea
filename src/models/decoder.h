#pragma once

#include <vector>

#include "models/decoder_spec.h"
#include "ops/binder.h"
#include "ops/ops.h"

namespace vernier {

/// One product or attention of a decoder, in the order of `forward`; for reports, which look and do not run.
struct DecoderPart {
  int layer = -1;                        ///< -1: before or after the layers
  std::string op;                        ///< "embed", "qkv", "attend", "router", "experts_gate_up", "down", "head", ...
  std::string weights;                   ///< names in the checkpoint; empty for attention
  const PackedMatrix* matrix = nullptr;  ///< null for attention; the first expert's where experts' are alike
  const AttnLayer* attn = nullptr;       ///< null for a product
  const ExpertsSpec* experts = nullptr;  ///< set for experts' products, of which each row meets some
  int64_t alike = 1;                     ///< matrices that this part stands for: experts that are packed alike

  /// Rows of a step of `rows` that one of the matrices meets, if experts are chosen evenly.
  int64_t rows_of(int64_t rows) const;
  /// Of all the matrices, those that one row meets.
  double matrices_of_row() const;
};

/// The one decoder: its spec and its weights. Reads no data, so the same `forward` runs on every backend, dry or
/// not. Immutable once bound; any thread may run it, each with its own Ops.
class Decoder {
 public:
  /// Names every weight to `binder`, which loads, counts or invents it. Fails as the binder does.
  static Result<Decoder> bind(DecoderSpec spec, Binder& binder);

  const DecoderSpec& spec() const { return spec_; }
  /// Everything that a backend chooses a kernel for. Points into this decoder.
  std::vector<DecoderPart> parts() const;

  /// Hidden rows of all tokens of the step that `ops` began, before the final norm: [rows, hidden].
  Value forward(Ops& ops) const;
  /// Those rows after the final norm, as embeddings are made of them: [rows, hidden].
  Value normed(Ops& ops, const Value& hidden) const;
  /// Logits of the step's sampled rows: [sampled rows, vocab].
  Value head(Ops& ops, const Value& hidden) const;

 private:
  /// A gated feed-forward part.
  struct Feed {
    Weight<Split::kColumns> gate_up;
    Weight<Split::kRows> down;
  };
  /// What makes queries and compressed rows in place of q, k and v.
  struct Latent {
    std::optional<Weight<Split::kNone>> q_down;
    std::optional<Norm> q_norm;
    Weight<Split::kColumns> q;
    Weight<Split::kNone> compress;
    LatentLayer layer;
  };
  /// A table of n-grams' embeddings.
  struct Ngrams {
    Weight<Split::kNone> table;
    Weight<Split::kNone> projection;
    NgramSpec spec;
  };
  struct Layer {
    Norm attn_norm;
    Weight<Split::kColumns> qkv;  // not where rows are compressed
    AttnLayer attn;
    std::optional<Latent> latent;
    Weight<Split::kRows> output;
    std::optional<Norm> attn_post_norm;
    Norm ffn_norm;
    std::optional<Feed> feed;  // the layer's own, or that of the experts every row meets
    std::optional<ExpertsLayer> experts;
    bool experts_late = false;
    std::optional<Norm> ffn_post_norm;
  };
  struct LayerNames;

  static Result<std::vector<Ngrams>> bind_ngrams(const DecoderSpec& spec, const std::string& prefix, Binder& binder);
  static Result<Layer> bind_layer(const DecoderSpec& spec, const CacheSpec& cache, const LayerNames& names,
                                  Binder& binder);
  static Result<AttnLayer> bind_attention(const DecoderSpec& spec, const CacheSpec& cache, const LayerNames& names,
                                          Binder& binder);
  static Result<Latent> bind_latent(const DecoderSpec& spec, AttnLayer attention, const LayerNames& names,
                                    Binder& binder);
  static Result<Feed> bind_feed(const DecoderSpec& spec, int64_t width, const std::string& prefix, Binder& binder);
  static Status bind_branch(const DecoderSpec& spec, const LayerSpec& of, const LayerNames& names, Binder& binder,
                            Layer& layer);
  Value embed(Ops& ops) const;
  Shard run_latent(Ops& ops, const Latent& latent, const Value& x) const;
  Partial run_feed(Ops& ops, const Feed& feed, const Value& x) const;
  Value run_branch(Ops& ops, const Layer& layer, Value x, std::optional<Partial>& late) const;
  Value run_layer(Ops& ops, const Layer& layer, Value x, std::optional<Partial>& late) const;

  DecoderSpec spec_;
  Weight<Split::kNone> embedding_;
  std::vector<Ngrams> ngrams_;
  std::vector<Layer> layers_;
  Norm final_norm_;
  Weight<Split::kNone> head_;
};

}  // namespace vernier
