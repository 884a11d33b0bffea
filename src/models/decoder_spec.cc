#include "models/decoder_spec.h"

#include <algorithm>
#include <optional>

namespace vernier {

std::vector<CacheSpec> cache_specs(const DecoderSpec& spec, CodecId stored) {
  std::vector<CacheSpec> specs;
  std::vector<std::optional<int>> windows;  // by class
  for (size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const AttnSpec& attn = spec.layers[layer].attn;
    auto found = std::find(windows.begin(), windows.end(), attn.window);
    int cache_class = static_cast<int>(found - windows.begin());
    if (found == windows.end()) windows.push_back(attn.window);
    CacheSpec cache;
    cache.layer = static_cast<int>(layer);
    cache.cache_class = cache_class;
    cache.kv_heads = attn.kv_heads;
    cache.head_dim = attn.head_dim;
    cache.window = attn.window;
    cache.stored = stored;
    specs.push_back(cache);
  }
  return specs;
}

int cache_classes(const std::vector<CacheSpec>& specs) {
  int classes = 0;
  for (const CacheSpec& spec : specs) classes = std::max(classes, spec.cache_class + 1);
  return classes;
}

}  // namespace vernier
