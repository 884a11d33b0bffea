#include "models/families.h"
#include "models/read_config.h"
#include "models/read_gemma.h"

namespace vernier {
namespace {

/// Null turns a cap off; an absent key has the family's.
Result<float> read_cap(Config& config, std::string_view key, double fallback) {
  TRY_BIND(double cap, config.number(key, config.contains(key) ? 0 : fallback));
  if (cap < 0) return config_error(config, fmt::format("'{}' is {}, expected 0 or more", key, cap));
  return static_cast<float>(cap);
}

}  // namespace

Result<DecoderSpec> read_gemma2(Config& config) {
  SizeDefaults defaults;
  if (!config.contains("num_key_value_heads")) defaults.kv_heads = 4;
  defaults.head_dim = 256;
  TRY_BIND(DecoderSizes sizes, read_sizes(config, defaults, true));
  DecoderSpec& spec = sizes.spec;
  TRY_STATUS(read_gemma_parts(config, spec));
  TRY_BIND(spec.final_soft_cap, read_cap(config, "final_logit_softcapping", 30));

  AttnSpec attn = sizes.attn;
  TRY_BIND(attn.soft_cap, read_cap(config, "attn_logit_softcapping", 50));
  TRY_BIND(attn.scale, read_gemma_scale(config));
  TRY_BIND(attn.rope, read_rope(config, attn.head_dim, 10000));
  TRY_BIND(auto windows, read_alternating_windows(config, sizes.layers, 4096));
  fill_layers(sizes, attn, windows);
  return spec;
}

}  // namespace vernier
