#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "e2e/program/run_program.h"
#include "testing/isa.h"
#include "testing/mpirun.h"
#include "testing/sanitized.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::TempFolder;
using testing::tiny_model;

/// `vernier tune --tp` as its users start it.
class RanksProgram : public ::testing::Test {
 protected:
  std::string arguments(const std::string& rest, size_t cpu_threads = 1) const {
    const std::string& asked = testing::requested_isa();
    const std::string isa = asked.empty() ? "" : "--isa " + asked + " ";
    return fmt::format("--threads {} --home {} {}{}", cpu_threads, home_.path(), isa, rest);
  }
  Outcome run(const std::string& rest) const { return testing::vernier(arguments(rest), true); }

  /// Ranks as processes that a person starts, the model and the CPU threads of each.
  std::vector<Outcome> run_processes(const std::vector<std::string>& models,
                                     const std::vector<size_t>& cpu_threads = {1, 1, 1, 1}) const {
    std::vector<Outcome> outcomes(models.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < models.size(); ++rank) {
      threads.emplace_back([&, rank] {
        const std::string rest = fmt::format("tune {} --tp {} --rank {} --rendezvous {}", models[rank], models.size(),
                                             rank, home_.path("meet"));
        outcomes[rank] = testing::vernier(arguments(rest, cpu_threads[rank]), true);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  /// gpt-oss-mxfp4 without its weights.
  std::string model_without_weights() const {
    std::filesystem::create_directories(home_.path("model"));
    for (const auto& file : std::filesystem::directory_iterator(tiny_model("gpt-oss-mxfp4"))) {
      if (file.path().extension() == ".safetensors") continue;
      std::filesystem::create_symlink(file.path(), home_.path("model/" + file.path().filename().string()));
    }
    return home_.path("model");
  }

  TempFolder home_;
  const std::string model_ = tiny_model("gpt-oss-mxfp4");
};

TEST_F(RanksProgram, ThreadsAgreeAndTheNextRunKnowsIt) {
  const Outcome first = run("tune " + model_ + " --tp 2 --budget 60s");
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_THAT(first.output, AllOf(HasSubstr("all 2 ranks agree on "), HasSubstr("linear 128x64 bf16, 1 row "),
                                  HasSubstr("on rank 0"), HasSubstr(" 0 not covered, 0 skipped, 0 failed")));
  const Outcome second = run("tune " + model_ + " --tp 2");
  EXPECT_THAT(second.output, AllOf(HasSubstr("all 2 ranks agree on "), HasSubstr(": 0 measured ")));
}

TEST_F(RanksProgram, WhatCannotBeIsRefused) {
  const Outcome heads = run("tune " + model_ + " --tp 3");
  EXPECT_EQ(heads.exit_code, 5);
  EXPECT_THAT(heads.output,
              HasSubstr("error: 4 query heads on 2 key-value heads cannot be cut for 3 ranks in whole heads "
                        "and scale groups; the nearest numbers of ranks that work: 2, 4"));
  EXPECT_EQ(run("tune " + model_ + " --tp 0").exit_code, 2);
  EXPECT_THAT(run("tune " + model_ + " --rank 1 --rendezvous x").output, HasSubstr("need --tp N"));
  EXPECT_THAT(run("tune " + model_ + " --tp 2 --rank 1").output, HasSubstr("go together"));
  EXPECT_THAT(run("tune " + model_ + " --tp 2 --rank 2 --rendezvous x").output, HasSubstr("has ranks 0 to 1"));
  EXPECT_THAT(run("tune " + model_ + " --tp 2 --rank-timeout 0").output, HasSubstr("expected more than nothing"));
  EXPECT_THAT(run("tune " + tiny_model("bert") + " --tp 2").output, HasSubstr("--tp shards decoders"));
  EXPECT_THAT(run("tune " + model_ + " --tp 2 --backend reference").output, HasSubstr("measures no tactics"));
}

TEST_F(RanksProgram, ProcessesAgreeAndOneTells) {
  const std::vector<Outcome> ranks = run_processes({model_, model_});
  EXPECT_EQ(ranks[0].exit_code, 0) << ranks[0].output;
  EXPECT_EQ(ranks[1].exit_code, 0) << ranks[1].output;
  EXPECT_THAT(ranks[0].output, HasSubstr("all 2 ranks agree on "));
  EXPECT_EQ(ranks[1].output, "");
}

// A rank that lacks a file ends all of them with its name and the file's, long before the time-out.
TEST_F(RanksProgram, ARankThatLacksAFileEndsAll) {
  const std::vector<Outcome> ranks = run_processes({model_, model_without_weights(), model_, model_});
  for (const Outcome& one : ranks) EXPECT_NE(one.exit_code, 0);
  EXPECT_THAT(ranks[1].output, AllOf(HasSubstr("error: rank 1: "), HasSubstr(home_.path("model"))));
  for (const size_t rank : {0U, 2U, 3U}) {
    EXPECT_THAT(ranks[rank].output, AllOf(HasSubstr("rank 1 gave up: "), HasSubstr(home_.path("model"))));
    EXPECT_EQ(ranks[rank].exit_code, ranks[1].exit_code);
  }
}

TEST_F(RanksProgram, ARankThatDoesNotComeIsNamed) {
  const Outcome alone =
      run("tune " + model_ + " --tp 2 --rank 1 --rendezvous " + home_.path("meet") + " --rank-timeout 300ms");
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_THAT(alone.output, HasSubstr("rank 0 did not come to " + home_.path("meet") + " within 300 ms"));
}

TEST_F(RanksProgram, RanksOfDifferentDevicesAreToldApart) {
  for (const Outcome& one : run_processes({model_, model_}, {1, 2})) {
    EXPECT_EQ(one.exit_code, 2) << one.output;
    EXPECT_THAT(one.output, HasSubstr("the ranks run on different devices, so no choice holds on all: threads=2 on "
                                      "rank 1, threads=1 on rank 0"));
  }
}

// What a launcher says is not believed: a library that does not know it would make each process a rank of its own.
TEST_F(RanksProgram, ALauncherThatIsNotThereIsToldOf) {
  ::setenv("PMI_SIZE", "2", 1);
  const Outcome other = run("tune " + model_ + " --tp 2");
  ::unsetenv("PMI_SIZE");
  EXPECT_EQ(other.exit_code, 5);
  EXPECT_THAT(other.output, HasSubstr("--rank $PMI_RANK --rendezvous FOLDER"));
  if (testing::kSanitized) return;  // the sanitisers judge Open MPI's own library
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  const Outcome mpi = run("tune " + model_ + " --tp 2");
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_NE(mpi.exit_code, 0);
  EXPECT_THAT(mpi.output, AnyOf(HasSubstr("the launcher speaks of 2 ranks and Open MPI's library of 1"),
                                HasSubstr("Open MPI's library cannot be opened")));
}

/// The same under Open MPI.
class MpiProgram : public RanksProgram {
 protected:
  void SetUp() override {
    if (!testing::has_mpirun()) GTEST_SKIP() << testing::kNoMpirun;
    if (testing::kSanitized) GTEST_SKIP() << "the sanitisers judge Open MPI's own library";
  }
  testing::MpiOutcome mpirun(int ranks, const std::string& rest) const {
    return testing::mpirun(ranks, std::string(VERNIER_PROGRAM) + " " + arguments(rest));
  }
};

TEST_F(MpiProgram, FourRanksAgree) {
  const testing::MpiOutcome first = mpirun(4, "tune " + model_ + " --tp 4");
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("all 4 ranks agree on "));
  EXPECT_THAT(mpirun(4, "tune " + model_ + " --tp 4").output, HasSubstr(": 0 measured "));
}

TEST_F(MpiProgram, AnotherNumberOfRanksIsNamed) {
  EXPECT_THAT(mpirun(2, "tune " + model_ + " --tp 4").output,
              HasSubstr("mpirun started 2 ranks and --tp is 4; mpirun -n 4 or --tp 2"));
  EXPECT_THAT(mpirun(2, "tune " + model_).output, HasSubstr("--tp 2 makes them ranks"));
}

TEST_F(MpiProgram, ARankThatLacksAFileEndsAll) {
  const testing::MpiOutcome outcome =
      testing::mpirun(1, fmt::format("{0} {1} : -n 1 {0} {2}", VERNIER_PROGRAM, arguments("tune " + model_ + " --tp 2"),
                                     arguments("tune " + model_without_weights() + " --tp 2")));
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("error: rank 1: "), HasSubstr(home_.path("model"))));
}

}  // namespace
}  // namespace vernier
