#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ops/attn_spec.h"
#include "ops/sample_spec.h"
#include "ops/step_view.h"
#include "ops/value.h"
#include "ops/weight.h"

namespace vernier {

enum class Act : uint8_t {
  kSilu,
  kGeluTanh,  ///< the approximation
  kGelu,      ///< x times the normal distribution's integral up to x
};

/// Which row of a table each row of the step takes.
enum class LookUp : uint8_t {
  kPosition,
  kFirst,  ///< row 0 for all
};

/// act(gate) * up over [gate | up] columns.
struct GateSpec {
  Act act = Act::kSilu;
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
  virtual Shard gate(const Shard& gate_up, const GateSpec& spec) = 0;
  virtual Shard activate(const Shard& x, Act act) = 0;

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
