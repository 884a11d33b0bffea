#include "ops/attn_spec.h"

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

struct Scale {
  float frequency;
  size_t pair;

  float operator()(const RopePlain&) const { return frequency; }
  float operator()(const RopeLinear& rule) const { return frequency / static_cast<float>(rule.factor); }
  float operator()(const RopeLlama3& rule) const { return llama3_frequency(frequency, rule); }
  float operator()(const RopeDivisors& rule) const { return frequency / rule.divisors[pair]; }
};

struct Describe {
  std::string operator()(const RopePlain&) const { return ""; }
  std::string operator()(const RopeLinear& rule) const { return fmt::format(" linear x{:g}", rule.factor); }
  std::string operator()(const RopeLlama3& rule) const {
    return fmt::format(" llama3 x{:g} {:g}..{:g} of {:g}", rule.factor, rule.low_frequency_factor,
                       rule.high_frequency_factor, rule.original_max_positions);
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
    result[pair] = std::visit(Scale{1.0f / power, pair}, scaling);
  }
  return result;
}

std::string RopeSpec::to_string() const {
  return fmt::format("base {:g} dim {}{}", base, dim, std::visit(Describe{}, scaling));
}

}  // namespace vernier
