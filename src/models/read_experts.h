#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "models/decoder_spec.h"
#include "ops/config.h"

namespace vernier {

inline constexpr int64_t kMostRoutedExperts = 4096;

/// What a family assumes where its configuration leaves experts out; unset ones are required.
struct ExpertDefaults {
  std::optional<int64_t> experts, chosen;
};

/// How many experts there are (`num_local_experts` or `num_experts`, which must agree) and how many a row meets
/// (`num_experts_per_tok` or `experts_per_token`). Marks the keys that training alone reads. Width and gate are left to
/// the family.
Result<ExpertsSpec> read_expert_counts(Config& config, const ExpertDefaults& defaults);
/// The same from keys of the family's own.
Result<ExpertsSpec> read_expert_counts(Config& config, const std::vector<std::string_view>& experts,
                                       const ExpertDefaults& defaults);
/// By what all weights of a row's experts are multiplied, `routed_scaling_factor`.
Result<float> read_expert_scale(Config& config, std::optional<double> fallback);
/// A whole number from `least` on.
Result<int64_t> read_at_least(Config& config, std::string_view key, std::optional<int64_t> fallback, int64_t least);

/// Numbers apart for gate and up, one matrix for each expert; then gate and up in one, as newer tools stack them.
std::vector<ExpertNames> usual_expert_names();

}  // namespace vernier
