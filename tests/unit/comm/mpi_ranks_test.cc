#include "comm/mpi_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "testing/mpirun.h"
#include "testing/sanitized.h"
#include "testing/temp_folder.h"
#include "unit/comm/scenario.h"

namespace vernier {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::TempFolder;

/// Ranks that mpirun started. It is given away with the test, if it does not run on this machine.
class MpiRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::has_mpirun()) GTEST_SKIP() << testing::kNoMpirun;
    if (testing::kSanitized) GTEST_SKIP() << "the sanitisers judge Open MPI's own library";
  }
  std::vector<std::string> play(int size, const std::string& scene) {
    outcome_ = testing::mpirun(size, fmt::format("{} {} {}", VERNIER_COMM_RANK, scene, folder_.path()));
    std::vector<std::string> told;
    for (int rank = 0; rank < size; ++rank) {
      std::ifstream file(folder_.path(std::to_string(rank)));
      std::stringstream text;
      text << file.rdbuf();
      told.push_back(text.str());
    }
    return told;
  }

  TempFolder folder_;
  testing::MpiOutcome outcome_;
};

TEST_F(MpiRanks, EveryRankHasTheSameOfEachCollective) {
  EXPECT_THAT(play(3, "collectives"), Each(testing::three_played())) << outcome_.output;
  EXPECT_EQ(outcome_.exit_code, 0) << outcome_.output;
}

// COMM-1, COMM-2
TEST_F(MpiRanks, ARankThatDoesNotAnswerIsNamedInTime) {
  EXPECT_THAT(play(3, "silent"), Each("error 6: rank 1 did not answer in 'roll call', exchange 2, within 1.0 s"))
      << outcome_.output;
}

// COMM-4
TEST_F(MpiRanks, WhyARankGaveUpIsEveryonesError) {
  const std::vector<std::string> told = play(4, "gives-up");
  EXPECT_EQ(told[2], "error 1: no such file");
  for (const size_t rank : {0U, 1U, 3U}) EXPECT_EQ(told[rank], "error 1: rank 2 gave up: no such file");
}

// COMM-3: mpirun ends the others and names it.
TEST_F(MpiRanks, ARankThatIsKilledEndsTheRun) {
  const Stopwatch watch;
  play(3, "killed");
  EXPECT_NE(outcome_.exit_code, 0);
  EXPECT_THAT(outcome_.output, HasSubstr("process rank 1"));
  EXPECT_LT(watch.elapsed_ns(), testing::kSoonNs);
}

}  // namespace
}  // namespace vernier
