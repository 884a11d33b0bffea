#include "engine/mask_filler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

/// Fills masks with one word, counts them, and fails where it is told to.
class CountingRun : public AutomatonRun {
 public:
  CountingRun(uint32_t word, std::atomic<int>& filled) : word_(word), filled_(filled) {}
  Result<bool> accept(int32_t, SharedWork*) override { return true; }
  Status fill_mask(std::span<uint32_t> bits, SharedWork*) override {
    ++filled_;
    if (word_ == 0) return make_error(ErrorCode::kInternal, "the matching library failed");
    std::ranges::fill(bits, word_);
    return {};
  }
  int64_t work() const override { return 0; }
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
    std::vector<Status> outcomes(kMatchers);
    for (size_t i = 0; i < kMatchers; ++i) jobs.push_back({&matchers[i], masks[i], &outcomes[i]});
    filler.start(jobs);
    filler.wait();
    for (const Status& outcome : outcomes) ASSERT_TRUE(outcome.ok());
    ASSERT_EQ(filled_.exchange(0), static_cast<int>(kMatchers));
    for (size_t i = 0; i < kMatchers; ++i) ASSERT_EQ(masks[i], testing::mask_of(matchers[i]));
    filled_ = 0;
  }
}

// ENGINE-8 A failed row ends its request and no other: a failure is that of its own job.
TEST_F(MaskFillerTest, AFailureIsItsOwnJobsAndItsMaskAllowsNothing) {
  MaskFiller filler;
  GrammarMatcher good = matcher(~0U), bad = matcher(0);
  auto first = std::vector<uint32_t>(vocabulary_->mask_words(), ~0U), second = empty_mask();
  Status of_first, of_second;
  filler.start({{&bad, first, &of_first}, {&good, second, &of_second}});
  filler.wait();
  EXPECT_THAT(of_first.error().message, ::testing::HasSubstr("the matching library failed"));
  EXPECT_TRUE(of_second.ok());
  EXPECT_EQ(first, empty_mask());
  EXPECT_EQ(second, testing::mask_of(good));
}

/// Takes all that the step shares.
class GreedyRun : public CountingRun {
 public:
  GreedyRun(std::atomic<int>& filled, std::atomic<int64_t>& taken) : CountingRun(~0U, filled), taken_(taken) {}
  Status fill_mask(std::span<uint32_t> bits, SharedWork* shared) override {
    taken_ += shared->take(std::numeric_limits<int32_t>::max());
    return CountingRun::fill_mask(bits, shared);
  }

 private:
  std::atomic<int64_t>& taken_;
};

class GreedyAutomaton : public CountingAutomaton {
 public:
  GreedyAutomaton(std::atomic<int>& filled, std::atomic<int64_t>& taken)
      : CountingAutomaton(~0U, filled), filled_(filled), taken_(taken) {}
  Result<std::unique_ptr<AutomatonRun>> start() const override {
    return std::unique_ptr<AutomatonRun>(std::make_unique<GreedyRun>(filled_, taken_));
  }

 private:
  std::atomic<int>& filled_;
  std::atomic<int64_t>& taken_;
};

// GRAMMAR-6 Several costly requests at once do not add up.
TEST_F(MaskFillerTest, TheMasksOfAStepShareWorkAndEachStepHasTheSame) {
  MaskFiller filler;
  std::atomic<int64_t> taken = 0;
  auto grammar = std::make_shared<CompiledGrammar>(vocabulary_, std::make_shared<GreedyAutomaton>(filled_, taken),
                                                   std::vector<int32_t>{});
  std::vector<GrammarMatcher> matchers;
  for (int i = 0; i < 5; ++i) matchers.push_back(GrammarMatcher::make(grammar).value());
  int64_t of_one = 0;
  for (size_t members : {size_t{1}, size_t{5}, size_t{3}}) {
    taken = 0;
    std::vector<std::vector<uint32_t>> masks(members, empty_mask());
    std::vector<Status> outcomes(members);
    std::vector<MaskFiller::Job> jobs;
    for (size_t i = 0; i < members; ++i) jobs.push_back({&matchers[i], masks[i], &outcomes[i]});
    filler.start(jobs);
    filler.wait();
    if (of_one == 0) of_one = taken;
    EXPECT_EQ(taken, of_one) << members;
  }
  EXPECT_GT(of_one, 0);
}

TEST_F(MaskFillerTest, WithoutJobsNothingIsWaitedFor) {
  MaskFiller filler;
  filler.wait();
  filler.start({});
  filler.wait();
  EXPECT_EQ(filled_, 0);
}

}  // namespace
}  // namespace vernier
