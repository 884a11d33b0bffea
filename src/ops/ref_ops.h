#pragma once

#include <vector>

#include "ops/composed_ops.h"
#include "ops/ref_backend.h"

namespace vernier {

/// The judge: each primitive in float64 with plain loops over weights as they are stored. Never the fast path.
class RefOps final : public ComposedOps {
 public:
  RefOps(RefKvStore& kv, int64_t max_rows) : kv_(kv), max_rows_(max_rows) {}

  void begin(const StepView& step) override;

 protected:
  Array create(int64_t rows, int64_t cols) override;
  void destroy(Array array) override;
  void gather(const PackedMatrix& table, std::span<const int32_t> rows, Array out) override;
  void copy_rows(Array x, std::span<const int32_t> rows, Array out) override;
  void copy_block(const Cell& corner, Array out) override;
  void paste(Array x, const Cell& corner) override;
  void matmul(Array x, const PackedMatrix& weight, Array out) override;
  void add_vector(Array x, const PackedVector& vector) override;
  void accumulate(Array x, Array y) override;
  void clear(Array x) override;
  void scatter_add(Array x, std::span<const int32_t> rows, std::span<const float> weights, Array out) override;
  void scale(Array x, float factor) override;
  void normalize(Array x, const Heads& heads, const PackedVector& weight, float eps) override;
  void standardize(Array x, const LayerNorm& norm) override;
  void rotate(Array x, const Heads& heads, const RopeSpec& spec) override;
  void activate_multiply(Array gate_up, const GateSpec& spec, Array out) override;
  void activate_each(Array x, Act act) override;
  void squash(Array x, float cap) override;
  void cache_write(Array x, const Heads& heads, const AttnLayer& layer, KvRole role) override;
  void cache_read(const AttnLayer& layer, KvRole role, const CacheRange& range, Array out) override;
  FreshRows fresh_rows(const AttnLayer& layer) const override;
  void cache_round(Array x, const Heads& heads, const AttnLayer& layer, KvRole role) override;
  void dot_rows(const Cell& cell, Array keys, int64_t begin, int64_t end, float factor, Array scores) override;
  void softmax(Array scores, const PackedVector* sinks, int head) override;
  void part_softmax(Array scores, const Cell& lse) override;
  void merge_parts(Array parts, Array lse, const PackedVector* sinks, int head, const Cell& cell) override;
  void mix_rows(Array weights, Array values, int64_t begin, int64_t end, const Cell& cell) override;
  std::vector<float> download(Array x) const override;
  std::vector<float> download(const PackedVector& vector) const override;

 private:
  struct Numbers {
    int64_t rows = 0;
    int64_t cols = 0;
    std::vector<double> values;

    double* row(int64_t index) { return values.data() + index * cols; }
  };

  Numbers& at(Array array) { return arrays_[static_cast<size_t>(array)]; }

  RefKvStore& kv_;
  int64_t max_rows_;
  std::vector<Numbers> arrays_;
  std::vector<Array> free_;
};

}  // namespace vernier
