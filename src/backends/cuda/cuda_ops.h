#pragma once

#include <vector>

#include "backends/cuda/cuda_attention.h"
#include "backends/cuda/cuda_entry.h"
#include "backends/cuda/cuda_experts.h"
#include "backends/cuda/cuda_kv.h"
#include "backends/cuda/cuda_sampler.h"
#include "backends/cuda/cuda_step.h"
#include "ops/ops.h"

namespace vernier {

/// Ops on a GPU. Activations are float32 rows in device buffers that later steps use again; nothing waits but `sample`
/// and `read`, which tell a step's first failure. A norm and a product are pending until an op takes them in: few rows
/// are normed and gated inside a product. Tokens are drawn on the device but for what CudaSampler leaves to the
/// definition; an n-gram's row is hashed on the host. One thread; the device, the store and the weights outlive it.
class CudaOps final : public Ops, private ActivationOwner {
 public:
  CudaOps(CudaDevice& device, CudaKvStore& kv, int64_t max_rows, const CudaOptions& options);
  ~CudaOps() override { queue_.send(); }

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

  /// An activation's memory; free where it has no use. Pending where it has a source: that times `matrix`, or that
  /// normed where there is none.
  struct Node {
    int uses = 0;
    int64_t rows = 0;
    int64_t cols = 0;
    DeviceBuffer buffer;
    Id source = kNone;
    const PackedMatrix* matrix = nullptr;
    const float* bias = nullptr;
    const float* norm = nullptr;
    float norm_eps = 0;
  };

  void release(int32_t id) override;
  Id make(int64_t rows, int64_t cols);
  template <ActivationKind K>
  Activation<K> handle(Id id);
  Node& node(Id id) { return nodes_[static_cast<size_t>(id)]; }
  cuda::Rows rows_of(Id id) { return {node(id).buffer.as<float>(), node(id).cols}; }
  /// Numbers that an op reads, made now if they are pending.
  template <ActivationKind K>
  cuda::Rows rows_of(const Activation<K>& x) {
    return rows_of(ready(x.id(*this)));
  }
  void drop(Id id);
  Id make_pending(Id source, int64_t cols);
  void finish_product(Id id, cuda::Rows out, bool add, std::optional<cuda::GateRule> gate = {});
  Id ready(Id id);
  Id own_or_copy(Id id);
  Id sum_of(Id x, Id residual);
  Id product_of(Id x, const PackedMatrix& matrix, const PackedVector* bias);
  Value table_rows(const Weight<Split::kNone>& table, std::span<const int32_t> on_host, const int32_t* rows,
                   float factor);

  CudaDevice& device_;
  CudaKvStore& kv_;
  int64_t max_rows_;
  LaunchQueue queue_{device_};
  CudaStep step_;
  CudaProducts products_;
  CudaAttention attention_;
  CudaExperts experts_;
  int64_t live_ = 0;
  std::vector<Node> nodes_;
  std::vector<int32_t> ngram_rows_;
  CudaSampler sampler_{device_, queue_};
};

}  // namespace vernier
