#include "ops/attn_spec.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace vernier {
namespace {

/// transformers computes these in float32; equal rounding keeps long contexts equal, so every step here is float32,
/// too.
float llama3_frequency(float frequency, const RopeLlama3& rule) {
  float factor = static_cast<float>(rule.factor);
  float low = static_cast<float>(rule.low_frequency_factor);
  float high = static_cast<float>(rule.high_frequency_factor);
  float original = static_cast<float>(rule.original_max_positions);
  float wavelength = 2 * std::numbers::pi_v<float> / frequency;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low) return frequency / factor;
  float smooth = (original / wavelength - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

/// The pair whose frequency makes `turns` full turns over the original positions; a fraction.
double pair_of_turns(double turns, const RopeSpec& spec, const RopeYarn& rule) {
  const double angle = rule.original_max_positions / (turns * 2 * std::numbers::pi);
  return spec.dim * std::log(angle) / (2 * std::log(spec.base));
}

float yarn_frequency(float power, size_t pair, const RopeSpec& spec, const RopeYarn& rule) {
  double low = pair_of_turns(rule.beta_fast, spec, rule), high = pair_of_turns(rule.beta_slow, spec, rule);
  if (rule.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(spec.dim - 1));
  if (low == high) high += 0.001;  // no division by zero: a step in place of a ramp
  const float ramp = (static_cast<float>(pair) - static_cast<float>(low)) / static_cast<float>(high - low);
  const float kept = 1 - std::clamp(ramp, 0.0f, 1.0f);
  return 1.0f / (static_cast<float>(rule.factor) * power) * (1 - kept) + 1.0f / power * kept;
}

struct Scale {
  float power;  // of the base
  size_t pair;
  const RopeSpec& spec;
  float frequency = 1.0f / power;

  float operator()(const RopePlain&) const { return frequency; }
  float operator()(const RopeLinear& rule) const { return frequency / static_cast<float>(rule.factor); }
  float operator()(const RopeLlama3& rule) const { return llama3_frequency(frequency, rule); }
  float operator()(const RopeYarn& rule) const { return yarn_frequency(power, pair, spec, rule); }
  float operator()(const RopeDivisors& rule) const { return frequency / rule.divisors[pair]; }
};

struct Describe {
  std::string operator()(const RopePlain&) const { return ""; }
  std::string operator()(const RopeLinear& rule) const { return fmt::format(" linear x{:g}", rule.factor); }
  std::string operator()(const RopeLlama3& rule) const {
    return fmt::format(" llama3 x{:g} {:g}..{:g} of {:g}", rule.factor, rule.low_frequency_factor,
                       rule.high_frequency_factor, rule.original_max_positions);
  }
  std::string operator()(const RopeYarn& rule) const {
    return fmt::format(" yarn x{:g} of {:g}, {:g}..{:g} turns{}, magnitude {:.6g}", rule.factor,
                       rule.original_max_positions, rule.beta_slow, rule.beta_fast,
                       rule.truncate ? "" : " not truncated", rule.magnitude);
  }
  std::string operator()(const RopeDivisors& rule) const { return fmt::format(" {} divisors", rule.divisors.size()); }
};

}  // namespace

std::vector<float> RopeSpec::frequencies() const {
  CHECK(dim >= 0 && dim % 2 == 0, "rope over {} numbers; it rotates pairs", dim);
  std::vector<float> result(static_cast<size_t>(dim / 2));
  if (const auto* rule = std::get_if<RopeDivisors>(&scaling)) {
    CHECK(rule->divisors.size() == result.size(), "{} rope divisors for {} pairs", rule->divisors.size(),
          result.size());
  }
  for (size_t pair = 0; pair < result.size(); ++pair) {
    float exponent = static_cast<float>(2 * pair) / static_cast<float>(dim);
    float power = static_cast<float>(std::pow(double{static_cast<float>(base)}, double{exponent}));
    result[pair] = std::visit(Scale{power, pair, *this}, scaling);
  }
  return result;
}

float RopeSpec::magnitude() const {
  const auto* yarn = std::get_if<RopeYarn>(&scaling);
  return yarn == nullptr ? 1 : static_cast<float>(yarn->magnitude);
}

std::string RopeSpec::to_string() const {
  return fmt::format("base {:g} dim {}{}", base, dim, std::visit(Describe{}, scaling));
}

}  // namespace vernier
