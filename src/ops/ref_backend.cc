#include "ops/ref_backend.h"

#include <utility>

#include "ops/pack_info.h"
#include "ops/ref_ops.h"

namespace vernier {
namespace {

int64_t count_rows(std::span<const QTensor> segments) {
  int64_t rows = 0;
  for (const QTensor& segment : segments) rows += segment.rows();
  return rows;
}

}  // namespace

RefMatrix::RefMatrix(std::vector<QTensor> segments)
    : PackedMatrix(count_rows(segments), segments.front().cols()), segments_(std::move(segments)) {}

PackedInfo RefMatrix::info() const {
  return describe_segments(segments_, "as stored");
}

void RefMatrix::decode_row(int64_t row, std::span<float> out) const {
  for (const QTensor& segment : segments_) {
    if (row < segment.rows()) return segment.decode_row(row, out);
    row -= segment.rows();
  }
  CHECK(false, "row {} lies behind the last segment", row);
}

RefKvStore::RefKvStore(const KvLayout& layout)
    : layout_(layout), saturated_(std::make_unique<std::atomic<int64_t>[]>(layout.layers.size())) {
  for (const CacheSpec& spec : layout.layers) {
    Layer layer;
    layer.extents = KvExtents{layout.block_tokens, spec.kv_heads, spec.head_dim};
    layer.stored = spec.stored;
    layer.scale[static_cast<size_t>(KvRole::kKey)] = spec.key_scale();
    layer.scale[static_cast<size_t>(KvRole::kValue)] = spec.value_scale();
    int64_t tokens = int64_t{layout.class_blocks[static_cast<size_t>(spec.cache_class)]} * layout.block_tokens;
    layer.one_row = spec.kind == CacheKind::kLatent;
    for (auto& bytes : layer.bytes) bytes.assign(static_cast<size_t>(tokens * spec.row_bytes()), std::byte{0xFF});
    layers_.push_back(std::move(layer));
  }
}

int64_t RefKvStore::bytes() const {
  return layout_bytes(layout_);
}

std::vector<int64_t> RefKvStore::saturated() const {
  return {saturated_.get(), saturated_.get() + layers_.size()};
}

Features RefBackend::features() const {
  return Features{"float64 in plain loops", "none", 1, Numerics::kExact};
}

Result<std::shared_ptr<const PackedMatrix>> RefBackend::pack(std::span<const QTensor> segments, PackUse) {
  TRY_STATUS(check_segments(segments));
  return std::shared_ptr<const PackedMatrix>(
      std::make_shared<RefMatrix>(std::vector<QTensor>(segments.begin(), segments.end())));
}

Result<std::shared_ptr<const PackedVector>> RefBackend::upload(std::span<const float> values) {
  return std::shared_ptr<const PackedVector>(std::make_shared<RefVector>(values));
}

Result<std::unique_ptr<KvStore>> RefBackend::make_kv(const KvLayout& layout) {
  TRY_STATUS(check_layout(layout));
  return std::unique_ptr<KvStore>(std::make_unique<RefKvStore>(layout));
}

Result<std::unique_ptr<Ops>> RefBackend::make_ops(KvStore& kv, int64_t max_rows) {
  auto* store = dynamic_cast<RefKvStore*>(&kv);
  CHECK(store != nullptr, "the cache belongs to another backend");
  return std::unique_ptr<Ops>(std::make_unique<RefOps>(*store, max_rows));
}

std::vector<Choice> RefBackend::explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const {
  return {only_choice(linear_problem(matrix, batch_rows), "ref_float64", matrix.info().layout)};
}

Choice RefBackend::explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const {
  return only_choice(attend_problem(spec, cache, batch_rows), "ref_float64", "[block, head, token, dim]");
}

}  // namespace vernier
