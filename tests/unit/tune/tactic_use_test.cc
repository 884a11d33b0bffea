#include "tune/tactic_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/made_tactics.h"
#include "tune/batch_bucket.h"

namespace vernier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::made_problem;

bool finds(const std::string& words, const Problem& problem) {
  return matches_problem(problem, cut_problem_words(words));
}

TEST(TacticUseTest, WhatAListShowsFindsTheProblem) {
  const Problem problem = made_problem(576);
  for (const char* words : {"linear[2048x576] q4_1", "linear", "cols=576", "q4_1 batch=1", ""}) {
    EXPECT_TRUE(finds(words, problem)) << words;
  }
  EXPECT_TRUE(finds(problem.to_string(), problem));
  for (const char* words : {"linear[576x2048]", "attend", "cols=57", "q4_1 batch=2", "=576", "x576"}) {
    EXPECT_FALSE(finds(words, problem)) << words;
  }
}

TEST(TacticUseTest, APinNamesAProblemAndAKernel) {
  const TacticPin pin = TacticPin::parse("linear[2048x576] batch=1 => tile_a (rows_at_once=4, chunk_panels=2)").value();
  EXPECT_THAT(pin.words, ElementsAre("linear", "2048x576", "batch=1"));
  EXPECT_EQ(pin.kernel, "tile_a");
  EXPECT_EQ(facts_text(pin.parameters), "rows_at_once=4, chunk_panels=2");
  TacticUse use;
  use.pins = {TacticPin::parse("attend => stream").value(), pin};
  EXPECT_EQ(use.pin_of(made_problem(576)), &use.pins[1]);
  EXPECT_EQ(use.pin_of(made_problem(577)), nullptr);
}

TEST(TacticUseTest, APinThatSaysTooLittleIsRefused) {
  for (const char* text : {"", "linear", "=> tile_a", "linear =>", "linear => tile_a fast"}) {
    const Result<TacticPin> pin = TacticPin::parse(text);
    ASSERT_FALSE(pin.ok()) << text;
    EXPECT_THAT(pin.error().message, HasSubstr("expected")) << text;
  }
}

TEST(BatchBucket, StepsGoToTheNextPowerOfTwo) {
  for (const auto& [rows, most] :
       {std::pair(1, 1), {2, 2}, {3, 4}, {4, 4}, {5, 8}, {512, 512}, {513, 1024}, {9000, 1024}}) {
    EXPECT_EQ(bucket_rows(batch_bucket(rows)), most) << rows;
  }
}

}  // namespace
}  // namespace vernier
