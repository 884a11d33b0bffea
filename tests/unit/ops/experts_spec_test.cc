#include "ops/experts_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace vernier {
namespace {

std::vector<ChosenExpert> route(const ExpertsSpec& spec, const std::vector<float>& logits,
                                const std::vector<float>& correction = {}) {
  std::vector<ChosenExpert> out(static_cast<size_t>(spec.chosen));
  route_row(spec, logits, correction, out);
  return out;
}

ExpertsSpec spec_of(int experts, int chosen) {
  ExpertsSpec spec;
  spec.experts = experts;
  spec.chosen = chosen;
  return spec;
}

// What the definition says, by sorting all experts.
std::vector<ChosenExpert> sorted_route(const ExpertsSpec& spec, const std::vector<float>& logits,
                                       const std::vector<float>& correction) {
  const size_t experts = logits.size(), size = experts / static_cast<size_t>(spec.groups);
  std::vector<double> raw(experts), score(experts);
  const double most = *std::ranges::max_element(logits);
  double all = 0;
  for (size_t i = 0; i < experts; ++i) all += std::exp(double{logits[i]} - most);
  for (size_t i = 0; i < experts; ++i) {
    const double logit = logits[i];
    raw[i] = spec.score == RouterScore::kSoftmax ? std::exp(logit - most) / all : 1 / (1 + std::exp(-logit));
    score[i] = raw[i] + (correction.empty() ? 0 : double{correction[i]});
  }
  std::vector<size_t> groups(static_cast<size_t>(spec.groups));
  std::iota(groups.begin(), groups.end(), size_t{0});
  auto of_group = [&](size_t group) {
    std::vector<double> own(score.begin() + static_cast<std::ptrdiff_t>(group * size),
                            score.begin() + static_cast<std::ptrdiff_t>((group + 1) * size));
    std::ranges::sort(own, std::greater());
    return spec.group_score == GroupScore::kBest || size == 1 ? own[0] : own[0] + own[1];
  };
  std::ranges::stable_sort(groups, [&](size_t a, size_t b) { return of_group(a) > of_group(b); });
  groups.resize(static_cast<size_t>(spec.chosen_groups));
  std::vector<size_t> order;
  for (size_t i = 0; i < experts; ++i) {
    if (std::ranges::find(groups, i / size) != groups.end()) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return score[a] > score[b]; });
  order.resize(static_cast<size_t>(spec.chosen));
  double sum = spec.normalize ? 0 : 1;
  for (size_t i : order) sum += spec.normalize ? raw[i] : 0;
  std::vector<ChosenExpert> out;
  for (size_t i : order) out.push_back({static_cast<int>(i), static_cast<float>(raw[i] / sum * double{spec.scale})});
  return out;
}

// OPS-9, B16: any number of experts, in groups or not; each choice is of experts that exist, and none twice.
TEST(RouteRow, IsWhatSortingAllExpertsGives) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1.5f);
  for (auto [experts, chosen, groups, chosen_groups] : {std::tuple{1, 1, 1, 1},
                                                        {3, 2, 1, 1},
                                                        {5, 5, 1, 1},
                                                        {7, 3, 1, 1},
                                                        {8, 3, 4, 2},
                                                        {12, 4, 3, 1},
                                                        {128, 8, 8, 4}}) {
    for (int round = 0; round < 40; ++round) {
      ExpertsSpec spec = spec_of(experts, chosen);
      spec.groups = groups;
      spec.chosen_groups = chosen_groups;
      spec.score = round % 2 == 0 ? RouterScore::kSoftmax : RouterScore::kSigmoid;
      spec.group_score = round % 3 == 0 ? GroupScore::kBest : GroupScore::kBestTwo;
      if (spec.score == RouterScore::kSoftmax) spec.group_score = GroupScore::kBest;
      spec.normalize = round % 4 < 2;
      spec.scale = 2.5f;
      std::vector<float> logits(static_cast<size_t>(experts)), correction;
      for (float& logit : logits) logit = normal(random);
      if (round % 8 > 2) {
        for (int i = 0; i < experts; ++i) correction.push_back(0.1f * normal(random));
      }
      const auto found = route(spec, logits, correction), expected = sorted_route(spec, logits, correction);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(found[i].expert, expected[i].expert) << spec.to_string() << " round " << round << " place " << i;
        EXPECT_NEAR(found[i].weight, expected[i].weight, 1e-6) << spec.to_string() << " round " << round;
      }
    }
  }
}

