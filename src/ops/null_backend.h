#pragma once

#include <string>
#include <vector>

#include "ops/backend.h"

namespace vernier {

/// Ops that compute shapes, bytes and a trace and no data: what a step would need, known before anything is loaded.
/// Checks shapes as every backend does. Bytes count activations as float32.
class NullOps final : public Ops, private ActivationOwner {
 public:
  explicit NullOps(int64_t max_rows) : max_rows_(max_rows) {}

  int64_t peak_bytes() const { return peak_bytes_; }                ///< of live activations, over all steps so far
  const std::vector<std::string>& trace() const { return trace_; }  ///< one line for each op, all steps so far

  void begin(const StepView& step) override;
  Value embed(const Weight<Split::kNone>& table, float scale) override;
  Value look_up(const Weight<Split::kNone>& table, LookUp by) override;
  Value embed_ngrams(const Weight<Split::kNone>& table, const NgramSpec& spec, float scale) override;
  Value rms_norm(const Value& x, const Norm& norm) override;
  Value layer_norm(const Value& x, const LayerNorm& norm) override;
  Value linear(const Value& x, const Weight<Split::kNone>& weight) override;
  Shard linear(const Value& x, const Weight<Split::kColumns>& weight) override;
  Partial linear(const Shard& x, const Weight<Split::kRows>& weight) override;
  Shard attend(const Shard& qkv, const AttnLayer& layer) override;
  Shard attend_latent(const Shard& q, const Value& compressed, const LatentLayer& layer) override;
  Shard gate(const Shard& gate_up, const GateSpec& spec) override;
  Shard activate(const Shard& x, Act act) override;
  Partial experts(const Value& x, const ExpertsLayer& layer) override;
  Value reduce(Partial x) override;
  Value reduce_add(Partial x, Value residual) override;
  Value add(Value x, Value residual) override;
  Value select_rows(const Value& x) override;
  Value soft_cap(Value logits, float cap) override;
  /// An error: there are no numbers to draw from.
  Result<SampledRows> sample(const Value& logits, std::span<const SampleSpec> specs) override;
  /// An error, too.
  Result<std::vector<float>> read(const Value& x) override;

 private:
  void release(int32_t id) override;
  template <ActivationKind K>
  Activation<K> make(int64_t rows, int64_t cols);
  template <ActivationKind To, ActivationKind From, Split S>
  Activation<To> product(const Activation<From>& x, const Weight<S>& weight);
  template <Split S>
  static void check_product(int64_t cols, const Weight<S>& weight);

  StepView step_;
  int64_t max_rows_;
  std::vector<int64_t> bytes_;  // by id of this step
  int64_t live_ = 0;
  int64_t live_bytes_ = 0;
  int64_t peak_bytes_ = 0;
  std::vector<std::string> trace_;
};

/// Counts bytes instead of holding them: packing keeps extents, caches have a size and no memory.
class NullBackend final : public Backend {
 public:
  std::string_view name() const override { return "null"; }
  Features features() const override;
  Result<std::shared_ptr<const PackedMatrix>> pack(std::span<const QTensor> segments, PackUse use) override;
  Result<std::shared_ptr<const PackedVector>> upload(std::span<const float> values) override;
  Result<std::unique_ptr<KvStore>> make_kv(const KvLayout& layout) override;
  Result<std::unique_ptr<Ops>> make_ops(KvStore& kv, int64_t max_rows) override;
  std::vector<Choice> explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const override;
  Choice explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const override;

  /// Stored bytes of everything packed and uploaded so far.
  int64_t weight_bytes() const { return weight_bytes_; }

 private:
  int64_t weight_bytes_ = 0;
};

}  // namespace vernier
