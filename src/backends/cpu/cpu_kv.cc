#include "backends/cpu/cpu_kv.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/attend.h"
#include "ops/pack_info.h"

namespace vernier {
namespace {

constexpr int64_t kPoolAlignment = 4096;

int64_t round_up(int64_t bytes) {
  return (bytes + kPoolAlignment - 1) / kPoolAlignment * kPoolAlignment;
}

/// Bytes of one layer's keys, and as many for its values where it has those.
int64_t pool_bytes(const KvLayout& layout, const CacheSpec& spec) {
  int64_t tokens = int64_t{layout.class_blocks[static_cast<size_t>(spec.cache_class)]} * layout.block_tokens;
  return tokens * spec.row_bytes();
}

}  // namespace

Result<std::unique_ptr<CpuKvStore>> CpuKvStore::make(const KvLayout& layout) {
  TRY_STATUS(check_layout(layout));
  int64_t physical_bytes = 0;
  for (const CacheSpec& spec : layout.layers) {
    if (spec.head_dim > kMaxHeadDim) {
      return unsupported("layer {}: heads of {} numbers; attention on the CPU takes at most {}", spec.layer,
                         spec.head_dim, kMaxHeadDim);
    }
    physical_bytes += (spec.kind == CacheKind::kLatent ? 1 : 2) * round_up(pool_bytes(layout, spec));
  }
  physical_bytes = std::max(physical_bytes, kPoolAlignment);
  Result<PackedBytes> pages = PackedBytes::make(physical_bytes, PageUse::kFilledSlowly);
  if (!pages.ok()) {
    return make_error(ErrorCode::kOutOfMemory,
                      "a cache of {} MB does not fit in memory ({}); make the context shorter or store it narrower",
                      physical_bytes / 1'000'000, pages.error().message);
  }
  PackedBytes memory = std::move(pages).value();
  auto* next = reinterpret_cast<std::byte*>(memory.data());
#ifndef NDEBUG
  std::memset(next, 0xFF, static_cast<size_t>(physical_bytes));  // a NaN of every stored type
#endif
  std::unique_ptr<CpuKvStore> store(new CpuKvStore(std::move(memory), layout_bytes(layout), layout.block_tokens));
  store->saturated_ = std::make_unique<std::atomic<int64_t>[]>(layout.layers.size());
  store->nan_written_ = std::make_unique<std::atomic<bool>[]>(layout.layers.size());
  size_t heads = 0;
  for (const CacheSpec& spec : layout.layers) heads += static_cast<size_t>(spec.kv_heads);
  store->scales_.reserve(2 * heads);  // views point into it
  auto keep = [&scales = store->scales_](const KvScale& scale, int kv_heads) {
    for (int head = 0; head < kv_heads; ++head) scales.push_back(scale.of(head));
    return scales.data() + scales.size() - kv_heads;
  };
  for (const CacheSpec& spec : layout.layers) {
    KvExtents extents{layout.block_tokens, spec.kv_heads, spec.head_dim};
    int64_t step = round_up(pool_bytes(layout, spec));
    KvView<KvRole::kKey> keys{next, spec.stored, keep(spec.key_scale(), spec.kv_heads), extents};
    const bool one_row = spec.kind == CacheKind::kLatent;
    if (!one_row) next += step;
    KvView<KvRole::kValue> values{next, spec.stored, keep(spec.value_scale(), spec.kv_heads), extents};
    next += step;
    store->layers_.push_back({spec, keys, values});
  }
  return store;
}

std::vector<int64_t> CpuKvStore::saturated() const {
  std::vector<int64_t> counts;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    counts.push_back(saturated_[layer].load(std::memory_order_relaxed));
  }
  return counts;
}

}  // namespace vernier
