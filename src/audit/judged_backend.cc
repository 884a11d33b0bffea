#include "audit/judged_backend.h"

#include "audit/judged_ops.h"

namespace vernier {

namespace {

/// Nothing of its own: each side keeps its cache with its ops.
class JudgedKvStore final : public KvStore {
 public:
  explicit JudgedKvStore(KvLayout layout) : layout_(std::move(layout)) {}
  int64_t bytes() const override { return 0; }
  const KvLayout& layout() const { return layout_; }

 private:
  KvLayout layout_;
};

}  // namespace

JudgedMatrix::JudgedMatrix(Sides sides)
    : PackedMatrix(sides.tested->rows(), sides.tested->cols()), sides_(std::move(sides)) {}

JudgedVector::JudgedVector(Sides sides) : PackedVector(sides.tested->size()), sides_(std::move(sides)) {}

JudgedBackend::JudgedBackend(Backend& tested, Backend* unquantised, NumericsReport& report)
    : tested_(tested), unquantised_(unquantised), report_(report) {}

Result<std::shared_ptr<const PackedMatrix>> JudgedBackend::pack(std::span<const QTensor> segments, PackUse use) {
  JudgedMatrix::Sides sides;
  TRY_BIND(sides.tested, tested_.pack(segments, use));
  if (unquantised_ != nullptr) {
    TRY_BIND(sides.unquantised, unquantised_->pack(segments, use));
  }
  sides.reference = std::make_shared<RefMatrix>(std::vector<QTensor>(segments.begin(), segments.end()));
  sides.exact = use == PackUse::kRouter;
  return std::shared_ptr<const PackedMatrix>(std::make_shared<JudgedMatrix>(std::move(sides)));
}

Result<std::shared_ptr<const PackedVector>> JudgedBackend::upload(std::span<const float> values) {
  JudgedVector::Sides sides;
  TRY_BIND(sides.tested, tested_.upload(values));
  if (unquantised_ != nullptr) {
    TRY_BIND(sides.unquantised, unquantised_->upload(values));
  }
  TRY_BIND(sides.reference, reference_.upload(values));
  return std::shared_ptr<const PackedVector>(std::make_shared<JudgedVector>(std::move(sides)));
}

Result<std::unique_ptr<KvStore>> JudgedBackend::make_kv(const KvLayout& layout) {
  return std::unique_ptr<KvStore>(std::make_unique<JudgedKvStore>(layout));
}

Result<std::unique_ptr<Ops>> JudgedBackend::make_ops(KvStore& kv, int64_t max_rows) {
  const KvLayout& layout = dynamic_cast<JudgedKvStore&>(kv).layout();
  KvLayout plain = layout;
  for (CacheSpec& layer : plain.layers) layer.stored = CodecId::kF32;
  JudgedOps::Sides sides;
  TRY_BIND(sides.tested, NumericsPlayer::make(tested_, layout, max_rows));
  if (unquantised_ != nullptr) {
    TRY_BIND(sides.unquantised, NumericsPlayer::make(*unquantised_, layout, max_rows));
  }
  TRY_BIND(sides.reference, NumericsPlayer::make(reference_, layout, max_rows));
  TRY_BIND(sides.unrounded, NumericsPlayer::make(reference_, plain, max_rows));
  sides.layout = layout;
  sides.numerics = tested_.features().numerics;
  return std::unique_ptr<Ops>(std::make_unique<JudgedOps>(std::move(sides), report_, on_layer));
}

std::vector<Choice> JudgedBackend::explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const {
  return tested_.explain_linear(*dynamic_cast<const JudgedMatrix&>(matrix).sides().tested, batch_rows);
}

Choice JudgedBackend::explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const {
  return tested_.explain_attend(spec, cache, batch_rows);
}

}  // namespace vernier
