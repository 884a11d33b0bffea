#pragma once

#include <cstddef>
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
  const KvLayout& layout() const { return layout_; }

  template <KvRole R>
  KvWriter<R> writer(int layer) {
    Layer& at = layers_[static_cast<size_t>(layer)];
    return {at.bytes[at.place<R>()].data(), at.extents, at.stored, at.scale[at.place<R>()]};
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
    float scale[2] = {1, 1};          // by KvRole
    std::vector<std::byte> bytes[2];  // by KvRole
    bool one_row = false;             // values are the keys

    template <KvRole R>
    size_t place() const {
      return one_row ? static_cast<size_t>(KvRole::kKey) : static_cast<size_t>(R);
    }
  };
  KvLayout layout_;
  std::vector<Layer> layers_;
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