// gpt-oss takes the softmax of the chosen logits, Mixtral divides the chosen part of a softmax over all: one number.
TEST(RouteRow, ASoftmaxOverTheChosenIsANormalisedOne) {
  ExpertsSpec spec = spec_of(4, 2);
  spec.normalize = true;
  const auto found = route(spec, {0.5f, -1.0f, 2.0f, 1.25f});
  EXPECT_EQ(found[0].expert, 2);
  EXPECT_EQ(found[1].expert, 3);
  EXPECT_NEAR(found[0].weight, 1 / (1 + std::exp(-0.75)), 1e-7);
  EXPECT_NEAR(found[0].weight + found[1].weight, 1, 1e-7);
}

TEST(RouteRow, CorrectionsChooseAndDoNotWeigh) {
  ExpertsSpec spec = spec_of(3, 1);
  spec.score = RouterScore::kSigmoid;
  const auto found = route(spec, {1.0f, 0.5f, -2.0f}, {0.0f, 0.3f, 0.1f});
  EXPECT_EQ(found[0].expert, 1);
  EXPECT_NEAR(found[0].weight, 1 / (1 + std::exp(-0.5)), 1e-7);
}

// LongCat: a correction is of probabilities, which are far smaller than logits.
TEST(RouteRow, CorrectionsOfASoftmaxAreAddedToProbabilities) {
  ExpertsSpec spec = spec_of(3, 1);
  const std::vector<float> logits = {5.0f, 4.5f, -2.0f};
  const auto found = route(spec, logits, {-0.3f, 0.0f, 0.5f});
  EXPECT_EQ(found[0].expert, 2);
  EXPECT_NEAR(found[0].weight, std::exp(-7) / (1 + std::exp(-0.5) + std::exp(-7)), 1e-7);
  EXPECT_EQ(route(spec, logits, {-0.3f, 0.0f, 0.3f})[0].expert, 1);
}

TEST(ExpertsSpec, SaysHowManyAreTheIdentity) {
  ExpertsSpec spec = spec_of(12, 3);
  spec.width = 48;
  spec.identity = 4;
  EXPECT_EQ(spec.weighted(), 8);
  EXPECT_EQ(spec.to_string(), "3 of 12 experts of width 48, softmax, 4 of them identity");
}

TEST(RouteRow, TiesGoToTheLowestNumber) {
  const auto found = route(spec_of(6, 3), {1, 2, 2, 1, 2, 0});
  EXPECT_EQ(found[0].expert, 1);
  EXPECT_EQ(found[1].expert, 2);
  EXPECT_EQ(found[2].expert, 4);
}

// B12, B13: whatever the logits are, the chosen experts exist and differ; a row that is no number stays none.
TEST(RouteRow, WhatIsNoNumberChoosesExpertsThatExist) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  for (int groups : {1, 2}) {
    ExpertsSpec spec = spec_of(4, 2);
    spec.groups = groups;
    for (const std::vector<float>& logits : {std::vector<float>{kNan, kNan, kNan, kNan},
                                             {kNan, 1, kNan, 2},
                                             {-kInf, -kInf, -kInf, -kInf},
                                             {kInf, kInf, 1, kInf}}) {
      for (RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
        spec.score = score;
        const auto found = route(spec, logits);
        for (const ChosenExpert& one : found) EXPECT_TRUE(one.expert >= 0 && one.expert < 4) << one.expert;
        EXPECT_NE(found[0].expert, found[1].expert);
      }
    }
  }
  for (bool normalize : {false, true}) {
    ExpertsSpec spec = spec_of(3, 1);
    spec.normalize = normalize;
    EXPECT_TRUE(std::isnan(route(spec, {1, kNan, 2})[0].weight));
  }
}

}  // namespace
}  // namespace vernier
