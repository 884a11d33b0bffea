#include "models/read_latent.h"

#include <cmath>

#include "models/read_config.h"
#include "models/read_experts.h"

namespace vernier {
namespace {

/// YaRN's growth of scores, squared as it acts on queries and keys alike.
Result<double> score_growth(Config& config, const RopeSpec& rope) {
  const auto* yarn = std::get_if<RopeYarn>(&rope.scaling);
  if (yarn == nullptr || yarn->factor <= 1) return 1.0;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const nlohmann::json& settings = config.raw(key);
    if (!settings.is_object() || !settings.contains("mscale_all_dim")) continue;
    const nlohmann::json& mscale = settings["mscale_all_dim"];
    if (!mscale.is_number()) break;
    const double growth = mscale.get<double>() == 0 ? 1 : 0.1 * mscale.get<double>() * std::log(yarn->factor) + 1;
    return growth * growth;
  }
  return 1.0;
}

}  // namespace

Result<LatentSpec> read_latent(Config& config) {
  LatentSpec latent;
  auto read = [&](std::string_view key, std::optional<int64_t> fallback, int64_t least, int& to) -> Status {
    TRY_BIND(int64_t value, read_at_least(config, key, fallback, least));
    if (value > 1 << 20)
      return config_error(config, fmt::format("'{}' is {}, expected less than a million", key, value));
    to = static_cast<int>(value);
    return {};
  };
  TRY_STATUS(read("q_lora_rank", 0, 0, latent.q_rank));
  TRY_STATUS(read("kv_lora_rank", std::nullopt, 1, latent.rank));
  TRY_STATUS(read("qk_nope_head_dim", std::nullopt, 1, latent.nope_dim));
  TRY_STATUS(read("qk_rope_head_dim", std::nullopt, 2, latent.rope_dim));
  TRY_STATUS(read("v_head_dim", std::nullopt, 1, latent.value_dim));
  if (latent.rope_dim % 2 != 0) return config_error(config, "'qk_rope_head_dim' is odd; rope rotates pairs");
  TRY_BIND(int64_t both, config.integer("qk_head_dim", latent.query_dim()));
  if (both != latent.query_dim()) {
    return config_error(
        config, fmt::format("'qk_head_dim' is {}, expected the sum of its two parts, {}", both, latent.query_dim()));
  }
  return latent;
}

Result<AttnSpec> read_latent_attention(Config& config, AttnSpec attn, const LatentSpec& latent, double rope_base) {
  TRY_BIND(attn.rope, read_rope(config, latent.rope_dim, rope_base));
  TRY_BIND(double growth, score_growth(config, attn.rope));
  attn.kv_heads = 1;
  attn.head_dim = latent.row_dim();
  attn.scale = static_cast<float>(growth / std::sqrt(static_cast<double>(latent.query_dim())));
  attn.latent = latent;
  return attn;
}

}  // namespace vernier
