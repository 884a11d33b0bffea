// API-13, COMM-2, COMM-3: whatever happens to one rank of a tuning, and wherever, every other rank ends in time, with
// an error that names that rank or in agreement with all that end well; and the next run, on the stores as they were
// left, agrees.
//
// A round is a number of ranks, as threads or processes, and one fault: a rank is killed, hangs, fails or comes late in
// some exchange or while it measures. VERNIER_PROPERTY_ROUNDS=500 is a long run, VERNIER_PROPERTY_SEED=N takes others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/log_sink.h"
#include "comm/process_ranks.h"
#include "comm/thread_ranks.h"
#include "testing/child_process.h"
#include "testing/made_rank.h"
#include "testing/sanitized.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using testing::choices_of;
using testing::made_scope;
using testing::MadeRank;
using testing::TempFolder;

constexpr int64_t kPatientNs = 60'000'000'000;
constexpr int64_t kHangNs = 1'000'000'000;
/// For a busy machine.
constexpr int64_t kSoonNs = 30'000'000'000;

enum class FaultKind : uint8_t { kNone, kKilled, kHangs, kFails };

struct Fault {
  FaultKind kind = FaultKind::kNone;
  int rank = -1;
  bool in_exchange = false;  // else while it measures
  int64_t after = 0;         // frames sent, or problems measured

  int64_t timeout_ns() const { return kind == FaultKind::kHangs ? kHangNs : kPatientNs; }
};

/// Where the fault of a rank strikes. A thread that is killed loses its connection at once and hears of nobody.
class Struck {
 public:
  Struck(const Fault& fault, bool is_process) : fault_(fault), is_process_(is_process) {}

  /// One more step of this kind; whether it must fail.
  bool step(bool in_exchange) {
    if (fault_.kind == FaultKind::kNone || in_exchange != fault_.in_exchange || steps_++ != fault_.after) return false;
    switch (fault_.kind) {
      case FaultKind::kKilled:
        if (is_process_) ::raise(SIGKILL);
        dead_ = true;
        return true;
      case FaultKind::kHangs:
        std::this_thread::sleep_for(std::chrono::nanoseconds(3 * kHangNs));
        return false;
      default:
        return fault_.kind == FaultKind::kFails;
    }
  }
  bool is_dead() const { return dead_; }

 private:
  Fault fault_;
  bool is_process_;
  bool dead_ = false;
  int64_t steps_ = 0;
};

class StruckTransport final : public RankTransport {
 public:
  StruckTransport(std::unique_ptr<RankTransport> inner, Struck& struck)
      : inner_(std::move(inner)), struck_(struck), rank_(inner_->rank()), size_(inner_->size()) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(int to, const std::string& frame) override {
    struck_.step(true);
    if (lives()) inner_->send(to, frame);
  }
  std::optional<RankNews> receive(int64_t deadline_ns) override {
    return lives() ? inner_->receive(deadline_ns) : std::nullopt;
  }
  bool flush(int64_t deadline_ns) override { return !lives() || inner_->flush(deadline_ns); }

 private:
  bool lives() {
    if (struck_.is_dead()) inner_.reset();
    return inner_ != nullptr;
  }
  std::unique_ptr<RankTransport> inner_;
  Struck& struck_;
  int rank_;
  int size_;
};

/// What a rank has: one product of all, one of its own and its neighbour's.
std::vector<int> products_of(int rank) {
  return {576, 1000 + rank / 2};
}

/// One rank of a round: "ok" and its choices, or its error.
std::string play_rank(std::unique_ptr<RankTransport> end, const Fault& fault, bool is_process, uint64_t seed,
                      const std::string& store_folder) {
  const int index = end->rank();
  const Fault own = fault.rank == index ? fault : Fault();
  Struck struck(own, is_process);
  TacticStoreOptions options;
  options.folder = store_folder;
  TacticStore store(made_scope(), options);
  MadeRank rank(seed + static_cast<uint64_t>(index), products_of(index));
  bool failed = false;
  rank.before_measure = [&](const Problem&, NamedKernel* named) -> Status {
    if (named == nullptr) failed = struck.step(false) || failed;
    return {};
  };
  Communicator ranks(std::make_unique<StruckTransport>(std::move(end), struck), fault.timeout_ns());
  TuneRequest request;
  request.version = "0.1.0";
  request.on_progress = [&](int64_t, int64_t) {
    if (failed && !struck.is_dead()) (void)ranks.give_up(corrupt("a made-up failure"));
  };
  const Result<TuneReport> report = tune_ranks(ranks, rank, rank.parts, store, request);
  return report.ok() ? "ok\n" + choices_of(rank, store) : report.error().message;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Round {
 public:
  Round(int ranks, bool processes, uint64_t seed) : ranks_(ranks), processes_(processes), seed_(seed) {}

  std::vector<std::string> play(const Fault& fault) {
    ++plays_;
    return processes_ ? as_processes(fault) : as_threads(fault);
  }

 private:
  std::string store_of(int rank) const { return folder_.path("store-" + std::to_string(rank)); }

  std::vector<std::string> as_threads(const Fault& fault) {
    std::vector<std::string> told(static_cast<size_t>(ranks_));
    std::vector<std::thread> threads;
    for (std::unique_ptr<RankTransport>& end : connect_threads(ranks_)) {
      threads.emplace_back([&, own = std::move(end)]() mutable {
        const int rank = own->rank();
        told[static_cast<size_t>(rank)] = play_rank(std::move(own), fault, false, seed_ + plays_, store_of(rank));
      });
    }
    for (std::thread& thread : threads) thread.join();
    return told;
  }

  std::vector<std::string> as_processes(const Fault& fault) {
    const std::string meet = folder_.path(fmt::format("meet-{}", plays_));
    std::vector<pid_t> children;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::string out = folder_.path(fmt::format("told-{}-{}", plays_, rank));
      children.push_back(testing::start_child([&, rank, out] {
        Result<std::unique_ptr<RankTransport>> end = meet_in_folder(meet, rank, ranks_, kPatientNs);
        std::ofstream(out) << (end.ok() ? play_rank(std::move(*end), fault, true, seed_ + plays_, store_of(rank))
                                        : "not met: " + end.error().message);
        return true;
      }));
    }
    for (const pid_t child : children) testing::wait_child(child);
    std::vector<std::string> told;
    for (int rank = 0; rank < ranks_; ++rank)
      told.push_back(read_file(folder_.path(fmt::format("told-{}-{}", plays_, rank))));
    return told;
  }

  TempFolder folder_;
  int ranks_;
  bool processes_;
  uint64_t seed_;
  uint64_t plays_ = 0;
};

