#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "ops/backend.h"
#include "ops/kv_access.h"

namespace vernier {

/// Weights as they are stored; a row is decoded whenever it is read.
class RefMatrix final : public PackedMatrix {
 public:
  explicit RefMatrix(std::vector<QTensor> segments);
  PackedInfo info() const override;
  void decode_row(int64_t row, std::span<float> out) const;

 private:
  std::vector<QTensor> segments_;
};

class RefVector final : public PackedVector {
 public:
  explicit RefVector(std::span<const float> values)
      : PackedVector(static_cast<int64_t>(values.size())), values_(values.begin(), values.end()) {}
  const std::vector<float>& values() const { return values_; }

 private:
  std::vector<float> values_;
};

/// Cache bytes in host memory. All start as 0xFF, which is a NaN in every stored type: a slot that is read before it
/// was written shows.
class RefKvStore final : public KvStore {
 public:
  explicit RefKvStore(const KvLayout& layout);
  int64_t bytes() const override;
  std::vector<int64_t> saturated() const override;
  void add_saturated(int layer, int64_t count) { saturated_[static_cast<size_t>(layer)] += count; }
  const CacheSpec& spec(int layer) const { return layout_.layers[static_cast<size_t>(layer)]; }

  template <KvRole R>
  KvWriter<R> writer(int layer) {
    Layer& at = layers_[static_cast<size_t>(layer)];
    return {at.bytes[at.place<R>()].data(), at.extents, at.stored, at.scale[at.place<R>()]};
  }
  /// A head's numbers as a write and a read would leave them; the cache stays as it is.
  template <KvRole R>
  void round(int layer, int head, std::span<float> numbers) const {
    const Layer& at = layers_[static_cast<size_t>(layer)];
    const KvExtents one{1, at.extents.kv_heads, at.extents.head_dim};
    std::vector<std::byte> bytes(static_cast<size_t>(one.kv_heads * one.head_dim) * sizeof(float));
    KvWriter<R>(bytes.data(), one, at.stored, at.scale[at.place<R>()]).write(0, head, numbers);
    KvReader<R>(bytes.data(), one, at.stored, at.scale[at.place<R>()]).read(0, head, numbers);
  }
  template <KvRole R>
  KvReader<R> reader(int layer) const {
    const Layer& at = layers_[static_cast<size_t>(layer)];
    return {at.bytes[at.place<R>()].data(), at.extents, at.stored, at.scale[at.place<R>()]};
  }

 private:
  struct Layer {
    KvExtents extents;
    CodecId stored = CodecId::kF32;
    KvScale scale[2] = {1, 1};        // by KvRole
    std::vector<std::byte> bytes[2];  // by KvRole
    bool one_row = false;             // values are the keys

    template <KvRole R>
    size_t place() const {
      return one_row ? static_cast<size_t>(KvRole::kKey) : static_cast<size_t>(R);
    }
  };
  KvLayout layout_;
  std::vector<Layer> layers_;
  std::unique_ptr<std::atomic<int64_t>[]> saturated_;  // by layer
};

/// Makes RefOps: the definition that every other backend is compared with. Packing keeps codes as they are.
class RefBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  Features features() const override;
  Result<std::shared_ptr<const PackedMatrix>> pack(std::span<const QTensor> segments, PackUse use) override;
  Result<std::shared_ptr<const PackedVector>> upload(std::span<const float> values) override;
  Result<std::unique_ptr<KvStore>> make_kv(const KvLayout& layout) override;
  Result<std::unique_ptr<Ops>> make_ops(KvStore& kv, int64_t max_rows) override;
  std::vector<Choice> explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const override;
  Choice explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const override;
};

}  // namespace vernier
