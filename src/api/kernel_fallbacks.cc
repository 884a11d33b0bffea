#include "api/kernel_fallbacks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "base/log.h"
#include "models/decoder_spec.h"
#include "tune/fallback.h"

namespace vernier {
namespace {

constexpr int64_t kPrefillRows = 512;

using FallbackKey = std::tuple<std::string, std::string, std::string, std::string, std::string>;

struct Counted {
  std::string detail;
  int64_t count = 0;
};
using FallbackCounts = std::map<FallbackKey, Counted>;

void count_choice(const Choice& choice, const std::string& phase, FallbackCounts& counts) {
  const Candidate* refused = stood_in_for(choice);
  if (refused == nullptr) return;
  Counted& counted = counts[{choice.problem.op, phase, choice.chosen().kernel, refused->kernel,
                             std::string(name(refused->reason.code))}];
  if (++counted.count == 1) counted.detail = refused->reason.detail;
}

std::vector<KernelFallback> count_parts(const Backend& backend, const std::vector<DecoderPart>& parts,
                                        const std::vector<CacheSpec>& caches) {
  FallbackCounts counts;
  for (const auto& [phase, rows] : {std::pair("decode", int64_t{1}), std::pair("prefill", kPrefillRows)}) {
    for (const DecoderPart& part : parts) {
      if (part.matrix != nullptr) {
        for (const Choice& choice : backend.explain_linear(*part.matrix, part.rows_of(rows)))
          count_choice(choice, phase, counts);
      } else {
        const CacheSpec& cache = caches[static_cast<size_t>(part.layer)];
        count_choice(backend.explain_attend(part.attn->spec, cache, rows), phase, counts);
      }
    }
  }
  std::vector<KernelFallback> fallbacks;
  for (const auto& [key, counted] : counts) {
    const auto& [op, phase, kernel, instead_of, reason] = key;
    fallbacks.push_back({op, phase, kernel, instead_of, reason, counted.detail, counted.count});
  }
  return fallbacks;
}

constexpr std::array<std::string_view, 3> kFallbackOps = {"linear", "attend", "experts"};

Result<OnFallback> parse_answer(std::string_view option, std::string_view word) {
  if (word == "error") return OnFallback::kError;
  if (word == "warn") return OnFallback::kWarn;
  if (word == "allow") return OnFallback::kAllow;
  return invalid_argument("{} {}: expected error, warn or allow", option, word);
}

}  // namespace

std::string KernelFallback::to_string() const {
  return fmt::format("{} ({}): {} in place of {} for {} {}: {}{}{}", op, phase, kernel, instead_of, count,
                     op == "attend" ? "layers" : "weights", reason, detail.empty() ? "" : ", ", detail);
}

std::vector<KernelFallback> kernel_fallbacks(const LoadedModel& model, const std::vector<CacheSpec>& caches) {
  return count_parts(model.backend(), model.decoder().parts(), caches);
}

std::vector<KernelFallback> kernel_fallbacks(const LoadedEncoder& model) {
  // An encoder caches nothing.
  const std::vector<CacheSpec> caches(static_cast<size_t>(model.encoder().spec().layers));
  return count_parts(model.backend(), model.encoder().parts(), caches);
}

Result<FallbackRules> FallbackRules::parse(std::string_view option, std::string_view text) {
  FallbackRules rules;
  if (text.find('=') == std::string_view::npos) {
    TRY_BIND(rules.all_, parse_answer(option, text));
    return rules;
  }
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view rule = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = rule.find('=');
    const std::string_view op = rule.substr(0, equals);
    if (equals == std::string_view::npos || std::ranges::find(kFallbackOps, op) == kFallbackOps.end()) {
      return invalid_argument("{} {}: expected error, warn or allow, or {}=... for each, by commas", option, rule,
                              fmt::join(kFallbackOps, "=..., "));
    }
    TRY_BIND(const OnFallback answer, parse_answer(option, rule.substr(equals + 1)));
    if (!rules.by_op_.emplace(op, answer).second) return invalid_argument("{} names {} twice", option, op);
  }
  return rules;
}

OnFallback FallbackRules::of(std::string_view op) const {
  const auto found = by_op_.find(op);
  return found == by_op_.end() ? all_ : found->second;
}

Status FallbackRules::apply(std::span<const KernelFallback> fallbacks) const {
  std::string refused;
  for (const KernelFallback& fallback : fallbacks) {
    const OnFallback answer = of(fallback.op);
    if (answer == OnFallback::kWarn) log_warning("fallback: {}", fallback.to_string());
    if (answer == OnFallback::kError) refused += (refused.empty() ? "" : "; ") + fallback.to_string();
  }
  if (refused.empty()) return {};
  return unsupported(
      "--on-fallback=error, and not every fastest kernel can run here: {}; allow it, or see vernier explain", refused);
}

}  // namespace vernier
