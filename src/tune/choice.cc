#include "tune/choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace vernier {

std::string_view name(ReasonCode code) {
  switch (code) {
    case ReasonCode::kChosen:
      return "chosen";
    case ReasonCode::kSlower:
      return "slower";
    case ReasonCode::kNeedsIsa:
      return "needs-isa";
    case ReasonCode::kCodec:
      return "codec";
    case ReasonCode::kShape:
      return "shape";
    case ReasonCode::kNumerics:
      return "numerics";
    case ReasonCode::kRows:
      return "rows";
    case ReasonCode::kNotBuilt:
      return "not-built";
    case ReasonCode::kNeedsFeature:
      return "needs-feature";
    case ReasonCode::kBlockSize:
      return "block-size";
    case ReasonCode::kScales:
      return "scales";
    case ReasonCode::kResultType:
      return "result-type";
    case ReasonCode::kValues:
      return "values";
    case ReasonCode::kNotAsked:
      return "not-asked";
  }
  return "?";
}

std::string Problem::to_string() const {
  std::string text = op + "(";
  for (const Fact& fact : facts) {
    if (&fact != &facts.front()) text += ", ";
    text += fact.name + "=" + fact.value;
  }
  return text + ")";
}

std::string facts_text(const Facts& facts) {
  std::string text;
  for (const Problem::Fact& fact : facts)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", fact.name, fact.value);
  return text.empty() ? "none" : text;
}

const Candidate& Choice::chosen() const {
  auto it = std::ranges::find_if(candidates, [](const Candidate& c) { return c.reason.code == ReasonCode::kChosen; });
  CHECK(it != candidates.end(), "no kernel was chosen for {}", problem.to_string());
  return *it;
}

}  // namespace vernier
