#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ops/attn_spec.h"
#include "ops/experts_spec.h"
#include "ops/gate_spec.h"
#include "ops/ngram_spec.h"
#include "ops/sample_spec.h"
#include "ops/step_view.h"
#include "ops/value.h"
#include "ops/weight.h"

namespace vernier {

/// Which row of a table each row of the step takes.
enum class LookUp : uint8_t {
  kPosition,
  kFirst,  ///< row 0 for all
};

/// One layer's attention: what it is, its cache, and its small weights (null where the spec has none).
struct AttnLayer {
  AttnSpec spec;
  int layer = 0;                               ///< index of its CacheSpec
  int cache_class = 0;                         ///< index of its table in StepView::tables
  std::shared_ptr<const PackedVector> q_norm;  ///< [head_dim]
  std::shared_ptr<const PackedVector> k_norm;  ///< [head_dim]
  float qk_norm_eps = 0;
  std::shared_ptr<const PackedVector> sinks;  ///< [heads]
};

/// One layer's attention over compressed rows.
struct LatentLayer {
  AttnLayer attn;  ///< over the cached rows, [rope_dim | rank] each: one KV head; nothing is rotated there any more
  LatentSpec spec;
  RopeSpec rope;
  Norm norm;                                 ///< of the `rank` numbers
  std::vector<Weight<Split::kNone>> keys;    ///< of each head, [rank, nope_dim]: from its query to what meets the rows
  std::vector<Weight<Split::kNone>> values;  ///< of each head, [value_dim, rank]: from the rows' mean to its answer
};

/// One layer's experts: what they are, and their weights.
struct ExpertsLayer {
  std::string name;  ///< of the layer's experts in the checkpoint, for reports
  ExpertsSpec spec;
  Weight<Split::kNone> router;                     ///< [experts, hidden]; its bias is part of the logits
  std::shared_ptr<const PackedVector> correction;  ///< [experts] of scores, for the choice alone; null: none
  std::vector<Weight<Split::kColumns>> gate_up;    ///< of each expert with weights, [2 width, hidden]
  std::vector<Weight<Split::kRows>> down;          ///< of each expert with weights, [hidden, width]
};

/// The coarse operations: the only thing a model sees. Every one exists on every backend; what differs is speed, never
/// meaning. Shapes are the caller's duty and are CHECKed. One thread; handles die before their Ops.
///
/// A result may be pending. `begin` starts a step: no handle of an earlier step may still live.
class Ops {
 public:
  virtual ~Ops() = default;

  virtual void begin(const StepView& step) = 0;

  /// Rows of the table for the step's tokens, times `scale`: [rows, hidden].
  virtual Value embed(const Weight<Split::kNone>& table, float scale) = 0;
  /// Other rows of a table for the rows of the step: [rows, hidden].
  virtual Value look_up(const Weight<Split::kNone>& table, LookUp by) = 0;
  /// Rows of a table for the n-grams that end at the step's tokens, times `scale`: [rows, cols].
  virtual Value embed_ngrams(const Weight<Split::kNone>& table, const NgramSpec& spec, float scale) = 0;
  virtual Value rms_norm(const Value& x, const Norm& norm) = 0;
  virtual Value layer_norm(const Value& x, const LayerNorm& norm) = 0;

  /// x W^T + bias.
  virtual Value linear(const Value& x, const Weight<Split::kNone>& weight) = 0;
  virtual Shard linear(const Value& x, const Weight<Split::kColumns>& weight) = 0;
  virtual Partial linear(const Shard& x, const Weight<Split::kRows>& weight) = 0;

  /// From [rows, q | k | v] columns: qk-norm, rope, write of K and V to the cache, attention over the sequence's
  /// visible keys. [rows, heads * head_dim]. Without `causal` nothing is written: every row sees all rows that its
  /// sequence has in this step, which are all of it.
  virtual Shard attend(const Shard& qkv, const AttnLayer& layer) = 0;
  /// From queries [rows, heads * query_dim] and compressed rows [rows, rank | rope_dim]: norm and rope, write of the
  /// row to the cache, attention over the sequence's visible rows. [rows, heads * value_dim].
  virtual Shard attend_latent(const Shard& q, const Value& compressed, const LatentLayer& layer) = 0;
  virtual Shard gate(const Shard& gate_up, const GateSpec& spec) = 0;
  virtual Shard activate(const Shard& x, Act act) = 0;
  /// For each row its chosen experts' answers, weighted and summed in order of the experts' numbers: [rows, hidden].
  virtual Partial experts(const Value& x, const ExpertsLayer& layer) = 0;

  /// Sum over ranks.
  virtual Value reduce(Partial x) = 0;
  /// Sum over ranks, plus the residual.
  virtual Value reduce_add(Partial x, Value residual) = 0;
  virtual Value add(Value x, Value residual) = 0;

  /// The step's sampled rows.
  virtual Value select_rows(const Value& x) = 0;
  /// cap * tanh(x / cap); `cap` above 0.
  virtual Value soft_cap(Value logits, float cap) = 0;

  /// One token for each row of logits, under its spec; a row of which nothing can be drawn fails alone. Ends the step:
  /// all of it has run, or the error says what failed.
  virtual Result<SampledRows> sample(const Value& logits, std::span<const SampleSpec> specs) = 0;
  /// The numbers behind a handle, [rows, cols], once they are computed. The step may go on.
  virtual Result<std::vector<float>> read(const Value& x) = 0;
};

}  // namespace vernier
