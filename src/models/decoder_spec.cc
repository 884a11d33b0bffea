#include "models/decoder_spec.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace vernier {

std::vector<CacheSpec> cache_specs(const DecoderSpec& spec, CodecId stored) {
  std::vector<CacheSpec> specs;
  std::vector<std::pair<CacheKind, std::optional<int>>> classes;
  for (size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const AttnSpec& attn = spec.layers[layer].attn;
    const std::pair own(attn.latent ? CacheKind::kLatent : CacheKind::kPairs, attn.window);
    auto found = std::find(classes.begin(), classes.end(), own);
    int cache_class = static_cast<int>(found - classes.begin());
    if (found == classes.end()) classes.push_back(own);
    CacheSpec cache;
    cache.kind = own.first;
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
