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
  bool is_complete() const override { return false; }
  Status rollback(int) override { return {}; }

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
  GreedyRun(std::atomic<int>& filled, std::atomic<int64_t>& taken, std::atomic<int64_t>& own)
      : CountingRun(~0U, filled), taken_(taken), own_(own) {}
  Status fill_mask(std::span<uint32_t> bits, SharedWork* shared) override {
    taken_ += shared->take(std::numeric_limits<int32_t>::max());
    own_ += shared->own();
    return CountingRun::fill_mask(bits, shared);
  }

 private:
  std::atomic<int64_t>& taken_;
  std::atomic<int64_t>& own_;
};

class GreedyAutomaton : public CountingAutomaton {
 public:
  GreedyAutomaton(std::atomic<int>& filled, std::atomic<int64_t>& taken, std::atomic<int64_t>& own)
      : CountingAutomaton(~0U, filled), filled_(filled), taken_(taken), own_(own) {}
  Result<std::unique_ptr<AutomatonRun>> start() const override {
    return std::unique_ptr<AutomatonRun>(std::make_unique<GreedyRun>(filled_, taken_, own_));
  }

 private:
  std::atomic<int>& filled_;
  std::atomic<int64_t>& taken_;
  std::atomic<int64_t>& own_;
};

// GRAMMAR-6 Several costly requests at once do not add up.
TEST_F(MaskFillerTest, TheMasksOfAStepShareWorkAndEachStepHasTheSame) {
  MaskFiller filler;
  std::atomic<int64_t> taken = 0, own = 0;
  auto grammar = std::make_shared<CompiledGrammar>(vocabulary_, std::make_shared<GreedyAutomaton>(filled_, taken, own),
                                                   std::vector<int32_t>{});
  std::vector<GrammarMatcher> matchers;
  for (int i = 0; i < 256; ++i) matchers.push_back(GrammarMatcher::make(grammar).value());
  int64_t of_one = 0;
  for (size_t members : {size_t{1}, size_t{256}, size_t{3}}) {
    taken = own = 0;
    std::vector<std::vector<uint32_t>> masks(members, empty_mask());
    std::vector<Status> outcomes(members);
    std::vector<MaskFiller::Job> jobs;
    for (size_t i = 0; i < members; ++i) jobs.push_back({&matchers[i], masks[i], &outcomes[i]});
    filler.start(jobs);
    filler.wait();
    if (of_one == 0) of_one = taken;
    EXPECT_EQ(taken, of_one) << members;
    EXPECT_LE(own, 3'000'000) << "what each has for itself, " << members << " together";
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
