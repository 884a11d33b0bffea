#include "models/read_experts.h"

#include "models/read_config.h"

namespace vernier {
namespace {

constexpr int64_t kMostWidth = int64_t{1} << 24;

/// One number that may stand under any of `keys`; all that are there agree.
Result<int64_t> read_alias(Config& config, const std::vector<std::string_view>& keys, std::optional<int64_t> fallback) {
  std::optional<int64_t> found;
  for (std::string_view key : keys) {
    TRY_BIND(std::optional<int64_t> value, config.optional_integer(key));
    if (!value) continue;
    if (found && *found != *value) {
      return config_error(
          config, fmt::format("'{}' is {} and '{}' is {}; remove the wrong one", keys.front(), *found, key, *value));
    }
    found = value;
  }
  if (!found) found = fallback;
  if (!found) return config.integer(keys.front());
  if (*found < 1 || *found > kMostRoutedExperts) {
    return config_error(config, fmt::format("'{}' is {}, expected 1 to {}", keys.front(), *found, kMostRoutedExperts));
  }
  return *found;
}

}  // namespace

Result<int64_t> read_at_least(Config& config, std::string_view key, std::optional<int64_t> fallback, int64_t least) {
  int64_t value = 0;
  if (fallback) {
    TRY_BIND(value, config.integer(key, *fallback));
  } else {
    TRY_BIND(value, config.integer(key));
  }
  if (value < least || value > kMostWidth) {
    return config_error(config, fmt::format("'{}' is {}, expected {} to {}", key, value, least, kMostWidth));
  }
  return value;
}

Result<ExpertsSpec> read_expert_counts(Config& config, const ExpertDefaults& defaults) {
  return read_expert_counts(config, {"num_local_experts", "num_experts"}, defaults);
}

Result<ExpertsSpec> read_expert_counts(Config& config, const std::vector<std::string_view>& keys,
                                       const ExpertDefaults& defaults) {
  config.ignore({"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"});
  TRY_BIND(int64_t experts, read_alias(config, keys, defaults.experts));
  TRY_BIND(int64_t chosen, read_alias(config, {"num_experts_per_tok", "experts_per_token"}, defaults.chosen));
  if (chosen > experts) {
    return config_error(
        config, fmt::format("each row meets {} of {} experts; expected no more than there are", chosen, experts));
  }
  ExpertsSpec spec;
  spec.experts = static_cast<int>(experts);
  spec.chosen = static_cast<int>(chosen);
  return spec;
}

Result<float> read_expert_scale(Config& config, std::optional<double> fallback) {
  constexpr const char* kKey = "routed_scaling_factor";
  double scale = 0;
  if (fallback) {
    TRY_BIND(scale, config.number(kKey, *fallback));
  } else {
    TRY_BIND(scale, config.number(kKey));
  }
  if (!(scale > 0)) return config_error(config, fmt::format("'{}' is {}, expected above 0", kKey, scale));
  return static_cast<float>(scale);
}

std::vector<ExpertNames> usual_expert_names() {
  ExpertNames apart, stacked;
  stacked.gate_up = "gate_up_proj";
  return {apart, stacked};
}

}  // namespace vernier
