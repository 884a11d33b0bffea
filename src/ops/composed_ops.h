#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ops/kv_access.h"
#include "ops/ops.h"

namespace vernier {

/// Every coarse op written through a few primitives on plain arrays, which defines the op. A backend that writes the
/// primitives is complete; it may then override coarse ops for speed, and a test compares the two.
///
/// Owns the handles: counts the uses of each array, and destroys it with the last. One thread.
class ComposedOps : public Ops, private ActivationOwner {
 public:
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

 protected:
  /// An array of [rows, cols] of the backend's own numbers.
  using Array = int32_t;

  /// `count` heads of `width` columns each, from column `first`.
  struct Heads {
    int64_t first = 0;
    int count = 0;
    int width = 0;
  };

  /// Where one head of one row lies.
  struct Cell {
    Array array = 0;
    int64_t row = 0;
    int64_t first = 0;
  };

  /// Keys or values of one kv head at positions [begin, end) of a sequence.
  struct CacheRange {
    size_t sequence = 0;
    int kv_head = 0;
    int32_t begin = 0;
    int32_t end = 0;
  };

  const StepView& step() const { return step_; }

  // The primitives. Arrays that are written exist already and have the shape that follows from the others.
  virtual Array create(int64_t rows, int64_t cols) = 0;  ///< ids are small and may be used again
  virtual void destroy(Array array) = 0;
  virtual void gather(const PackedMatrix& table, std::span<const int32_t> rows, Array out) = 0;
  virtual void copy_rows(Array x, std::span<const int32_t> rows, Array out) = 0;
  virtual void copy_block(const Cell& corner, Array out) = 0;               ///< as much of an array as `out` holds
  virtual void paste(Array x, const Cell& corner) = 0;                      ///< all of `x` into a larger array
  virtual void matmul(Array x, const PackedMatrix& weight, Array out) = 0;  ///< x W^T
  virtual void add_vector(Array x, const PackedVector& vector) = 0;         ///< to each row
  virtual void accumulate(Array x, Array y) = 0;                            ///< x += y
  virtual void clear(Array x) = 0;                                          ///< x = 0
  /// out[rows[i]] += weights[i] * x[i].
  virtual void scatter_add(Array x, std::span<const int32_t> rows, std::span<const float> weights, Array out) = 0;
  virtual void scale(Array x, float factor) = 0;
  virtual void normalize(Array x, const Heads& heads, const PackedVector& weight, float eps) = 0;  ///< each head
  virtual void standardize(Array x, const LayerNorm& norm) = 0;  ///< each row: mean 0, variance 1, weight, bias
  virtual void rotate(Array x, const Heads& heads, const RopeSpec& spec) = 0;  ///< at the step's positions
  virtual void activate_multiply(Array gate_up, const GateSpec& spec, Array out) = 0;
  virtual void activate_each(Array x, Act act) = 0;
  virtual void squash(Array x, float cap) = 0;  ///< cap * tanh(x / cap)
  virtual void cache_write(Array x, const Heads& heads, const AttnLayer& layer, KvRole role) = 0;
  virtual void cache_read(const AttnLayer& layer, KvRole role, const CacheRange& range, Array out) = 0;
  virtual FreshRows fresh_rows(const AttnLayer& layer) const = 0;
  /// Heads as a write to the cache and a read would leave them.
  virtual void cache_round(Array x, const Heads& heads, const AttnLayer& layer, KvRole role) = 0;
  /// scores[0, k - begin] = factor * (cell . keys[k]) for keys [begin, end).
  virtual void dot_rows(const Cell& cell, Array keys, int64_t begin, int64_t end, float factor, Array scores) = 0;
  /// Of one row; with a sink, exp(sinks[head]) joins the denominator.
  virtual void softmax(Array scores, const PackedVector* sinks, int head) = 0;
  /// Of one row, some of its keys, without a sink; the logarithm of its denominator to `lse`.
  virtual void part_softmax(Array scores, const Cell& lse) = 0;
  /// cell = the parts [parts, dim], weighted by their denominators, exp(lse[0, part]); a sink's exp joins their sum
  /// once.
  virtual void merge_parts(Array parts, Array lse, const PackedVector* sinks, int head, const Cell& cell) = 0;
  /// cell = sum over k of weights[0, k - begin] * values[k].
  virtual void mix_rows(Array weights, Array values, int64_t begin, int64_t end, const Cell& cell) = 0;
  virtual std::vector<float> download(Array x) const = 0;
  virtual std::vector<float> download(const PackedVector& vector) const = 0;

 private:
  void release(int32_t id) override;
  template <ActivationKind K>
  Activation<K> make(int64_t rows, int64_t cols);
  template <ActivationKind To, ActivationKind From>
  Activation<To> relabel(const Activation<From>& x);
  template <ActivationKind To, ActivationKind From>
  Activation<To> product(const Activation<From>& x, const PackedMatrix& matrix, const PackedVector* bias);
  template <ActivationKind K>
  Activation<K> copy(const Activation<K>& x);
  std::vector<ChosenExpert> route(const Value& x, const ExpertsLayer& layer);
  void paste_rotated(Cell from, const LatentLayer& layer, Array to, int64_t column);
  Shard latent_rows(const Shard& q, const Value& compressed, const LatentLayer& layer);
  void attend_head(Array q, const AttnLayer& layer, size_t sequence, int kv_head, Array out);
  void attend_head_split(Array q, const AttnLayer& layer, size_t sequence, int kv_head, Array out);

  StepView step_;
  std::vector<int> uses_;  // of each array
  int64_t live_ = 0;
};

}  // namespace vernier
