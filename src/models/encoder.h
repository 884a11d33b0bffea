#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "models/decoder.h"
#include "models/encoder_spec.h"

namespace vernier {

/// The one dense encoder: its spec and its weights. Each sequence is whole in its step, its rows see each other, and
/// nothing is cached. Reads no data. Immutable once bound; any thread may run it, each with its own Ops.
class Encoder {
 public:
  /// Names every weight to `binder`, which loads, counts or invents it. Fails as the binder does.
  static Result<Encoder> bind(EncoderSpec spec, Binder& binder);

  /// Ends of the names of tensors that checkpoints hold and that no hidden state depends on: the pooler, which serves
  /// a task of training, and positions, which are counted.
  static std::span<const std::string> unneeded_tensors();

  const EncoderSpec& spec() const { return spec_; }
  /// Everything that a backend chooses a kernel for. Points into this encoder.
  std::vector<DecoderPart> parts() const;

  /// Hidden rows of all tokens of the step that `ops` began: [rows, hidden].
  Value forward(Ops& ops) const;

 private:
  struct Layer {
    Weight<Split::kColumns> qkv;
    AttnLayer attn;
    Weight<Split::kRows> output;
    LayerNorm attn_norm;
    Weight<Split::kColumns> up;
    Weight<Split::kRows> down;
    LayerNorm ffn_norm;
  };

  static Result<Layer> bind_layer(const EncoderSpec& spec, int index, const std::string& prefix, Binder& binder);

  EncoderSpec spec_;
  Weight<Split::kNone> tokens_;
  Weight<Split::kNone> positions_;
  Weight<Split::kNone> token_types_;
  LayerNorm embedding_norm_;
  std::vector<Layer> layers_;
};

}  // namespace vernier
