#include "comm/process_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "testing/child_process.h"
#include "testing/temp_folder.h"
#include "unit/comm/scenario.h"

namespace vernier {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::kPatientNs;
using testing::kSoonNs;
using ::testing::StartsWith;
using testing::TempFolder;

constexpr int64_t kMeetNs = kPatientNs;

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// One process: what it told lies in `folder` under its rank.
pid_t start_rank(const TempFolder& folder, int rank, int size, const testing::Scene& scene, int64_t meet_ns = kMeetNs,
                 int64_t timeout_ns = kPatientNs) {
  return testing::start_child([=, &folder] {
    Result<std::unique_ptr<RankTransport>> end = meet_in_folder(folder.path("meet"), rank, size, meet_ns);
    Result<std::string> told = std::string();
    if (end.ok()) {
      Communicator ranks(std::move(*end), timeout_ns);
      told = scene(ranks);
    } else {
      told = end.error();
    }
    std::ofstream(folder.path(std::to_string(rank))) << testing::tell(told);
    return true;
  });
}

std::vector<std::string> play(int size, const testing::Scene& scene, int64_t timeout_ns = kPatientNs) {
  const TempFolder folder;
  std::vector<pid_t> children;
  // The last first: who comes first makes no difference.
  for (int rank = size - 1; rank >= 0; --rank)
    children.push_back(start_rank(folder, rank, size, scene, kMeetNs, timeout_ns));
  for (const pid_t child : children) testing::wait_child(child);
  std::vector<std::string> told;
  for (int rank = 0; rank < size; ++rank) told.push_back(read_file(folder.path(std::to_string(rank))));
  // COMM-7
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("meet")));
  return told;
}

TEST(ProcessRanks, EveryRankHasTheSameOfEachCollective) {
  EXPECT_THAT(play(3, testing::play_collectives), Each(testing::three_played()));
}

// COMM-1, COMM-2
TEST(ProcessRanks, ARankThatDoesNotAnswerIsNamedInTime) {
  const Stopwatch watch;
  EXPECT_THAT(play(3, testing::play_silent, testing::kSilentNs),
              Each("error 6: rank 1 did not answer in 'roll call', exchange 2, within 1.0 s"));
  EXPECT_LT(watch.elapsed_ns(), kSoonNs);
}

// COMM-3: a process that is killed closes its connections.
TEST(ProcessRanks, ARankThatIsKilledIsNamedAtOnce) {
  const Stopwatch watch;
  const std::vector<std::string> told = play(3, [](Communicator& ranks) -> Result<std::string> {
    TRY_STATUS(ranks.barrier("begin"));
    if (ranks.rank() == 1) ::raise(SIGKILL);
    TRY_STATUS(ranks.barrier("roll call"));
    return std::string("all came");
  });
  EXPECT_EQ(told[1], "");
  for (const size_t rank : {0U, 2U}) {
    EXPECT_THAT(told[rank], StartsWith("error 7: rank 1 ended before 'roll call', exchange 2: its connection "));
  }
  EXPECT_LT(watch.elapsed_ns(), kSoonNs);
}

// COMM-4
TEST(ProcessRanks, WhyARankGaveUpIsEveryonesError) {
  const std::vector<std::string> told = play(4, testing::play_gives_up);
  EXPECT_EQ(told[2], "error 1: no such file");
  for (const size_t rank : {0U, 1U, 3U}) EXPECT_EQ(told[rank], "error 1: rank 2 gave up: no such file");
}

// COMM-1: whoever does not come is named, too.
TEST(ProcessRanks, ARankThatDoesNotComeIsNamed) {
  const TempFolder folder;
  const Result<std::unique_ptr<RankTransport>> end = meet_in_folder(folder.path("meet"), 1, 4, 100'000'000);
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().message, "ranks 0, 2 and 3 did not come to " + folder.path("meet") + " within 100 ms");
  EXPECT_EQ(end.error().code, ErrorCode::kTimeout);
}

// COMM-5
TEST(ProcessRanks, AnotherNumberOfRanksIsNamed) {
  const TempFolder folder;
  const pid_t other = start_rank(folder, 1, 3, testing::play_collectives, 300'000'000);
  const Result<std::unique_ptr<RankTransport>> end = meet_in_folder(folder.path("meet"), 0, 2, kMeetNs);
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().message, "rank 1 was started for 3 ranks, and rank 0 for 2");
  testing::wait_child(other);
  EXPECT_THAT(read_file(folder.path("1")), HasSubstr("rank 0 was started for 2 ranks, and rank 1 for 3"));
}

TEST(ProcessRanks, ARankIsThereOnce) {
  const TempFolder folder;
  const pid_t first = start_rank(folder, 0, 2, testing::play_collectives);
  while (!std::filesystem::exists(folder.path("meet/rank-0"))) std::this_thread::yield();
  const Result<std::unique_ptr<RankTransport>> second = meet_in_folder(folder.path("meet"), 0, 2, kMeetNs);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, StartsWith("a rank 0 is in " + folder.path("meet") + " already"));
  ::kill(first, SIGKILL);
  testing::wait_child(first);
}

// COMM-7: what a run left that was killed is in nobody's way.
TEST(ProcessRanks, ASocketOfAKilledRunIsReplaced) {
  const TempFolder folder;
  const pid_t killed = start_rank(folder, 0, 2, testing::play_collectives);
  while (!std::filesystem::exists(folder.path("meet/rank-0"))) std::this_thread::yield();
  ::kill(killed, SIGKILL);
  EXPECT_EQ(testing::wait_child(killed), 128 + SIGKILL);
  ASSERT_TRUE(std::filesystem::exists(folder.path("meet/rank-0")));
  const testing::Scene scene = [](Communicator& ranks) -> Result<std::string> {
    TRY_STATUS(ranks.barrier("begin"));
    return std::string("met");
  };
  const pid_t other = start_rank(folder, 1, 2, scene);
  EXPECT_EQ(testing::wait_child(start_rank(folder, 0, 2, scene)), 0);
  testing::wait_child(other);
  EXPECT_EQ(read_file(folder.path("0")) + read_file(folder.path("1")), "metmet");
}

TEST(ProcessRanks, WhatCannotBeAMeetingIsRefused) {
  const TempFolder folder;
  EXPECT_EQ(meet_in_folder(folder.path("meet"), 2, 2, kMeetNs).error().message,
            "rank 2 of 2: ranks are numbered from 0");
  EXPECT_THAT(meet_in_folder(folder.path(std::string(120, 'x')), 0, 2, kMeetNs).error().message,
              HasSubstr("name a shorter folder"));
  std::ofstream(folder.path("file")) << "no folder";
  EXPECT_THAT(meet_in_folder(folder.path("file"), 0, 2, kMeetNs).error().message, StartsWith(folder.path("file")));
}

}  // namespace
}  // namespace vernier
