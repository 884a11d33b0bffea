#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/attn_spec.h"
#include "ops/backend.h"
#include "ops/weight.h"

namespace vernier {

enum class BiasRule : uint8_t { kNone, kRequired };
/// What a norm multiplies by, of the checkpoint's number w.
struct NormRule {
  bool one_plus = false;  ///< 1 + w, where the checkpoint's dialect stores it so
  float scale = 1;        ///< of all

  static const NormRule kPlain, kOnePlus;
  bool operator==(const NormRule&) const = default;
};
inline constexpr NormRule NormRule::kPlain{};
inline constexpr NormRule NormRule::kOnePlus{true};

/// One matrix of a (fused) weight as the model names it, in Hugging Face spelling without ".weight".
struct WeightPart {
  std::string name;  ///< "model.layers.0.self_attn.q_proj"
  int64_t rows = 0;
  /// For dialects that store rotary rows interleaved: head count to undo that by; 0 for rows that rotate nothing.
  int rope_heads = 0;
  /// The two halves of the rows alternate in the checkpoint (gate, up, gate, up, ...); the model is given one half
  /// behind the other.
  bool halves_alternate = false;
  /// Stored as [cols, rows] where the checkpoint holds it as plain numbers.
  bool dense_is_transposed = false;
};

/// The two matrices of each head of a layer's LatentLayer.
struct LatentHeads {
  std::vector<Weight<Split::kNone>> keys;
  std::vector<Weight<Split::kNone>> values;
};

/// Names every weight of a model once; an implementation loads it, counts its bytes, or invents it. A model's `bind` is
/// the same function for all three. Every shape is checked against what the configuration implies.
class Binder {
 public:
  virtual ~Binder() = default;

  template <Split S>
  Result<Weight<S>> weight(const std::vector<WeightPart>& parts, int64_t cols, BiasRule bias = BiasRule::kNone) {
    TRY_BIND(Bound bound, bind_matrix(parts, cols, bias, S, PackUse::kLinear));
    return Weight<S>{std::move(bound.name), std::move(bound.matrix), std::move(bound.bias), bound.input_scale};
  }
  /// The embedding table [vocab, hidden]. `tied` asks for a copy that serves as the head, too.
  Result<Weight<Split::kNone>> embedding(const std::string& name, int64_t vocab, int64_t hidden, bool tied) {
    PackUse use = tied ? PackUse::kTiedEmbeddingHead : PackUse::kEmbedding;
    TRY_BIND(Bound bound, bind_matrix({{name, vocab, 0}}, hidden, BiasRule::kNone, Split::kNone, use));
    return Weight<Split::kNone>{std::move(bound.name), std::move(bound.matrix), nullptr, {}};
  }
  /// The matrix [experts, hidden] by whose products experts are chosen.
  Result<Weight<Split::kNone>> router(const std::string& name, int64_t experts, int64_t hidden, BiasRule bias) {
    TRY_BIND(Bound bound, bind_matrix({{name, experts}}, hidden, bias, Split::kNone, PackUse::kRouter));
    return Weight<Split::kNone>{std::move(bound.name), std::move(bound.matrix), std::move(bound.bias), {}};
  }
  virtual Result<Norm> norm(const std::string& name, int64_t size, float eps, NormRule rule) = 0;
  virtual Result<LayerNorm> layer_norm(const std::string& name, int64_t size, float eps) = 0;
  /// Out of one matrix [heads * (nope_dim + value_dim), rank], in which each head's keys precede its values.
  virtual Result<LatentHeads> latent_heads(const std::string& name, int heads, const LatentSpec& spec) = 0;
  /// Numbers that stand on their own, named in full: "model.layers.0.self_attn.sinks".
  virtual Result<std::shared_ptr<const PackedVector>> vector(const std::string& name, int64_t size) = 0;
  /// Whether the checkpoint stores this matrix; for heads that may be tied, and for spellings that differ.
  virtual bool has(const std::string& name) const = 0;

 protected:
  struct Bound {
    std::string name;
    std::shared_ptr<const PackedMatrix> matrix;
    std::shared_ptr<const PackedVector> bias;
    std::optional<float> input_scale;
  };
  virtual Result<Bound> bind_matrix(const std::vector<WeightPart>& parts, int64_t cols, BiasRule bias, Split split,
                                    PackUse use) = 0;
};

}  // namespace vernier
