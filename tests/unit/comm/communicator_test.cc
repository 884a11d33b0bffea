#include "comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "comm/thread_ranks.h"
#include "unit/comm/scenario.h"

namespace vernier {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::kPatientNs;
using testing::kSilentNs;
using testing::kSoonNs;

/// What each rank of a scene tells, ranks being threads.
std::vector<std::string> play(int ranks, const testing::Scene& scene, int64_t timeout_ns = kPatientNs) {
  std::vector<std::string> told(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::unique_ptr<RankTransport>& end : connect_threads(ranks)) {
    threads.emplace_back([&told, &scene, timeout_ns, own = std::move(end)]() mutable {
      Communicator communicator(std::move(own), timeout_ns);
      told[static_cast<size_t>(communicator.rank())] = testing::tell(scene(communicator));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return told;
}

// COMM-8
TEST(Communicator, EveryRankHasTheSameOfEachCollective) {
  EXPECT_THAT(play(3, testing::play_collectives), Each(testing::three_played()));
}

TEST(Communicator, ARankAloneMeetsNobody) {
  const std::vector<std::string> told = play(1, [](Communicator& ranks) -> Result<std::string> {
    TRY_STATUS(ranks.barrier("begin"));
    TRY_BIND(const std::vector<double> sum, ranks.all_reduce("sum", std::vector<double>{0.3}, Reduction::kSum));
    return fmt::format("{}", sum[0]);
  });
  EXPECT_EQ(told[0], "0.3");
}

// COMM-1, COMM-2: the one that did not answer is named, where, after how long, and nobody waits longer.
TEST(Communicator, ARankThatDoesNotAnswerIsNamedInTime) {
  const Stopwatch watch;
  const std::vector<std::string> told = play(3, testing::play_silent, kSilentNs);
  EXPECT_THAT(told, Each("error 6: rank 1 did not answer in 'roll call', exchange 2, within 1.0 s"));
  EXPECT_LT(watch.elapsed_ns(), kSoonNs);
}

// COMM-3
TEST(Communicator, ARankThatLeavesIsNamedAtOnce) {
  const Stopwatch watch;
  const std::vector<std::string> told = play(3, testing::play_leaves);
  EXPECT_EQ(told[1], "left");
  for (const int rank : {0, 2}) {
    EXPECT_EQ(told[static_cast<size_t>(rank)],
              "error 7: rank 1 ended before 'roll call', exchange 2: its thread has left");
  }
  EXPECT_LT(watch.elapsed_ns(), kSoonNs);
}

// COMM-4: with the code of its error, which decides the exit code.
TEST(Communicator, WhyARankGaveUpIsEveryonesError) {
  const std::vector<std::string> told = play(4, testing::play_gives_up);
  EXPECT_EQ(told[2], "error 1: no such file");
  for (const size_t rank : {0U, 1U, 3U}) EXPECT_EQ(told[rank], "error 1: rank 2 gave up: no such file");
}

// COMM-5, C04: rounds have a number and a name; two that differ are an error and no wait.
TEST(Communicator, RanksInDifferentExchangesAreToldApartC04) {
  const std::vector<std::string> told = play(2, testing::play_other_exchange);
  EXPECT_THAT(told, Each(AnyOf("error 8: rank 1 is at 'second', exchange 1, and rank 0 at 'first', exchange 1",
                               "error 8: rank 0 is at 'first', exchange 1, and rank 1 at 'second', exchange 1")));
  EXPECT_THAT(play(3, testing::play_other_counts), Each(HasSubstr("rank 2 gave 2 numbers to 'sum', and rank 0 3")));
}

TEST(Communicator, AnErrorStays) {
  const std::vector<std::string> told = play(2, [](Communicator& ranks) -> Result<std::string> {
    if (ranks.rank() == 1) return ranks.give_up(corrupt("a bad sum"));
    const Status first = ranks.barrier("one"), second = ranks.barrier("two");
    return first.error().message + "; " + second.error().message;
  });
  EXPECT_EQ(told[0], "rank 1 gave up: a bad sum; rank 1 gave up: a bad sum");
}

// COMM-6: whoever waits for the ranks is not held up by one that hangs.
TEST(ThreadRanks, OneThatHangsIsLeftBehind) {
  const auto freed = std::make_shared<std::atomic<bool>>(false);
  const auto ended = std::make_shared<std::atomic<int>>(0);
  const Stopwatch watch;
  const ThreadRanks ranks = run_on_threads(3, kSilentNs, [freed, ended](Communicator& own) -> Status {
    while (own.rank() == 2 && !*freed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Status status = own.barrier("roll call");
    ++*ended;
    return status;
  });
  EXPECT_EQ(ranks.left_behind, std::vector<int>{2});
  EXPECT_EQ(ranks.ended[0].error().message, "rank 2 did not answer in 'roll call', exchange 1, within 1.0 s");
  EXPECT_EQ(ranks.ended[2].error().message, "rank 2 hangs and was left behind");
  EXPECT_LT(watch.elapsed_ns(), kSoonNs);
  *freed = true;
  while (*ended < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(RanksText, NamesEach) {
  EXPECT_EQ(ranks_text(std::vector<int>{3}), "rank 3");
  EXPECT_EQ(ranks_text(std::vector<int>{0, 2, 5}), "ranks 0, 2 and 5");
}

}  // namespace
}  // namespace vernier
