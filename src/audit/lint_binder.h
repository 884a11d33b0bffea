#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "audit/lint_report.h"
#include "checkpoint/checkpoint_binder.h"
#include "ops/null_backend.h"

namespace vernier {

/// Binds a model as the loader does and goes on where the loader stops: what cannot be loaded is a finding, and a
/// weight without numbers takes its place. Looks at the numbers of every matrix on the way. Nothing bound by it can be
/// run.
class LintBinder final : public CheckpointBinder {
 public:
  /// `silent`: what is missing is not reported, as files are known to be.
  LintBinder(const Checkpoint& checkpoint, NullBackend& backend, bool silent, LintReport& report);

  Result<Norm> norm(const std::string& name, int64_t size, float eps, NormRule rule) override;
  Result<LayerNorm> layer_norm(const std::string& name, int64_t size, float eps) override;
  Result<std::shared_ptr<const PackedVector>> vector(const std::string& name, int64_t size) override;
  Result<LatentHeads> latent_heads(const std::string& name, int heads, const LatentSpec& spec) override;

  /// What nobody asked for.
  void lint_left_over(std::span<const std::string> unneeded);
  /// Tensors that were looked at as parts of a matrix.
  const std::set<const StoredTensor*>& examined() const { return examined_; }

 protected:
  Result<Bound> bind_matrix(const std::vector<WeightPart>& parts, int64_t cols, BiasRule bias, Split split,
                            PackUse use) override;

 private:
  void lint_part(const WeightPart& part, int64_t cols, const std::string& bound_as);
  void note_failure(const Error& error);
  /// Whatever belongs to a module is accounted for, also where it could not be put together.
  void mark_module(const std::string& module);
  std::shared_ptr<const PackedVector> absent_vector(int64_t size);

  NullBackend& backend_;
  bool silent_;
  LintReport& findings_;
  std::set<const StoredTensor*> examined_;
};

}  // namespace vernier
