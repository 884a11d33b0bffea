// One rank that mpirun started: comm_rank SCENE FOLDER writes what it has to tell into FOLDER/RANK.

#include <csignal>
#include <fstream>

#include "comm/mpi_ranks.h"
#include "unit/comm/scenario.h"

int main(int argc, char** argv) {
  using namespace vernier;
  if (argc != 3) return 2;
  const std::string scene = argv[1], folder = argv[2];
  Result<std::unique_ptr<RankTransport>> end = join_mpi(10'000'000'000);
  if (!end.ok()) {
    fmt::print(stderr, "{}\n", end.error().to_string());
    return 1;
  }
  const int rank = (*end)->rank();
  Communicator ranks(std::move(*end), scene == "silent" ? testing::kSilentNs : testing::kPatientNs);
  if (scene == "killed") {
    if (!ranks.barrier("begin").ok()) return 1;
    if (rank == 1) ::raise(SIGKILL);
    return ranks.barrier("roll call").ok() ? 0 : 1;
  }
  const Result<std::string> told = testing::scenes().at(scene)(ranks);
  std::ofstream(folder + "/" + std::to_string(rank)) << testing::tell(told);
  return 0;
}
