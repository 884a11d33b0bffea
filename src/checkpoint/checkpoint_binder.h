#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/stored_matrix.h"
#include "ops/binder.h"

namespace vernier {

/// How far loading has come, after each weight.
struct BindProgress {
  std::string weight;
  int64_t done_bytes = 0;   ///< of the file
  int64_t total_bytes = 0;  ///< of all tensors that can be bound
};

/// Loads the weights that a model names: puts each part together with its scales, checks its shape against what the
/// model asked, undoes the dialect's changes (row order of Q and K, folded norms), has the backend pack it, and gives
/// the file's pages back.
///
/// Every tensor of the checkpoint is bound at most once. `finish` is to be called when the model has asked for
/// everything: it refuses a left-over tensor that looks like a scale or stands in a layer, and a bias whose matrix was
/// bound without it. One thread. The checkpoint and the backend outlive it. Whoever derives from it goes on where
/// loading stops.
class CheckpointBinder : public Binder {
 public:
  CheckpointBinder(const Checkpoint& checkpoint, Backend& backend,
                   std::function<void(const BindProgress&)> progress = nullptr);

  /// Calls it with the parts of every matrix before the backend packs them; it may put each into another codec.
  using Rewrite = std::function<Status(std::span<const WeightPart> parts, PackUse use, std::vector<QTensor>& segments)>;
  void rewrite_with(Rewrite rewrite) { rewrite_ = std::move(rewrite); }

  Result<Norm> norm(const std::string& name, int64_t size, float eps, NormRule rule) override;
  Result<LayerNorm> layer_norm(const std::string& name, int64_t size, float eps) override;
  Result<std::shared_ptr<const PackedVector>> vector(const std::string& name, int64_t size) override;
  Result<LatentHeads> latent_heads(const std::string& name, int heads, const LatentSpec& spec) override;
  bool has(const std::string& name) const override;

  /// `unneeded` are ends of names of tensors that the model knows and does without; a name that ends in a dot is a
  /// module, and means all in it.
  Status finish(std::span<const std::string> unneeded = {});
  const LoadReport& report() const { return report_; }
  /// What was wrong with the scales of the cache.
  const Status& cache_scales() const { return cache_scales_; }

 protected:
  Result<Bound> bind_matrix(const std::vector<WeightPart>& parts, int64_t cols, BiasRule bias, Split split,
                            PackUse use) override;

  /// One part of a weight, its tensors marked as used.
  Result<StoredMatrix> matrix(const WeightPart& part, int64_t cols, const std::string& bound_as);
  Status check_parts(const std::vector<WeightPart>& parts) const;
  Result<std::shared_ptr<const PackedVector>> bias(const std::vector<WeightPart>& parts, const std::string& bound_as);
  /// Tensors that nobody asked for, by what that means.
  struct LeftOver {
    std::vector<std::string> scales;     ///< of which a model computed without them would be wrong
    std::vector<std::string> biases;     ///< of weights that are bound without one
    std::vector<std::string> in_layers;  ///< parts of layers, or whole ones, that the configuration does not have
    std::vector<std::string> others;
    int64_t other_modality = 0;
  };
  LeftOver left_over(std::span<const std::string> unneeded);

  const Checkpoint& checkpoint_;
  LoadReport report_;

 private:
  /// Marks a tensor as used; refuses one that already is.
  Status take(const StoredTensor& tensor, const std::string& bound_as, TensorUse use);
  /// Refuses numbers that are none, and quantises where that is asked.
  Status rewrite(std::span<const WeightPart> parts, PackUse use, std::vector<QTensor>& segments);
  void note_unused_scales();
  void note_rewritten();
  Result<std::vector<float>> numbers(const std::string& name, int64_t size, const std::string& bound_as);

  Backend& backend_;
  std::function<void(const BindProgress&)> progress_;
  Rewrite rewrite_;
  BindProgress state_;
  Status cache_scales_;
  int64_t input_scales_ = 0;
  bool computes_;  // the numbers are used: whoever only counts must not read a mapped file from end to end
  bool head_is_tied_copy_;
};

/// Rows of [first half | second half] out of rows that alternate between them.
std::vector<int64_t> halves_apart(int64_t rows);
/// Row i of the rotating layout (pairs i, i + dim / 2 of a head) is row order[i] of the interleaved one.
std::vector<int64_t> deinterleaved_rows(int64_t rows, int64_t heads);
/// The way back.
std::vector<int64_t> interleaved_rows(int64_t rows, int64_t heads);

}  // namespace vernier
