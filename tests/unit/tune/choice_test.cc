#include "tune/fallback.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace vernier {
namespace {

Choice choice_of(std::initializer_list<ReasonCode> codes) {
  Choice choice;
  choice.problem = {"linear", {{"codec", "q4_1"}, {"rows", "576"}, {"batch", "1"}}};
  for (ReasonCode code : codes) choice.candidates.push_back({"kernel_" + std::string(name(code)), {code, "because"}});
  return choice;
}

// TUNE-1
TEST(Choice, TheChosenOneIsFoundWhereverItStandsTune1) {
  EXPECT_EQ(choice_of({ReasonCode::kNeedsIsa, ReasonCode::kChosen, ReasonCode::kSlower}).chosen().kernel,
            "kernel_chosen");
  EXPECT_EQ(choice_of({ReasonCode::kChosen}).chosen().kernel, "kernel_chosen");
}

TEST(ChoiceDeathTest, AChoiceWithoutOneIsAProgrammersErrorTune1) {
  EXPECT_DEATH((void)choice_of({ReasonCode::kSlower}).chosen(), "no kernel was chosen for linear\\(codec=q4_1");
}

// TUNE-2
TEST(Choice, EachReasonHasANameOfItsOwnTune2) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ReasonCode::kNotAsked); ++code) {
    const std::string_view found = name(static_cast<ReasonCode>(code));
    EXPECT_NE(found, "?") << code;
    EXPECT_TRUE(names.insert(found).second) << found;
  }
}

// TUNE-6
TEST(Choice, StandsInForWhatThisProblemKeptFromRunningTune6) {
  const std::set<ReasonCode> none = {ReasonCode::kSlower,   ReasonCode::kNeedsIsa, ReasonCode::kCodec,
                                     ReasonCode::kNumerics, ReasonCode::kRows,     ReasonCode::kNotAsked};
  for (int i = 1; i <= static_cast<int>(ReasonCode::kNotAsked); ++i) {
    const auto code = static_cast<ReasonCode>(i);
    const Choice before = choice_of({ReasonCode::kNeedsIsa, code, ReasonCode::kRows, ReasonCode::kChosen});
    if (none.contains(code)) {
      EXPECT_EQ(stood_in_for(before), nullptr) << name(code);
    } else {
      ASSERT_NE(stood_in_for(before), nullptr) << name(code);
      EXPECT_EQ(stood_in_for(before)->reason.code, code);
    }
    EXPECT_EQ(stood_in_for(choice_of({ReasonCode::kChosen, code})), nullptr) << "slower ones stand behind";
  }
}

// TUNE-3
TEST(Problem, PrintsItsFactsInTheirOrderTune3) {
  EXPECT_EQ(choice_of({}).problem.to_string(), "linear(codec=q4_1, rows=576, batch=1)");
  EXPECT_EQ((Problem{"attend", {}}).to_string(), "attend()");
}

}  // namespace
}  // namespace vernier
