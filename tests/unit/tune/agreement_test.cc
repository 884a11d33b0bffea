#include "tune/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/made_tactics.h"
#include "tune/tactic_record.h"

namespace vernier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::made_problem;
using testing::made_scope;
using testing::made_tactic;

NamedKernel kernel(const std::string& name, const std::string& rows_at_once = "4") {
  return {name, made_scope().kernel_hash(name), {{"rows_at_once", rows_at_once}}};
}

RankKnowledge rank_with(std::vector<RankProblem> problems) {
  RankKnowledge told;
  told.device = made_scope().device;
  told.libraries = made_scope().libraries;
  told.settings = {{"version", "0.1.0"}, {"skip", ""}};
  told.left_ns = 1'000'000'000;
  told.problems = std::move(problems);
  return told;
}

/// The columns of each problem, in their order: how the tests tell them apart.
std::vector<std::string> order(const std::vector<SharedProblem>& shared) {
  std::vector<std::string> cols;
  for (const SharedProblem& one : shared) cols.push_back(one.problem.facts.at(2).value);
  return cols;
}

// TUNE-17: the union of what ranks have, in an order that no rank's own decides.
TEST(ShareProblems, AreTheUnionInOneOrder) {
  const std::vector<RankKnowledge> ranks = {
      rank_with({{made_problem(1), {"qkv"}, {}}, {made_problem(2), {"down"}, {}}}),
      rank_with({{made_problem(2), {"gate_up"}, {}}, {made_problem(3), {"down"}, {}}, {made_problem(1), {"qkv"}, {}}})};
  const std::vector<SharedProblem> shared = share_problems(ranks);
  EXPECT_THAT(order(shared), ElementsAre("1", "2", "3"));
  EXPECT_THAT(shared[1].ops, ElementsAre("down", "gate_up"));
  EXPECT_THAT(shared[0].ranks, ElementsAre(0, 1));
  EXPECT_THAT(shared[2].ranks, ElementsAre(1));
  EXPECT_FALSE(shared[0].is_known);
}

// C06, G2.3: what those that have a problem know alike is kept, whatever else ranks know; the rest is measured, and
// what they know differently first.
TEST(ShareProblems, WhatIsKnownAlikeIsKeptC06) {
  const NamedKernel a = kernel("tile_a"), b = kernel("tile_b"), other = kernel("tile_a", "8");
  const std::vector<RankKnowledge> ranks = {rank_with({{made_problem(1), {}, {}},
                                                       {made_problem(2), {}, a},
                                                       {made_problem(3), {}, a},
                                                       {made_problem(4), {}, a},
                                                       {made_problem(5), {}, a},
                                                       {made_problem(6), {}, a}}),
                                            rank_with({{made_problem(1), {}, {}},
                                                       {made_problem(2), {}, a},
                                                       {made_problem(3), {}, {}},
                                                       {made_problem(4), {}, b},
                                                       {made_problem(5), {}, other},
                                                       {made_problem(7), {}, b}})};
  const std::vector<SharedProblem> shared = share_problems(ranks);
  EXPECT_THAT(order(shared), ElementsAre("3", "4", "5", "1", "2", "6", "7"));
  std::vector<std::string> known;
  for (const SharedProblem& one : shared) {
    if (one.is_known) known.push_back(one.problem.facts.at(2).value);
  }
  EXPECT_THAT(known, ElementsAre("2", "6", "7"));
}

TEST(ShareProblems, TheSameKernelOfAnotherBuildIsAnother) {
  NamedKernel older = kernel("tile_a");
  older.kernel_hash = std::string(64, 'f');
  const std::vector<RankKnowledge> ranks = {rank_with({{made_problem(1), {}, kernel("tile_a")}}),
                                            rank_with({{made_problem(1), {}, older}})};
  EXPECT_FALSE(share_problems(ranks)[0].is_known);
}

TEST(CheckAlike, DifferencesAreNamed) {
  std::vector<RankKnowledge> ranks(3, rank_with({}));
  EXPECT_TRUE(check_alike(ranks).ok());
  ranks[2].device[2].value = "avx512";
  EXPECT_EQ(check_alike(ranks).error().message,
            "the ranks run on different devices, so no choice holds on all: isa=avx512 on rank 2, isa=avx2 on rank 0");
  ranks[2] = ranks[0];
  ranks[1].libraries[0].value = "560";
  EXPECT_THAT(check_alike(ranks).error().message,
              HasSubstr("libraries, so no choice holds on all: driver=560 on rank 1"));
  ranks[1] = ranks[0];
  ranks[1].settings[1].value = "head";
  EXPECT_THAT(check_alike(ranks).error().message, HasSubstr("were started differently"));
}

/// What a rank found: times of tile_a and tile_b; 0 is refused.
RankFinding found(double a_ns, double b_ns) {
  RankFinding finding;
  Tactic& tactic = finding.tactic.emplace(made_tactic(made_problem(1), 5));
  tactic.others.clear();
  const auto tried = [](const std::string& name, double ns) {
    return TriedCandidate{
        kernel(name), ns > 0 ? "slower" : "out-of-memory", ns > 0 ? "" : "needs 9 GB", {ns, 3, ns > 0 ? 9 : 0}};
  };
  const bool a_leads = a_ns > 0 && (b_ns == 0 || a_ns <= b_ns);
  tactic.chosen = kernel(a_leads ? "tile_a" : "tile_b");
  tactic.time = {a_leads ? a_ns : b_ns, 3, 9};
  tactic.others.push_back(a_leads ? tried("tile_b", b_ns) : tried("tile_a", a_ns));
  finding.fixed_ns = a_ns;
  return finding;
}

