#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "tune/product_kernels.h"

namespace vernier {

/// What a product is for, beyond its sizes.
enum class ProductUse : uint8_t {
  kLinear,
  kExpertsGated,  ///< rows of a gate and of what it gates, half and half
  kExperts,
};

/// What a plan for a chip may do, and must.
struct PlanRules {
  DeviceFeatures device;
  DType result = DType::kBF16;
  bool may_requantise = true;
  std::string kernel;  ///< the one that is asked for; empty: the fastest that can
};

/// Says which kernels an accelerator would run a model with, without one: binding keeps the checkpoint's numbers where
/// they are. It runs nothing; caches and Ops are refused.
class PlannedBackend final : public Backend {
 public:
  explicit PlannedBackend(PlanRules rules) : rules_(std::move(rules)) {}

  std::string_view name() const override { return "planned"; }
  Features features() const override;
  Result<std::shared_ptr<const PackedMatrix>> pack(std::span<const QTensor> segments, PackUse use) override;
  Result<std::shared_ptr<const PackedVector>> upload(std::span<const float> values) override;
  Result<std::unique_ptr<KvStore>> make_kv(const KvLayout& layout) override;
  Result<std::unique_ptr<Ops>> make_ops(KvStore& kv, int64_t max_rows) override;
  std::vector<Choice> explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const override;
  Choice explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const override;

  /// Rows of a fused matrix that are stored in one codec.
  struct StoredPart {
    Codec codec;
    int64_t rows;
  };
  /// What the checkpoint has of a matrix, in order.
  static std::vector<StoredPart> stored_parts(const PackedMatrix& matrix);
  static std::span<const QTensor> segments(const PackedMatrix& matrix);
  static PackUse use_of(const PackedMatrix& matrix);

  /// The kernel of a product, experts' too, and its layout with what padding and a change of scales cost; one choice
  /// for each codec of the rows. Fails where the kernel that was asked for cannot serve.
  Result<std::vector<Choice>> plan_product(const PackedMatrix& matrix, int64_t batch_rows, ProductUse use) const;

 private:
  PlanRules rules_;
};

}  // namespace vernier
