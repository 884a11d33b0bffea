#include "engine/saturation_log.h"

#include "base/log.h"

namespace vernier {

void SaturationLog::look(const KvStore& kv, const std::vector<CacheSpec>& layers) {
  const std::vector<int64_t> counts = kv.saturated();
  told_.resize(counts.size());
  for (size_t layer = 0; layer < counts.size(); ++layer) {
    if (counts[layer] == 0 || told_[layer]) continue;
    told_[layer] = true;
    log_warning(
        "KV cache: {} numbers of layer {} were too large for {} and became its largest; give larger scales "
        "with --kv-scales, or keep the layer in 16 bits with --kv-dtype-skip {}",
        counts[layer], layer, cache_type_name(layers[layer].stored), layer);
  }
}

}  // namespace vernier
