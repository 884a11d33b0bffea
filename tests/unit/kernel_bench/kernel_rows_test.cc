#include "api/kernel_rows.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace vernier {
namespace {

const KernelRow* find_row(const std::vector<KernelRow>& rows, const std::string& name) {
  const auto it = std::ranges::find(rows, name, &KernelRow::name);
  return it == rows.end() ? nullptr : &*it;
}

TEST(KernelRows, NamesDifferAndGoalsNameRowsThatAreMeasuredBefore) {
  std::set<std::string> seen;
  for (const KernelRow& row : kernel_rows()) {
    for (const KernelGoal& goal : row.goals) {
      EXPECT_TRUE(goal.of != GoalOf::kTimeOf || seen.contains(goal.row)) << row.name << " before " << goal.row;
      EXPECT_GT(goal.number, 0) << row.name;
    }
    EXPECT_TRUE(seen.insert(row.name).second) << row.name;
  }
}

TEST(KernelRows, AFilterKeepsWhatItsRowsAreComparedWith) {
  const std::vector<KernelRow> rows = kernel_rows("fp8_e4m3 32/8/128 at 131072");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "attend bf16 32/8/128 at 131072");
  EXPECT_EQ(rows[1].name, "attend fp8_e4m3 32/8/128 at 131072");
  EXPECT_THAT(kernel_rows("no such row"), testing::IsEmpty());
}

// The bytes decide which goal holds: 0.75 from 256 MB on, 0.65 from 64 MB on.
TEST(KernelRows, GoalsOfACacheFollowItsBytes) {
  const std::vector<KernelRow> rows = kernel_rows();
  const KernelRow* large = find_row(rows, "attend fp8_e4m3 32/8/128 at 131072");
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(std::get<AttendWork>(large->work).bytes(), 2.0 * 8 * 128 * 131073);
  EXPECT_EQ(large->goals.front().number, 0.75);
  EXPECT_EQ(find_row(rows, "attend fp8_e4m3 32/8/128 at 32768")->goals.front().number, 0.65);
  EXPECT_EQ(find_row(rows, "product e4m3[128x128] 7168x16384 64 rows")->goals.front().number, 0.75);
  EXPECT_EQ(find_row(rows, "product e4m3[128x128] 2112x7168 64 rows")->goals.front().number, 0.50);
}

TEST(KernelRows, MaskedKeysAreNoOperations) {
  AttendWork work{2, 1, 8, CodecId::kBF16, 0, 0, 4};
  EXPECT_EQ(work.operations(), 4.0 * 2 * 8 * (1 + 2 + 3 + 4));
  work.window = 2;
  EXPECT_EQ(work.operations(), 4.0 * 2 * 8 * (1 + 2 + 2 + 2));
  EXPECT_EQ(work.bytes(), 2.0 * 8 * 2 * 4);
  work.prompt = 0, work.depth = 100;
  EXPECT_EQ(work.operations(), 4.0 * 2 * 8 * 2);
  EXPECT_EQ(work.bytes(), 2.0 * 8 * 2 * 2);
}

KernelResult result(const std::string& name, std::vector<KernelGoal> goals, KernelTime time) {
  return {{name, ProductWork{}, std::move(goals)}, time};
}

TEST(KernelRows, AGoalIsJudgedByWhatItIsAShareOf) {
  const KernelLimits limits{100, 1000, ""};
  const std::vector<KernelResult> all = {
      result("a", {}, {2, 0, 0}), result("b", {{GoalOf::kCopy, 0.5}, {GoalOf::kProducts, 0.5}}, {1, 50, 400}),
      result("c", {{GoalOf::kTimeOf, 0.5, "a"}}, {1, 0, 0}), result("d", {{GoalOf::kTimeOf, 0.5, "a"}}, {1.1, 0, 0}),
      result("e", {{GoalOf::kTokens, 4}}, {0.25, 0, 0})};
  const auto outcomes = [&](size_t i) { return judge_goals(all[i], all, limits); };
  EXPECT_TRUE(outcomes(1)[0].met);
  EXPECT_EQ(outcomes(1)[0].reached, 0.5);
  EXPECT_FALSE(outcomes(1)[1].met);
  EXPECT_EQ(outcomes(1)[1].reached, 0.4);
  EXPECT_TRUE(outcomes(2)[0].met);
  EXPECT_FALSE(outcomes(3)[0].met);
  EXPECT_TRUE(outcomes(4)[0].met);
  EXPECT_EQ(to_string(outcomes(3)[0]), "0.55 of the time of a (goal at most 0.50: missed)");
  EXPECT_EQ(to_string(outcomes(4)[0]), "4 tok/s (goal 4: met)");
}

TEST(KernelRows, AShareOfWhatWasNotMeasuredIsNotMet) {
  const std::vector<KernelResult> all = {
      result("a", {{GoalOf::kProducts, 0.5}, {GoalOf::kTimeOf, 1, "z"}}, {1, 50, 400})};
  for (const GoalOutcome& outcome : judge_goals(all[0], all, {100, {}, "no library"})) {
    EXPECT_FALSE(outcome.met);
    EXPECT_FALSE(outcome.reached);
    EXPECT_THAT(to_string(outcome), testing::HasSubstr("was not measured"));
  }
}

}  // namespace
}  // namespace vernier
