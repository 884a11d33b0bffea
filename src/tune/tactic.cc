#include "tune/tactic.h"

#include <fmt/format.h>

#include <algorithm>

#include "tune/content_hash.h"

namespace vernier {
namespace {

/// Lengths keep names, values and their borders apart whatever they hold.
ContentHash hash_of(const Problem& problem) {
  std::string text;
  const auto add = [&](const std::string& part) { text += std::to_string(part.size()) + ":" + part; };
  add(problem.op);
  for (const Problem::Fact& fact : problem.facts) {
    add(fact.name);
    add(fact.value);
  }
  return content_hash(text);
}

bool equal(const Facts& a, const Facts& b) {
  return std::ranges::equal(
      a, b, [](const Problem::Fact& x, const Problem::Fact& y) { return x.name == y.name && x.value == y.value; });
}

/// The facts of `of` that `beside` does not have so.
std::string differing(const Facts& of, const Facts& beside) {
  Facts found;
  for (const Problem::Fact& fact : of) {
    const bool same = std::ranges::any_of(
        beside, [&](const Problem::Fact& other) { return other.name == fact.name && other.value == fact.value; });
    if (!same) found.push_back(fact);
  }
  return facts_text(found);
}

}  // namespace

std::string NamedKernel::to_string() const {
  return parameters.empty() ? kernel : fmt::format("{} ({})", kernel, facts_text(parameters));
}

std::string problem_hash(const Problem& problem) {
  return hash_of(problem).to_hex();
}

TacticKey tactic_key(const Problem& problem) {
  const ContentHash hash = hash_of(problem);
  return {hash.word(0), hash.word(1)};
}

std::string tactic_misfit(const Tactic& tactic, const TacticScope& scope) {
  if (!equal(tactic.device, scope.device)) {
    return fmt::format("another device: measured on {}; here {}", differing(tactic.device, scope.device),
                       differing(scope.device, tactic.device));
  }
  if (!equal(tactic.libraries, scope.libraries)) {
    return fmt::format("other libraries: measured with {}; here {}", differing(tactic.libraries, scope.libraries),
                       differing(scope.libraries, tactic.libraries));
  }
  const std::string hash = scope.kernel_hash(tactic.chosen.kernel);
  if (hash.empty()) return fmt::format("this build has no kernel {}", tactic.chosen.kernel);
  if (hash != tactic.chosen.kernel_hash) {
    return fmt::format("another kernel: {} is {:.12} in the record and {:.12} in this build", tactic.chosen.kernel,
                       tactic.chosen.kernel_hash, hash);
  }
  return "";
}

}  // namespace vernier
