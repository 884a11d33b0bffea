#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "models/read_config.h"

namespace vernier {
namespace {

using Json = nlohmann::json;

constexpr std::array kNotBuilt = {"dynamic", "longrope", "su", "mrope", "proportional"};

Result<double> read_positive(Config& settings, std::string_view key) {
  TRY_BIND(double value, settings.number(key));
  if (!(value > 0) || !std::isnormal(static_cast<float>(value))) {
    return config_error(settings, fmt::format("'{}' is {}, expected a positive number", key, value));
  }
  return value;
}

/// `rope_type`, or `type` as it was called before. "default" where neither is there.
Result<std::string> read_type(Config& settings) {
  TRY_BIND(std::string older, settings.text("type", ""));
  TRY_BIND(std::string type, settings.text("rope_type", older.empty() ? "default" : older));
  if (!older.empty() && older != type) {
    return config_error(settings,
                        fmt::format("'rope_type' is '{}' and 'type' is '{}'; remove the wrong one", type, older));
  }
  return type;
}

Result<RopeLlama3> read_llama3(Config& settings) {
  RopeLlama3 rule;
  TRY_BIND(rule.factor, read_positive(settings, "factor"));
  TRY_BIND(rule.low_frequency_factor, read_positive(settings, "low_freq_factor"));
  TRY_BIND(rule.high_frequency_factor, read_positive(settings, "high_freq_factor"));
  TRY_BIND(rule.original_max_positions, read_positive(settings, "original_max_position_embeddings"));
  if (rule.high_frequency_factor <= rule.low_frequency_factor) {
    return config_error(settings, fmt::format("'high_freq_factor' is {}, expected more than 'low_freq_factor', {}",
                                              rule.high_frequency_factor, rule.low_frequency_factor));
  }
  return rule;
}

/// How much attention grows with a context that is `factor` times as long; 1 where it is not longer.
double yarn_growth(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

Result<RopeYarn> read_yarn(Config& settings, double max_positions) {
  RopeYarn rule;
  TRY_BIND(rule.factor, read_positive(settings, "factor"));
  rule.original_max_positions = max_positions;
  if (settings.has("original_max_position_embeddings")) {
    TRY_BIND(rule.original_max_positions, read_positive(settings, "original_max_position_embeddings"));
  }
  TRY_BIND(rule.beta_fast, settings.number("beta_fast", 32));
  TRY_BIND(rule.beta_slow, settings.number("beta_slow", 1));
  if (!(rule.beta_slow > 0) || !(rule.beta_fast >= rule.beta_slow)) {
    return config_error(settings,
                        fmt::format("'beta_fast' is {} and 'beta_slow' {}, expected positive numbers, the first "
                                    "no smaller",
                                    rule.beta_fast, rule.beta_slow));
  }
  TRY_BIND(rule.truncate, settings.boolean("truncate", true));
  settings.ignore({"original_max_position_embeddings", "finetuned"});
  TRY_BIND(double mscale, settings.number("mscale", 0));
  TRY_BIND(double mscale_all_dim, settings.number("mscale_all_dim", 0));
  rule.magnitude = yarn_growth(rule.factor, 1);
  if (mscale != 0 && mscale_all_dim != 0) {
    rule.magnitude = yarn_growth(rule.factor, mscale) / yarn_growth(rule.factor, mscale_all_dim);
  }
  if (settings.has("attention_factor")) {
    TRY_BIND(rule.magnitude, read_positive(settings, "attention_factor"));
  }
  settings.ignore({"attention_factor"});
  if (!(rule.magnitude > 0) || !std::isnormal(static_cast<float>(rule.magnitude))) {
    return config_error(
        settings, fmt::format("'mscale' {} over 'mscale_all_dim' {} is no positive number", mscale, mscale_all_dim));
  }
  return rule;
}

/// The spelling of GGUF's tensor of frequency factors.
Result<RopeDivisors> read_divisors(Config& settings, size_t pairs) {
  const Json& factors = settings.raw("factors");
  if (!factors.is_array() || factors.size() != pairs) {
    return config_error(settings, fmt::format("'factors' has {} numbers, expected one for each of {} pairs",
                                              factors.is_array() ? factors.size() : 0, pairs));
  }
  RopeDivisors rule;
  for (const Json& factor : factors) {
    float value = factor.is_number() ? factor.get<float>() : 0;
    if (!(value > 0) || !std::isnormal(value)) {
      return config_error(settings,
                          fmt::format("'factors' holds {}, expected positive numbers", factor.dump(-1, ' ', true)));
    }
    rule.divisors.push_back(value);
  }
  return rule;
}

bool same(const RopeSpec& a, const RopeSpec& b) {
  return a.dim == b.dim && a.magnitude() == b.magnitude() && a.frequencies() == b.frequencies();
}

}  // namespace

Result<RopeSpec> parse_rope(const Json& settings_json, const std::string& where, const RopeDefaults& defaults) {
  Config settings(settings_json.is_null() ? Json::object() : settings_json, where);
  RopeSpec rope;
  rope.dim = defaults.head_dim;
  rope.base = defaults.base;
  if (settings.has("rope_theta")) {
    TRY_BIND(rope.base, read_positive(settings, "rope_theta"));
  }
  TRY_BIND(double rotated, settings.number("partial_rotary_factor", 1));
  if (rotated != 1) {
    return config_error(settings,
                        fmt::format("'partial_rotary_factor' is {}; these families rotate whole heads", rotated));
  }
  // Sections share out the pairs among axes of an image; all axes of text are equal.
  settings.ignore({"mrope_section"});
  TRY_BIND(std::string type, read_type(settings));
  if (type == "linear") {
    TRY_BIND(double factor, read_positive(settings, "factor"));
    rope.scaling = RopeLinear{factor};
  } else if (type == "llama3") {
    TRY_BIND(rope.scaling, read_llama3(settings));
  } else if (type == "frequency_factors") {
    TRY_BIND(rope.scaling, read_divisors(settings, static_cast<size_t>(rope.dim / 2)));
  } else if (type == "yarn") {
    TRY_BIND(rope.scaling, read_yarn(settings, defaults.max_positions));
  } else if (type != "default") {
    bool known = std::find(kNotBuilt.begin(), kNotBuilt.end(), type) != kNotBuilt.end();
    Error error = unsupported("rope type '{}' is {}; expected default, linear, llama3 or yarn", type,
                              known ? "recognised and not built yet" : "unknown");
    error.where = where;
    return error;
  }
  TRY_STATUS(settings.finish());
  return rope;
}

Result<RopeSpec> read_rope(Config& config, int head_dim, double default_base) {
  const bool has_base = config.has("rope_theta"), has_old = has_base || config.has("rope_scaling");
  const bool has_new = config.has("rope_parameters");
  RopeDefaults defaults{head_dim, default_base, 0};
  TRY_BIND(defaults.max_positions, config.number("max_position_embeddings", 0));
  if (has_base) {
    TRY_BIND(defaults.base, read_positive(config, "rope_theta"));
  }
  const Json& old_settings = config.raw("rope_scaling");
  const Json& new_settings = config.raw("rope_parameters");
  if (!has_new) return parse_rope(old_settings, config.where() + ": rope_scaling", defaults);
  TRY_BIND(RopeSpec rope, parse_rope(new_settings, config.where() + ": rope_parameters", defaults));
  if (!has_old) return rope;
  // A spelling that leaves out scaling, or the base, says nothing about it.
  RopeSpec older = rope;
  if (config.has("rope_scaling")) {
    RopeDefaults old_defaults = defaults;
    if (!has_base) old_defaults.base = rope.base;
    TRY_BIND(older, parse_rope(old_settings, config.where() + ": rope_scaling", old_defaults));
  }
  if (has_base) older.base = defaults.base;
  if (!same(older, rope)) {
    return config_error(config,
                        fmt::format("'rope_parameters' asks for {} and 'rope_theta' with 'rope_scaling' for {}; "
                                    "remove the wrong one",
                                    rope.to_string(), older.to_string()));
  }
  return rope;
}

}  // namespace vernier
