#include "checkpoint/quant_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "checkpoint/byte_reader.h"

namespace vernier {

namespace {

/// Modules that tools leave as they were without saying so.
bool is_kept_by_convention(std::string_view module) {
  constexpr std::array<std::string_view, 9> kLast = {
      "lm_head",      "embed_tokens", "gate", "router",    "shared_expert_gate",
      "weights_proj", "embed_out",    "wte",  "classifier"};
  size_t dot = module.rfind('.');
  std::string_view last = dot == std::string_view::npos ? module : module.substr(dot + 1);
  return std::find(kLast.begin(), kLast.end(), last) != kLast.end();
}

std::string in_words(const QuantPlan& plan, const WeightDecision& decision) {
  return decision.rule.empty() ? fmt::format("{} says nothing", plan.origin)
                               : fmt::format("{} ({})", describe(decision.scheme), decision.rule);
}

}  // namespace

std::string describe(const WeightScheme& scheme) {
  switch (scheme.form) {
    case WeightForm::kDense:
      return "not quantised";
    case WeightForm::kFp8Tensor:
      return fmt::format("{}, one scale", scheme.algorithm);
    case WeightForm::kFp8Channel:
      return fmt::format("{}, a scale a row", scheme.algorithm);
    case WeightForm::kFp8Block:
      return fmt::format("{}, blocks of {}x{}", scheme.algorithm, scheme.block_rows, scheme.block_cols);
    case WeightForm::kMxfp8:
    case WeightForm::kMxfp4:
      return fmt::format("{}, groups of 32", scheme.algorithm);
    case WeightForm::kNvfp4:
      return fmt::format("{}, groups of 16", scheme.algorithm);
    case WeightForm::kAwq:
    case WeightForm::kGptq:
    case WeightForm::kMlx:
    case WeightForm::kPackedInteger:
    case WeightForm::kInteger:
      return fmt::format("{}, integers of {} bits, {}", scheme.algorithm, scheme.bits,
                         scheme.group == 0 ? "a scale a row" : fmt::format("groups of {}", scheme.group));
  }
  return "?";
}

WeightDecision QuantPlan::decide(std::string_view module) const {
  WeightDecision decision;
  if (empty()) return decision;
  for (const ModulePattern& pattern : excluded) {
    if (!pattern.matches(module)) continue;
    decision.rule = fmt::format("'{}' of {}", printable(pattern.text()), excluded_key);
    return decision;
  }
  auto take = [&](size_t index) {
    const Rule& rule = rules[index];
    decision.scheme = rule.scheme;
    decision.rule = rule.name.empty() ? origin : fmt::format("{} of {}", printable(rule.name), origin);
  };
  std::string core(without_wrappers(module));
  auto found = listed.find(core);
  if (found == listed.end()) {
    if (std::optional<std::string> fused = fused_name(core)) found = listed.find(*fused);
  }
  decision.only_if_stored = only_if_stored;
  if (found != listed.end()) {
    take(found->second);
    return decision;
  }
  auto pattern = std::find_if(patterns.begin(), patterns.end(), [&](const auto& p) { return p.first.matches(module); });
  if (pattern != patterns.end()) {
    take(pattern->second);
    decision.only_if_stored = only_if_stored || is_kept_by_convention(module);
  } else if (every_linear) {
    take(*every_linear);
    decision.only_if_stored = only_if_stored || is_kept_by_convention(module);
  } else {
    decision.rule = fmt::format("the default of {}", origin);
  }
  return decision;
}

Status check_agreement(const QuantPlan& a, const QuantPlan& b, const std::vector<std::string>& modules) {
  for (const std::string& module : modules) {
    WeightDecision first = a.decide(module);
    WeightDecision second = b.decide(module);
    if (first.scheme.same_numbers(second.scheme)) continue;
    return corrupt("{} and {} disagree about {}: {}, and {}; one of them must be wrong", a.origin, b.origin,
                   printable(module), in_words(a, first), in_words(b, second));
  }
  // A source that does not speak of the cache agrees with whatever another says.
  if (a.cache && b.cache && *a.cache != *b.cache) {
    auto shown = [](const std::string& cache) { return cache.empty() ? "16 bits" : printable(cache); };
    return corrupt("{} and {} disagree about the KV cache: {}, and {}; one of them must be wrong", a.origin, b.origin,
                   shown(*a.cache), shown(*b.cache));
  }
  return {};
}

std::vector<std::string> unmatched_entries(const QuantPlan& plan, const std::vector<std::string>& modules) {
  std::unordered_set<std::string> cores;
  for (const std::string& module : modules) cores.emplace(without_wrappers(module));
  auto is_matched = [&](const ModulePattern& pattern) {
    return cores.contains(std::string(without_wrappers(pattern.text()))) ||
           std::any_of(modules.begin(), modules.end(), [&](const auto& module) { return pattern.matches(module); });
  };
  std::vector<std::string> entries;
  for (const ModulePattern& pattern : plan.excluded) {
    // Tools name the head of tied models, too, which has no tensor.
    if (!is_matched(pattern) && pattern.text() != "lm_head") entries.push_back(pattern.text());
  }
  for (const auto& [pattern, rule] : plan.patterns) {
    if (!plan.patterns_are_own && !is_matched(pattern)) entries.push_back(pattern.text());
  }
  for (const auto& [name, rule] : plan.listed) {
    if (cores.contains(name)) continue;
    bool is_fused = std::any_of(modules.begin(), modules.end(), [&, &listed = name](const std::string& module) {
      return fused_name(without_wrappers(module)) == listed;
    });
    if (!is_fused) entries.push_back(name);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace vernier
