#include "app/rank_flags.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>

#include "app/tune_flags.h"
#include "comm/mpi_ranks.h"
#include "comm/process_ranks.h"

namespace vernier {
namespace {

constexpr int kMostRanks = 1024;

/// A number that a launcher left in the environment.
std::optional<int> launched(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int value = 0;
  const auto [end, failure] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (failure != std::errc() || end != view.data() + view.size()) return std::nullopt;
  return value;
}

}  // namespace

void RankFlags::add_to(CLI::App& command) {
  command
      .add_option("--tp", tp,
                  "Shards the model for so many ranks, which agree on each choice; alone they are threads of this "
                  "process, under mpirun each of its processes is one")
      ->check(CLI::Range(1, kMostRanks));
  command.add_option("--rank", rank, "With --tp and --rendezvous: this process is rank K of them, from 0")
      ->check(CLI::Range(0, kMostRanks - 1));
  command.add_option("--rendezvous", rendezvous,
                     "With --rank: the folder of this machine where the run's processes meet");
  command.add_option("--rank-timeout", timeout, "With --tp: how long a rank waits for another before all end")
      ->capture_default_str();
}

Result<RankFlags::Plan> RankFlags::plan() const {
  Plan plan;
  TRY_BIND(plan.timeout_ns, parse_budget_ns("--rank-timeout", timeout));
  if (plan.timeout_ns == 0) return invalid_argument("--rank-timeout {}: expected more than nothing", timeout);
  const std::optional<int> mpi_size = launched("OMPI_COMM_WORLD_SIZE");
  if (tp == 0) {
    if (rank >= 0 || !rendezvous.empty() || timeout != RankFlags().timeout) {
      return invalid_argument("--rank, --rendezvous and --rank-timeout need --tp N, the number of ranks");
    }
    if (mpi_size.value_or(1) > 1) {
      return invalid_argument("mpirun started {} processes, which would all do the same; --tp {} makes them ranks",
                              *mpi_size, *mpi_size);
    }
    return plan;
  }
  if ((rank >= 0) != !rendezvous.empty()) {
    return invalid_argument("--rank K and --rendezvous FOLDER go together: each process has a number, all one folder");
  }
  if (rank >= 0) {
    if (rank >= tp) return invalid_argument("--rank {}: --tp {} has ranks 0 to {}", rank, tp, tp - 1);
    plan.by = By::kPerson;
    plan.ranks_here = tp;
    return plan;
  }
  if (mpi_size) {
    if (*mpi_size != tp) {
      return invalid_argument("mpirun started {} ranks and --tp is {}; mpirun -n {} or --tp {}", *mpi_size, tp, tp,
                              *mpi_size);
    }
    plan.by = By::kMpi;
    plan.ranks_here = launched("OMPI_COMM_WORLD_LOCAL_SIZE").value_or(tp);
    return plan;
  }
  if (launched("PMI_SIZE").value_or(1) > 1) {
    return unsupported(
        "a launcher other than Open MPI's started these ranks (PMI_SIZE is set); with --rank $PMI_RANK --rendezvous "
        "FOLDER they meet all the same, on one machine");
  }
  plan.ranks_here = tp;
  return plan;
}

Result<std::unique_ptr<Communicator>> RankFlags::join(const Plan& plan) const {
  std::unique_ptr<RankTransport> end;
  if (plan.by == By::kMpi) {
    TRY_BIND(end, join_mpi(plan.timeout_ns));
    if (end->size() != tp) {
      return make_error(ErrorCode::kInternal,
                        "the launcher speaks of {} ranks and Open MPI's library of {}; is mpirun of another Open MPI?",
                        tp, end->size());
    }
  } else {
    TRY_BIND(end, meet_in_folder(rendezvous, rank, tp, plan.timeout_ns));
  }
  return std::make_unique<Communicator>(std::move(end), plan.timeout_ns);
}

}  // namespace vernier