/// Of those that ended well, no two choose differently.
void expect_agreement(const std::vector<std::string>& told) {
  std::map<std::string, std::string> chosen;
  for (const std::string& one : told) {
    if (!one.starts_with("ok\n")) continue;
    std::istringstream lines(one.substr(3));
    for (std::string line; std::getline(lines, line);) {
      const size_t tab = line.find('\t');
      const auto [at, is_new] = chosen.try_emplace(line.substr(0, tab), line.substr(tab));
      EXPECT_TRUE(is_new || at->second == line.substr(tab)) << line << " and " << at->second;
    }
  }
}

void check_told(const std::vector<std::string>& told, const Fault& fault) {
  expect_agreement(told);
  for (size_t rank = 0; rank < told.size(); ++rank) {
    if (static_cast<int>(rank) == fault.rank || told[rank].starts_with("ok\n")) continue;
    // On a busy machine another may be late as well, and is then named beside it.
    const std::string wanted =
        fault.kind == FaultKind::kHangs
            ? fmt::format("ranks? ([0-9]+(, | and ))*{}((, | and )[0-9]+)* did not answer in '", fault.rank)
            : fmt::format("rank {} {}", fault.rank,
                          fault.kind == FaultKind::kKilled ? "ended before '" : "gave up: a made-up failure");
    EXPECT_THAT(told[rank], ::testing::ContainsRegex(wanted)) << "rank " << rank;
  }
}

int64_t rounds() {
  const char* asked = std::getenv("VERNIER_PROPERTY_ROUNDS");
  return asked != nullptr ? std::atoll(asked) : testing::kSanitized ? 8 : 24;
}

TEST(FailingRanks, EndInTimeAndTheNextRunAgrees) {
  set_log_sink([](LogLevel, std::string_view) {});
  const char* asked = std::getenv("VERNIER_PROPERTY_SEED");
  const uint64_t first = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 1;
  std::map<std::string, int64_t> outcomes;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(rounds()); ++seed) {
    std::mt19937_64 random(seed);
    const int ranks = 2 + static_cast<int>(random() % 3);
    const bool processes = random() % 2 == 0;
    Fault fault;
    fault.kind = static_cast<FaultKind>(random() % 10 < 2 ? 2 : random() % 10 < 8 ? 1 + 2 * (random() % 2) : 0);
    fault.rank = fault.kind == FaultKind::kNone ? -1 : static_cast<int>(random() % static_cast<uint64_t>(ranks));
    fault.in_exchange = fault.kind != FaultKind::kFails && random() % 2 == 0;
    // 22 problems, an exchange each, and two more.
    fault.after = static_cast<int64_t>(random() % static_cast<uint64_t>(fault.in_exchange ? 24 * (ranks - 1) : 22));
    SCOPED_TRACE(fmt::format("seed {}: {} {}, rank {} {} {} {}", seed, ranks, processes ? "processes" : "threads",
                             fault.rank, static_cast<int>(fault.kind), fault.in_exchange ? "sending" : "measuring",
                             fault.after));
    Round round(ranks, processes, seed * 1000);
    const Stopwatch watch;
    const std::vector<std::string> told = round.play(fault);
    EXPECT_LT(watch.elapsed_ns(), kSoonNs);
    check_told(told, fault);
    for (const std::string& one : told) ++outcomes[one.starts_with("ok\n") ? "ok" : one.empty() ? "killed" : "error"];
    // What was committed before the fault is no obstacle.
    for (const std::string& one : round.play(Fault())) EXPECT_TRUE(one.starts_with("ok\n")) << one;
    if (::testing::Test::HasFailure()) break;
  }
  // A test in which nothing goes wrong proves nothing.
  EXPECT_GT(outcomes["ok"], 0);
  EXPECT_GT(outcomes["error"], rounds() / 2);
  set_log_sink({});
}

}  // namespace
}  // namespace vernier
