#pragma once

#include <memory>
#include <vector>

#include "backends/cpu/aligned_buffer.h"
#include "backends/cpu/attention.h"
#include "backends/cpu/cpu_experts.h"
#include "backends/cpu/cpu_kv.h"
#include "backends/cpu/cpu_latent.h"
#include "backends/cpu/kernels/rows.h"
#include "backends/cpu/linear.h"
#include "base/thread_pool.h"
#include "ops/ops.h"

namespace vernier {

const RowKernels& row_kernels(Isa isa);

/// Ops on host memory. Activations are float32 rows in buffers that later steps use again, so that a steady stream of
/// steps allocates nothing.
///
/// A norm and a gate are pending: the product that takes one in runs it row by row just before it multiplies, and a
/// second taker makes it once for all that follow. A row-cut product is pending until its reduction names the residual
/// that it is added to. One thread; the pool, the store and the weights outlive it.
class CpuOps final : public Ops, private ActivationOwner {
 public:
  CpuOps(Isa isa, ThreadPool& pool, CpuKvStore& kv, int64_t max_rows);

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
  Result<SampledRows> sample(const Value& logits, std::span<const SampleSpec> specs) override;
  Result<std::vector<float>> read(const Value& x) override;

 private:
  using Id = int32_t;
  static constexpr Id kNone = -1;

  /// What a node stands for.
  enum class State : uint8_t {
    kReady,      ///< numbers in its buffer
    kNorm,       ///< the norm of `source`
    kLayerNorm,  ///< its layer norm
    kGate,       ///< the gate of `source`
    kActivated,  ///< its activation
    kProduct,    ///< `source` times a matrix
  };

  /// One activation: used by its handle and by the pending nodes made of it.
  struct Node {
    State state = State::kReady;
    int uses = 0;
    bool taken = false;  // a pending norm or gate that a product has taken in before
    Id source = kNone;
    int64_t rows = 0;
    int64_t cols = 0;
    Id buffer = kNone;
    const float* norm_weight = nullptr;
    const float* norm_bias = nullptr;
    float norm_eps = 0;
    Act act = Act::kSilu;
    GateSpec gate;
    const CpuMatrix* matrix = nullptr;
    const float* bias = nullptr;
  };
  struct RowContext {
    const RowKernels* kernels;
    const Node* node;
    int64_t source_cols;
  };

  void release(int32_t id) override;
  template <ActivationKind K>
  Activation<K> handle(Id id);
  Id make_node(State state, int64_t rows, int64_t cols);
  Id make_ready(int64_t rows, int64_t cols);
  Value table_rows(const Weight<Split::kNone>& table, std::span<const int32_t> rows, float scale);
  Id make_pending(State state, Id source, int64_t cols);
  Id take_buffer(int64_t numbers);
  void drop(Id id);
  Node& node(Id id) { return nodes_[static_cast<size_t>(id)]; }
  float* numbers(Id id) { return buffers_[static_cast<size_t>(node(id).buffer)].data(); }

  static void run_row(const void* context, const float* row, float* out, int64_t cols);
  RowContext row_context(Id id);
  const float* ready(Id id);
  void compute_rows(Id id, float* out);
  void multiply(Id source, const CpuMatrix& matrix, const LinearOutput& output);
  void finish_product(Id product, float* out, bool add_into_out);
  Id product_of(Id x, const PackedMatrix& matrix, const PackedVector* bias);
  Id own_or_copy(Id id);
  void add_numbers(const float* added, int64_t count, float* out);
  Result<SampledToken> sample_one(const float* logits, int64_t vocab, const SampleSpec& spec);
  SampledToken pick_largest(const float* logits, int64_t vocab, float most, bool logprob);
  float largest_of(const float* logits, int64_t vocab);

  const RowKernels& rows_;
  ThreadPool& pool_;
  CpuKvStore& kv_;
  int64_t max_rows_;
  Attention attention_;
  LinearScratch scratch_;
  CpuExperts experts_;
  CpuLatent latent_;
  StepView step_;
  int64_t live_ = 0;
  std::vector<Node> nodes_;
  std::vector<Id> free_nodes_;
  std::vector<FloatBuffer> buffers_;
  std::vector<Id> free_buffers_;
  std::vector<float> chunk_largest_;
  std::vector<double> chunk_sums_;
  FloatBuffer edited_;
  std::vector<int32_t> first_rows_;  // a zero for each row
  std::vector<int32_t> ngram_rows_;
};

}  // namespace vernier
