#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "models/read_config.h"

namespace vernier {
namespace {

using Json = nlohmann::json;

constexpr std::array kNotBuilt = {"yarn", "dynamic", "longrope", "su", "mrope", "proportional"};

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
  return a.dim == b.dim && a.frequencies() == b.frequencies();
}

}  // namespace

Result<RopeSpec> parse_rope(const Json& settings_json, const std::string& where, int head_dim, double base) {
  Config settings(settings_json.is_null() ? Json::object() : settings_json, where);
  RopeSpec rope;
  rope.dim = head_dim;
  rope.base = base;
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
    TRY_BIND(rope.scaling, read_divisors(settings, static_cast<size_t>(head_dim / 2)));
  } else if (type != "default") {
    bool known = std::find(kNotBuilt.begin(), kNotBuilt.end(), type) != kNotBuilt.end();
    Error error = unsupported("rope type '{}' is {}; expected default, linear or llama3", type,
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
  double base = default_base;
  if (has_base) {
    TRY_BIND(base, read_positive(config, "rope_theta"));
  }
  const Json& old_settings = config.raw("rope_scaling");
  const Json& new_settings = config.raw("rope_parameters");
  if (!has_new) return parse_rope(old_settings, config.where() + ": rope_scaling", head_dim, base);
  TRY_BIND(RopeSpec rope, parse_rope(new_settings, config.where() + ": rope_parameters", head_dim, base));
  if (!has_old) return rope;
  // A spelling that leaves out scaling, or the base, says nothing about it.
  RopeSpec older = rope;
  if (config.has("rope_scaling")) {
    double old_base = has_base ? base : rope.base;
    TRY_BIND(older, parse_rope(old_settings, config.where() + ": rope_scaling", head_dim, old_base));
  }
  if (has_base) older.base = base;
  if (!same(older, rope)) {
    return config_error(config,
                        fmt::format("'rope_parameters' asks for {} and 'rope_theta' with 'rope_scaling' for {}; "
                                    "remove the wrong one",
                                    rope.to_string(), older.to_string()));
  }
  return rope;
}

}  // namespace vernier
