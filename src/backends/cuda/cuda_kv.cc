#include "backends/cuda/cuda_kv.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/kernel_choice.h"
#include "base/check.h"
#include "base/log.h"
#include "ops/pack_info.h"

namespace vernier {

Result<std::unique_ptr<CudaKvStore>> CudaKvStore::make(CudaDevice& device, const KvLayout& layout) {
  TRY_STATUS(check_layout(layout));
  for (const CacheSpec& spec : layout.layers) {
    if (const Reason reason = judge_attend(spec.head_dim); reason.code != ReasonCode::kChosen) {
      return unsupported("layer {}: {} on a GPU; use --backend cpu", spec.layer, reason.detail);
    }
  }
  std::unique_ptr<CudaKvStore> store(new CudaKvStore(device, layout_bytes(layout)));
  TRY_STATUS(store->take_memory(layout));
  return store;
}

Status CudaKvStore::take_memory(const KvLayout& layout) {
  std::vector<float> scales;
  for (const CacheSpec& spec : layout.layers) {
    for (const KvScale& scale : {spec.key_scale(), spec.value_scale()}) {
      for (int head = 0; head < spec.kv_heads; ++head) scales.push_back(scale.of(head));
    }
  }
  TRY_BIND(scales_, device_.take_copy(std::as_bytes(std::span<const float>(scales)), "the cache's scales"));
  const float* next = scales_.as<const float>();
  for (const CacheSpec& spec : layout.layers) {
    const int64_t tokens = int64_t{layout.class_blocks[static_cast<size_t>(spec.cache_class)]} * layout.block_tokens;
    Layer layer{spec, {}, {}};
    auto describe = [&](auto& view) {
      view.scales = next;
      next += spec.kv_heads;
      view.stored = kv_numbers(spec.stored);
      view.block_tokens = layout.block_tokens;
      view.kv_heads = spec.kv_heads;
      view.head_dim = spec.head_dim;
    };
    auto take = [&](auto& view) -> Status {
      TRY_BIND(DeviceBuffer pool, device_.take(tokens * spec.row_bytes(), "a cache"));
      TRY_STATUS(device_.fill(pool.data(), 0xFF, pool.bytes()));
      view.codes = pool.as<unsigned char>();
      pools_.push_back(std::move(pool));
      return {};
    };
    describe(layer.keys);
    describe(layer.values);
    TRY_STATUS(take(layer.keys));
    if (spec.kind == CacheKind::kLatent) {
      layer.values.codes = layer.keys.codes;
    } else {
      TRY_STATUS(take(layer.values));
    }
    layers_.push_back(std::move(layer));
  }
  const auto counter_bytes = static_cast<int64_t>(layout.layers.size() * sizeof(unsigned long long));
  TRY_BIND(counters_, device_.take(counter_bytes, "counters"));
  TRY_BIND(seen_, device_.take_pinned(counter_bytes));
  std::memset(seen_.data(), 0, static_cast<size_t>(seen_.bytes()));
  return device_.fill(counters_.data(), 0, counters_.bytes());
}

std::vector<int64_t> CudaKvStore::saturated() const {
  std::vector<int64_t> counts(layers_.size());
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = seen_.as<const volatile int64_t>()[i];
  return counts;
}

cuda::SaturationCall CudaKvStore::saturation() const {
  return {counters_.as<const unsigned long long>(), static_cast<int32_t>(layers_.size()),
          seen_.on_device<unsigned long long>()};
}

}  // namespace vernier
