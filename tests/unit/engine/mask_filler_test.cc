#include "engine/mask_filler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

/// Fills masks with one word, counts them, and fails where it is told to.
class CountingRun : public AutomatonRun {
 public:
  CountingRun(uint32_t word, std::atomic<int>& filled) : word_(word), filled_(filled) {}
  bool accept(int32_t) override { return true; }
  Status fill_mask(std::span<uint32_t> bits) override {
    ++filled_;
    if (word_ == 0) return make_error(ErrorCode::kInternal, "the matching library failed");
    std::ranges::fill(bits, word_);
    return {};
  }
  bool is_complete() const override { return false; }
  void rollback(int) override {}

 private:
  uint32_t word_;
  std::atomic<int>& filled_;
};

class CountingAutomaton : public Automaton {
 public:
  CountingAutomaton(uint32_t word, std::atomic<int>& filled) : word_(word), filled_(filled) {}
  Result<std::unique_ptr<AutomatonRun>> start() const override {
    return std::unique_ptr<AutomatonRun>(std::make_unique<CountingRun>(word_, filled_));
  }
  size_t bytes() const override { return 0; }

 private:
  uint32_t word_;
  std::atomic<int>& filled_;
};

class MaskFillerTest : public ::testing::Test {
 protected:
  GrammarMatcher matcher(uint32_t word) {
    auto automaton = std::make_shared<CountingAutomaton>(word, filled_);
    return GrammarMatcher::make(
               std::make_shared<CompiledGrammar>(vocabulary_, std::move(automaton), std::vector<int32_t>{}))
        .value();
  }
  std::vector<uint32_t> empty_mask() const { return std::vector<uint32_t>(vocabulary_->mask_words()); }

  std::shared_ptr<const GrammarVocabulary> vocabulary_ = testing::toy_vocabulary();
  std::atomic<int> filled_ = 0;
};

TEST_F(MaskFillerTest, EveryMaskIsFilledOnceByTheTimeThatWaitReturns) {
  constexpr size_t kMatchers = 7;
  MaskFiller filler;
  std::vector<GrammarMatcher> matchers;
  for (size_t i = 0; i < kMatchers; ++i) matchers.push_back(matcher(0x10101010U + static_cast<uint32_t>(i)));
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<uint32_t>> masks(kMatchers, empty_mask());
    std::vector<MaskFiller::Job> jobs;
    for (size_t i = 0; i < kMatchers; ++i) jobs.push_back({&matchers[i], masks[i]});
    filler.start(jobs);
    ASSERT_TRUE(filler.wait().ok());
    ASSERT_EQ(filled_.exchange(0), static_cast<int>(kMatchers));
    for (size_t i = 0; i < kMatchers; ++i) ASSERT_EQ(masks[i], testing::mask_of(matchers[i]));
    filled_ = 0;
  }
}

TEST_F(MaskFillerTest, AFailureIsToldOnceAndTheOthersAreFilled) {
  MaskFiller filler;
  GrammarMatcher good = matcher(~0U), bad = matcher(0);
  auto first = empty_mask(), second = empty_mask();
  filler.start({{&bad, first}, {&good, second}});
  EXPECT_THAT(filler.wait().error().message, ::testing::HasSubstr("the matching library failed"));
  EXPECT_EQ(second, testing::mask_of(good));
  filler.start({{&good, first}});
  EXPECT_TRUE(filler.wait().ok());
  EXPECT_EQ(first, second);
}

TEST_F(MaskFillerTest, WithoutJobsNothingIsWaitedFor) {
  MaskFiller filler;
  EXPECT_TRUE(filler.wait().ok());
  filler.start({});
  EXPECT_TRUE(filler.wait().ok());
  EXPECT_EQ(filled_, 0);
}

}  // namespace
}  // namespace vernier
