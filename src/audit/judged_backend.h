#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "audit/numerics_report.h"
#include "ops/ref_backend.h"

namespace vernier {

/// A matrix as each side has it.
class JudgedMatrix final : public PackedMatrix {
 public:
  struct Sides {
    std::shared_ptr<const PackedMatrix> tested;
    std::shared_ptr<const PackedMatrix> unquantised;  ///< null where there is no such backend
    std::shared_ptr<const RefMatrix> reference;
    bool exact = false;  ///< whatever the numerics: a router
  };
  explicit JudgedMatrix(Sides sides);
  PackedInfo info() const override { return sides_.tested->info(); }
  const Sides& sides() const { return sides_; }

 private:
  Sides sides_;
};

class JudgedVector final : public PackedVector {
 public:
  struct Sides {
    std::shared_ptr<const PackedVector> tested, unquantised, reference;
  };
  explicit JudgedVector(Sides sides);
  const Sides& sides() const { return sides_; }

 private:
  Sides sides_;
};

/// Runs every op on a backend under test and, on the same inputs, on the reference, and notes how far they are apart.
/// Later ops go on from what the tested backend made. What it says of kernels is what the tested one says.
///
/// `unquantised` is the tested backend under exact numerics: what it makes of the same inputs tells the error of
/// quantised activations from that of a kernel; null where the tested one is exact itself. All outlive this.
class JudgedBackend final : public Backend {
 public:
  JudgedBackend(Backend& tested, Backend* unquantised, NumericsReport& report);

  /// Called with the number of a layer when its first op begins.
  std::function<void(int)> on_layer;

  std::string_view name() const override { return "judged"; }
  Features features() const override { return tested_.features(); }
  Result<std::shared_ptr<const PackedMatrix>> pack(std::span<const QTensor> segments, PackUse use) override;
  Result<std::shared_ptr<const PackedVector>> upload(std::span<const float> values) override;
  Result<std::unique_ptr<KvStore>> make_kv(const KvLayout& layout) override;
  Result<std::unique_ptr<Ops>> make_ops(KvStore& kv, int64_t max_rows) override;
  std::vector<Choice> explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const override;
  Choice explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const override;

 private:
  Backend& tested_;
  Backend* unquantised_;
  RefBackend reference_;
  NumericsReport& report_;
};

}  // namespace vernier
