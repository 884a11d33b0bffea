#pragma once

#include <vector>

#include "models/decoder_spec.h"
#include "ops/binder.h"
#include "ops/ops.h"

namespace vernier {

/// One product or attention of a decoder, in the order of `forward`; for reports, which look and do not run.
struct DecoderPart {
  int layer = -1;                        ///< -1: before or after the layers
  std::string op;                        ///< "embed", "qkv", "attend", "output", "gate_up", "down", "head"
  std::string weights;                   ///< names in the checkpoint; empty for attention
  const PackedMatrix* matrix = nullptr;  ///< null for attention
  const AttnLayer* attn = nullptr;       ///< null for a product
};

/// The one dense decoder: its spec and its weights. Reads no data, so the same `forward` runs on every backend, dry or
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
  struct Layer {
    Norm attn_norm;
    Weight<Split::kColumns> qkv;
    AttnLayer attn;
    Weight<Split::kRows> output;
    std::optional<Norm> attn_post_norm;
    Norm ffn_norm;
    Weight<Split::kColumns> gate_up;
    Weight<Split::kRows> down;
    std::optional<Norm> ffn_post_norm;
  };

  static Result<Layer> bind_layer(const DecoderSpec& spec, const CacheSpec& cache, const std::string& prefix,
                                  Binder& binder);
  Value run_layer(Ops& ops, const Layer& layer, Value x) const;

  DecoderSpec spec_;
  Weight<Split::kNone> embedding_;
  std::vector<Layer> layers_;
  Norm final_norm_;
  Weight<Split::kNone> head_;
};

}  // namespace vernier
