#include "api/tune_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log_sink.h"
#include "comm/thread_ranks.h"
#include "testing/made_rank.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using testing::choices_of;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::made_scope;
using testing::MadeRank;
using State = TunedProblem::State;

constexpr int64_t kTimeoutNs = 60'000'000'000;

/// Ranks as threads, each with a store of its own.
class TuneRanks : public ::testing::Test {
 protected:
  struct Rank {
    std::unique_ptr<MadeRank> backend;
    std::unique_ptr<TacticStore> store;
    TuneRequest request;
    Result<TuneReport> report = TuneReport();
  };

  TuneRanks() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~TuneRanks() override { set_log_sink({}); }

  /// A rank with products of so many columns.
  Rank& add(const std::vector<int>& cols, const TacticScope& scope = made_scope()) {
    Rank& rank = ranks_.emplace_back();
    rank.backend = std::make_unique<MadeRank>(ranks_.size(), cols);
    rank.store = std::make_unique<TacticStore>(scope, TacticStoreOptions());
    rank.request.version = "0.1.0";
    return rank;
  }
  void run() {
    std::vector<std::thread> threads;
    for (std::unique_ptr<RankTransport>& end : connect_threads(static_cast<int>(ranks_.size()))) {
      threads.emplace_back([this, own = std::move(end)]() mutable {
        Communicator ranks(std::move(own), kTimeoutNs);
        Rank& rank = ranks_[static_cast<size_t>(ranks.rank())];
        rank.backend->measured = 0;
        rank.report = tune_ranks(ranks, *rank.backend, rank.backend->parts, *rank.store, rank.request);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<std::string> errors() const {
    std::vector<std::string> all;
    for (const Rank& rank : ranks_) all.push_back(rank.report.ok() ? "" : rank.report.error().message);
    return all;
  }
  std::vector<std::string> choices() const {
    std::vector<std::string> all;
    for (const Rank& rank : ranks_) all.push_back(choices_of(*rank.backend, *rank.store));
    return all;
  }

  std::deque<Rank> ranks_;
};

// API-12, C02: times differ from rank to rank, choices do not.
TEST_F(TuneRanks, AllChooseAlikeC02) {
  for (int rank = 0; rank < 4; ++rank) add({576, 1536, 960});
  run();
  EXPECT_THAT(errors(), Each(""));
  EXPECT_THAT(choices(), Each(choices()[0]));
  EXPECT_THAT(choices()[0], ::testing::Not(HasSubstr("fixed")));
  EXPECT_EQ(ranks_[2].report->count(State::kMeasured), 33);
  // On its own each would choose otherwise.
  const Problem first = ranks_[0].report->problems[0].problem;
  bool differs = false;
  for (const TunedProblem& one : ranks_[0].report->problems) {
    std::set<std::string> own;
    for (const Rank& rank : ranks_) {
      own.insert(
          rank.backend->measure_linear(*rank.backend->parts[0].matrix, one.problem, 1, {})->tactic.chosen.kernel);
    }
    differs = differs || own.size() > 1;
  }
  EXPECT_TRUE(differs);
}

// API-12, C06: the second start measures nothing, though ranks have other problems.
TEST_F(TuneRanks, WhatIsKnownAlikeIsNotMeasuredAgainC06) {
  add({576, 1536});
  add({576, 320});
  add({320});
  run();
  EXPECT_THAT(errors(), Each(""));
  EXPECT_EQ(ranks_[0].report->problems.size(), 33U);
  EXPECT_EQ(ranks_[0].backend->measured, 22);
  EXPECT_EQ(ranks_[2].backend->measured, 11);
  EXPECT_THAT(ranks_[2].report->problems[0].ranks, ElementsAre(1, 2));
  run();
  EXPECT_THAT(errors(), Each(""));
  for (const Rank& rank : ranks_) {
    EXPECT_EQ(rank.backend->measured, 0);
    EXPECT_EQ(rank.report->count(State::kKnown), 33);
  }
}

// G2.3: what one rank has forgotten, or knows otherwise, is measured by all that have it, and nothing else.
TEST_F(TuneRanks, WhatRanksKnowDifferentlyIsMeasured) {
  add({576, 320});
  add({576, 320});
  run();
  Tactic otherwise = testing::made_tactic(ranks_[1].report->problems[3].problem, 9'000'000'000'000);
  otherwise.measured_at_ms = ranks_[1].report->problems[3].tactic.measured_at_ms + 1;
  otherwise.chosen = {"stream", made_scope().kernel_hash("stream"), {{"made", "by hand"}}};
  ASSERT_TRUE(ranks_[1].store->commit(otherwise).ok());
  ASSERT_NE(choices()[0], choices()[1]);
  run();
  EXPECT_THAT(errors(), Each(""));
  EXPECT_EQ(ranks_[0].backend->measured, 1);
  EXPECT_EQ(choices()[0], choices()[1]);
}

// Where there is no time for that, nobody goes on with choices that differ.
TEST_F(TuneRanks, ADifferenceThatIsLeftIsAnError) {
  add({576});
  run();
  add({576}).request.budget_ns = 0;
  ranks_[0].request.budget_ns = 0;
  run();
  EXPECT_THAT(errors(), Each(HasSubstr("the ranks do not agree: for linear(codec=q4_1, rows=2048, cols=576")));
  EXPECT_THAT(errors(), Each(HasSubstr("rank 1 its fixed choice")));
}

// C12: memory fails for one candidate on one rank; nobody waits and nobody takes it.
TEST_F(TuneRanks, AFailureOfOneRankIsEveryonesC12) {
  for (int rank = 0; rank < 3; ++rank) add({576});
  ranks_[1].backend->before_measure = [](const Problem& problem, NamedKernel* named) -> Status {
    if (named == nullptr && problem.facts.back().value == "8") return corrupt("a bad sum");
    if (named != nullptr && named->kernel != "stream") return make_error(ErrorCode::kOutOfMemory, "needs 9 GB");
    return {};
  };
  run();
  EXPECT_THAT(errors(), Each(""));
  EXPECT_THAT(choices(), Each(choices()[0]));
  EXPECT_THAT(choices()[2], ::testing::Not(HasSubstr("tile")));
  for (const Rank& rank : ranks_) {
    EXPECT_EQ(rank.report->count(State::kMeasured), 10);
    EXPECT_EQ(rank.report->count(State::kFailed), 1);
    for (const TunedProblem& one : rank.report->problems) {
      if (one.state == State::kFailed) {
        EXPECT_EQ(one.why, "rank 1: a bad sum");
      } else {
        EXPECT_EQ(one.tactic.others.back().detail, "rank 1: needs 9 GB");
      }
    }
  }
}

// API-13
TEST_F(TuneRanks, DevicesAndRequestsThatDifferAreNamed) {
  add({576});
  add({576}, made_scope("Intel Xeon"));
  run();
  EXPECT_THAT(errors(), Each(HasSubstr("the ranks run on different devices, so no choice holds on all: "
                                       "device=Intel Xeon on rank 1, device=AMD EPYC on rank 0")));
  ranks_.clear();
  add({576});
  add({576}).request.skip = {"down"};
  run();
  EXPECT_THAT(errors(), Each(HasSubstr("were started differently, so no choice holds on all: skip=down on rank 1")));
}

// G2.4: the exchange's name is the problem that is measured.
TEST_F(TuneRanks, WhoHangsIsNamedWithTheProblem) {
  add({576});
  add({576});
  std::vector<std::thread> threads;
  for (std::unique_ptr<RankTransport>& end : connect_threads(2)) {
    threads.emplace_back([this, own = std::move(end)]() mutable {
      Communicator ranks(std::move(own), 500'000'000);
      Rank& rank = ranks_[static_cast<size_t>(ranks.rank())];
      if (ranks.rank() == 1) {
        rank.backend->before_measure = [](const Problem& problem, NamedKernel* named) -> Status {
          if (named == nullptr && problem.facts.back().value == "64")
            std::this_thread::sleep_for(std::chrono::seconds(2));
          return {};
        };
      }
      rank.report = tune_ranks(ranks, *rank.backend, rank.backend->parts, *rank.store, rank.request);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(errors(), Each(HasSubstr("rank 1 did not answer in 'linear(codec=q4_1, rows=2048, cols=576, "
                                       "layout=panels8, batch=64)', exchange 5, within 500 ms")));
}

TEST_F(TuneRanks, OpsAreSkippedAsAsked) {
  for (int rank = 0; rank < 2; ++rank) add({576}).request.skip = {"down"};
  run();
  EXPECT_THAT(errors(), Each(""));
  EXPECT_EQ(ranks_[0].report->count(State::kSkipped), 11);
  for (Rank& rank : ranks_) rank.request.skip = {"gate"};
  run();
  EXPECT_THAT(errors(), Each(HasSubstr("'gate' is no op to skip")));
}

}  // namespace
}  // namespace vernier