// TUNE-18, C02: a step waits for the slowest rank, so that is a candidate's time.
TEST(AgreeOnTactic, TheSlowestRankDecidesC02) {
  const std::vector<int> both = {0, 1};
  const std::vector<RankFinding> ranks = {found(100, 120), found(150, 125)};
  const Tactic agreed = agree_on_tactic(both, ranks).value();
  EXPECT_EQ(agreed.chosen.kernel, "tile_b");
  EXPECT_EQ(agreed.time.median_ns, 125);
  ASSERT_EQ(agreed.others.size(), 1U);
  EXPECT_EQ(agreed.others[0].time.median_ns, 150);
  EXPECT_EQ(agreed.others[0].detail, "+20.0 %");
  // One that does not have the problem has no say.
  EXPECT_EQ(agree_on_tactic(std::vector<int>{0}, ranks).value().chosen.kernel, "tile_a");
}

// TUNE-18, C03: within the margin the first by name is taken.
TEST(AgreeOnTactic, ATieGoesToTheFirstByNameC03) {
  const std::vector<int> both = {0, 1};
  const Tactic agreed = agree_on_tactic(both, std::vector{found(100.5, 100), found(100, 99)}).value();
  EXPECT_EQ(agreed.chosen.kernel, "tile_a");
  EXPECT_TRUE(agreed.tie);
  EXPECT_EQ(agreed.others[0].verdict, "tie");
  EXPECT_EQ(agree_on_tactic(both, std::vector{found(102, 100), found(100, 99)}).value().chosen.kernel, "tile_b");
}

// TUNE-18, C12: what one rank cannot run nobody takes.
TEST(AgreeOnTactic, WhatOneRankRefusesNobodyTakesC12) {
  const std::vector<int> both = {0, 1};
  const Tactic agreed = agree_on_tactic(both, std::vector{found(100, 120), found(0, 125)}).value();
  EXPECT_EQ(agreed.chosen.kernel, "tile_b");
  EXPECT_EQ(agreed.others[0].verdict, "out-of-memory");
  EXPECT_EQ(agreed.others[0].detail, "rank 1: needs 9 GB");
  RankFinding fewer = found(100, 120);
  fewer.tactic->others.clear();
  EXPECT_EQ(agree_on_tactic(both, std::vector{found(100, 90), fewer}).value().chosen.kernel, "tile_a");
  EXPECT_THAT(agree_on_tactic(both, std::vector{found(0, 120), fewer}).error().message,
              HasSubstr("none of 2 candidates can be used on each of its 2 ranks"));
  RankFinding nothing;
  nothing.why = "a bad sum";
  EXPECT_EQ(agree_on_tactic(both, std::vector{found(100, 120), nothing}).error().message, "rank 1: a bad sum");
}

// C21: a list that has a candidate twice is a list that has it.
TEST(AgreeOnTactic, ACandidateTwiceIsOneC21) {
  RankFinding twice = found(100, 120);
  twice.tactic->others.push_back(twice.tactic->others[0]);
  RankFinding lacks = found(100, 90);
  lacks.tactic->others.clear();
  lacks.tactic->chosen = kernel("tile_a");
  EXPECT_EQ(agree_on_tactic(std::vector<int>{0, 1}, std::vector{twice, lacks}).value().others[0].detail,
            "1 of 2 ranks have it");
}

// TUNE-7, TUNE-18: in whatever order ranks met candidates, and whoever asks, the bytes are the same.
TEST(AgreeOnTactic, GivesTheSameBytesInEveryOrder) {
  RankFinding first = found(100, 120), second = found(130, 110);
  first.tactic->others.push_back({kernel("stream"), "failed", "no rows", {}});
  second.tactic->others.insert(second.tactic->others.begin(), {kernel("stream"), "slower", "", {300, 1, 9}});
  const std::vector<RankFinding> ranks = {first, second};
  std::vector<RankFinding> told;
  for (const RankFinding& one : ranks) told.push_back(read_finding(write_finding(one)).value());
  const Tactic agreed = agree_on_tactic(std::vector<int>{0, 1}, ranks).value();
  EXPECT_EQ(write_tactic(agreed), write_tactic(agree_on_tactic(std::vector<int>{0, 1}, told).value()));
  EXPECT_EQ(agreed.others.back().named.kernel, "stream");
  EXPECT_EQ(agreed.others.back().detail, "rank 0: no rows");
}

TEST(CheckSameChoices, TheFirstDifferenceIsNamed) {
  const std::vector<RankChoices> ranks = {{{"p", "q"}, {"a", "b"}}, {{"q", "r"}, {"b", "c"}}, {{"r", "q"}, {"", "b"}}};
  EXPECT_EQ(check_same_choices(ranks).error().message, "for r rank 1 would take c and rank 2 its fixed choice");
  EXPECT_TRUE(check_same_choices(std::span(ranks).first(2)).ok());
}

// What another rank told may be anything.
TEST(RankTelling, IsReadBackAndDamageIsRefused) {
  const RankKnowledge told = rank_with({{made_problem(1), {"qkv"}, kernel("tile_a")}, {made_problem(2), {}, {}}});
  const std::string bytes = write_knowledge(told);
  EXPECT_EQ(write_knowledge(read_knowledge(bytes).value()), bytes);
  RankChoices choices{{"p"}, {""}};
  EXPECT_EQ(write_choices(read_choices(write_choices(choices)).value()), write_choices(choices));
  for (size_t length = 0; length < bytes.size(); length += 7) {
    EXPECT_FALSE(read_knowledge(bytes.substr(0, length)).ok());
    EXPECT_FALSE(read_finding(bytes.substr(0, length)).ok());
  }
  EXPECT_FALSE(read_choices(R"({"problems":["p"],"kernels":[]})").ok());
  EXPECT_FALSE(read_knowledge("[]").ok());
}

}  // namespace
}  // namespace vernier
