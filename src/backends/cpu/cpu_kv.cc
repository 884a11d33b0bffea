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
  for (const CacheSpec& spec : layout.layers) {
    KvExtents extents{layout.block_tokens, spec.kv_heads, spec.head_dim};
    bool scaled = spec.stored == CodecId::kE4M3Tensor;
    int64_t step = round_up(pool_bytes(layout, spec));
    KvView<KvRole::kKey> keys{next, spec.stored, scaled ? spec.k_scale.value_or(1) : 1, extents};
    KvView<KvRole::kValue> values{next + step, spec.stored, scaled ? spec.v_scale.value_or(1) : 1, extents};
    next += 2 * step;
    if (spec.kind == CacheKind::kLatent) {
      next -= step;
      values.codes = keys.codes;
      values.scale = keys.scale;
    }
    store->layers_.push_back({spec, keys, values});
  }
  return store;
}

}  // namespace vernier
