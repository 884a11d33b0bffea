#include "ops/experts_spec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace vernier {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

/// By what a row's experts are chosen.
class ChoiceScores {
 public:
  ChoiceScores(const ExpertsSpec& spec, std::span<const float> logits, std::span<const float> correction)
      : spec_(spec), logits_(logits), correction_(correction) {
    if (spec.score != RouterScore::kSoftmax || correction.empty()) return;
    largest_ = double{*std::max_element(logits.begin(), logits.end())};
    for (float logit : logits) sum_ += std::exp(double{logit} - largest_);
  }

  float of(size_t expert) const {
    float score = raw(logits_[expert]);
    if (!correction_.empty()) score += correction_[expert];
    // A NaN compares with nothing: without this no expert might be found.
    return std::isnan(score) ? kLowest : score;
  }

 private:
  /// Softmax keeps the order of logits, and logits round less; a correction is of what softmax makes of them.
  float raw(float logit) const {
    if (spec_.score == RouterScore::kSigmoid) return 1.0f / (1.0f + std::exp(-logit));
    return correction_.empty() ? logit : static_cast<float>(std::exp(double{logit} - largest_) / sum_);
  }

  const ExpertsSpec& spec_;
  std::span<const float> logits_;
  std::span<const float> correction_;
  double largest_ = 0;
  double sum_ = 0;
};

float group_score(const ExpertsSpec& spec, const ChoiceScores& scores, int group) {
  const int size = spec.experts / spec.groups;
  float best = kLowest, second = kLowest;
  for (int i = group * size; i < (group + 1) * size; ++i) {
    const float score = scores.of(static_cast<size_t>(i));
    second = std::max(second, std::min(score, best));
    best = std::max(best, score);
  }
  return spec.group_score == GroupScore::kBest || size == 1 ? best : best + second;
}

/// Whether fewer than chosen_groups groups are better than this one.
bool group_is_chosen(const ExpertsSpec& spec, const ChoiceScores& scores, int group) {
  const float own = group_score(spec, scores, group);
  int better = 0;
  for (int other = 0; other < spec.groups; ++other) {
    const float score = group_score(spec, scores, other);
    if (score > own || (score == own && other < group)) ++better;
  }
  return better < spec.chosen_groups;
}

/// Keeps `out` in order of falling score; an expert behind an equal one stays behind.
void insert(std::span<ChosenExpert> out, size_t& count, ChosenExpert found) {
  size_t at = count < out.size() ? count++ : out.size();
  while (at > 0 && found.weight > out[at - 1].weight) {
    if (at < out.size()) out[at] = out[at - 1];
    --at;
  }
  if (at < out.size()) out[at] = found;
}

/// From the chosen experts' logits to their weights.
void weigh(const ExpertsSpec& spec, std::span<const float> logits, std::span<ChosenExpert> out) {
  const bool softmax = spec.score == RouterScore::kSoftmax;
  double largest = 0, sum = 0;
  if (softmax) largest = double{*std::max_element(logits.begin(), logits.end())};
  auto raw = [&](float logit) {
    return softmax ? std::exp(double{logit} - largest) : 1 / (1 + std::exp(-double{logit}));
  };
  if (spec.normalize) {
    for (const ChosenExpert& one : out) sum += raw(logits[static_cast<size_t>(one.expert)]);
    // Sigmoids may all be 0; what they are divided by is what the reference has.
    if (!softmax) sum += 1e-20;
  } else if (softmax) {
    for (float logit : logits) sum += raw(logit);
  } else {
    sum = 1;
  }
  if (std::ranges::any_of(logits, [](float logit) { return std::isnan(logit); })) {
    sum = std::numeric_limits<double>::quiet_NaN();  // no row loses its NaN by choosing around it
  }
  for (ChosenExpert& one : out) {
    one.weight = static_cast<float>(raw(logits[static_cast<size_t>(one.expert)]) / sum * double{spec.scale});
  }
}

}  // namespace

std::string ExpertsSpec::to_string() const {
  std::string text = fmt::format("{} of {} experts of width {}, {}", chosen, experts, width,
                                 score == RouterScore::kSoftmax ? "softmax" : "sigmoid");
  if (identity > 0) text += fmt::format(", {} of them identity", identity);
  if (groups > 1) {
    text += fmt::format(", from {} of {} groups by their best {}", chosen_groups, groups,
                        group_score == GroupScore::kBest ? "one" : "two");
  }
  if (normalize) text += ", weights sum to 1";
  if (scale != 1) text += fmt::format(", x{:.6g}", scale);
  if (gate.limit > 0) text += fmt::format(", clamped at {:g}", gate.limit);
  if (gate.slope != 1) text += fmt::format(", slope {:g}", gate.slope);
  if (gate.up_offset != 0) text += fmt::format(", up + {:g}", gate.up_offset);
  return text;
}

void route_row(const ExpertsSpec& spec, std::span<const float> logits, std::span<const float> correction,
               std::span<ChosenExpert> out) {
  CHECK(static_cast<int>(logits.size()) == spec.experts && static_cast<int>(out.size()) == spec.chosen,
        "{} logits for {} experts, {} places for {} of them", logits.size(), spec.experts, out.size(), spec.chosen);
  CHECK(correction.empty() || correction.size() == logits.size(), "{} corrections for {} experts", correction.size(),
        spec.experts);
  const int size = spec.experts / spec.groups;
  CHECK(size * spec.groups == spec.experts && spec.chosen <= size * spec.chosen_groups,
        "{} experts in {} groups, {} of {} groups", spec.experts, spec.groups, spec.chosen, spec.chosen_groups);
  const ChoiceScores scores(spec, logits, correction);
  size_t count = 0;
  for (int group = 0; group < spec.groups; ++group) {
    if (spec.groups > 1 && !group_is_chosen(spec, scores, group)) continue;
    for (int expert = group * size; expert < (group + 1) * size; ++expert) {
      insert(out, count, {expert, scores.of(static_cast<size_t>(expert))});
    }
  }
  weigh(spec, logits, out);
}

}  // namespace vernier
