// TUNE-11, TUNE-13: what was once committed and still fits this device is found, whatever four processes do to a store
// at once: tune, merge, be killed, damage records, prune, load. A round is an interleaving; its journal is replayed at
// its end.
//
// VERNIER_PROPERTY_ROUNDS=1000 is the long run, a minute or two; VERNIER_PROPERTY_SEED=N takes other rounds.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "base/log_sink.h"
#include "testing/child_process.h"
#include "testing/made_tactics.h"
#include "testing/sanitized.h"
#include "testing/temp_folder.h"
#include "tune/content_hash.h"
#include "tune/tactic_record.h"
#include "tune/tactic_store.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using testing::made_problem;
using testing::made_scope;
using testing::made_tactic;
using testing::start_child;
using testing::TempFolder;
using testing::wait_child;

constexpr int kProblems = 6;
constexpr int kProcesses = 4;
constexpr int kSteps = 12;

/// What processes did, a line each, written in one call: a process that is killed leaves no half of a line.
class Journal {
 public:
  explicit Journal(std::string path) : path_(std::move(path)) {}
  void note(std::string_view verb, std::string_view id, int problem = 0) const {
    const std::string line = fmt::format("{} {} {}\n", verb, id, problem);
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(9);
    ::close(file);
  }
  struct Line {
    std::string verb, id;
    int problem = 0;
  };
  std::vector<Line> lines() const {
    std::vector<Line> all;
    std::ifstream file(path_);
    for (Line line; file >> line.verb >> line.id >> line.problem;) all.push_back(line);
    return all;
  }

 private:
  std::string path_;
};

int problem_of(const StoredTactic& stored) {
  return std::stoi(stored.tactic.problem.facts.at(2).value);
}

/// One process of a round.
class Player {
 public:
  Player(const TempFolder& temp, const Journal& journal, uint64_t seed)
      : temp_(temp), journal_(journal), random_(seed), store_(made_scope(), options()) {}

  bool play() {
    for (int i = 0; i < kSteps; ++i) {
      const uint64_t which = random_() % 10;
      const bool held = which < 4 ? tune() : which < 5 ? merge() : which < 6 ? damage() : which < 8 ? prune() : load();
      if (!held) return false;
    }
    return true;
  }

 private:
  TacticStoreOptions options() const {
    TacticStoreOptions made;
    made.folder = temp_.path("tactics");
    return made;
  }
  Tactic invent(int problem, const std::string& device) {
    const char* kernel = random_() % 2 == 0 ? "tile_a" : "tile_b";
    Tactic tactic =
        made_tactic(made_problem(problem), static_cast<int64_t>(random_() % 1000), kernel, made_scope(device));
    tactic.clock = fmt::format("{}", random_());  // each is another
    return tactic;
  }

  bool tune() {
    const int problem = static_cast<int>(random_() % kProblems);
    if (random_() % 5 == 0) {
      return TacticFolder(temp_.path("tactics")).add(write_tactic(invent(problem, "Intel Xeon"))).ok();
    }
    const Tactic tactic = invent(problem, "AMD EPYC");
    journal_.note("begin", content_hash(write_tactic(tactic)).to_hex(), problem);
    const Result<std::string> id = store_.commit(tactic);
    if (!id.ok()) return false;
    journal_.note("commit", *id, problem);
    // A process finds what it has committed itself, whatever the others do.
    return store_.find(tactic_key(tactic.problem)) != nullptr;
  }

  /// One by one, or many at once as an import does.
  bool merge() {
    const TacticFolder to(temp_.path("tactics"));
    const bool at_once = random_() % 2 == 0;
    std::map<std::string, int> problems;
    std::vector<std::string> records;
    for (int i = 0; i < 3; ++i) {
      const int problem = static_cast<int>(random_() % kProblems);
      records.push_back(write_tactic(invent(problem, "AMD EPYC")));
      problems[content_hash(records.back()).to_hex()] = problem;
    }
    for (const auto& [id, problem] : problems) journal_.note("begin", id, problem);
    if (at_once) {
      if (!to.add_all(std::vector<std::string_view>(records.begin(), records.end())).ok()) return false;
      for (const auto& [id, problem] : problems) journal_.note("commit", id, problem);
      return true;
    }
    for (const std::string& bytes : records) {
      const Result<std::string> id = to.add(bytes);
      if (!id.ok()) return false;
      journal_.note("commit", *id, problems.at(*id));
    }
    return true;
  }

  bool damage() {
    std::vector<fs::path> records;
    std::error_code error;
    for (fs::directory_iterator at(temp_.path("tactics/records"), error); !error && at != fs::directory_iterator();
         at.increment(error)) {
      records.push_back(at->path());
    }
    if (records.empty()) return true;
    const fs::path path = records[random_() % records.size()];
    const int file = ::open(path.c_str(), O_WRONLY);
    if (file < 0) return true;
    journal_.note("damage", path.stem().string());
    const bool done = random_() % 2 == 0 ? ::ftruncate(file, static_cast<off_t>(random_() % 300)) == 0
                                         : ::pwrite(file, "\x01", 1, static_cast<off_t>(random_() % 300)) == 1;
    ::close(file);
    return done;
  }

  bool prune() {
    const TacticFolder folder(temp_.path("tactics"));
    const Result<StoredTactics> all = read_stored(folder);
    if (!all.ok()) return false;
    PruneRules rules;
    rules.superseded = true;
    rules.misfits = random_() % 2 == 0;
    if (random_() % 4 == 0) rules.most_bytes = 6000;
    const std::vector<Prunable> chosen = choose_prunable(all->records, made_scope(), rules, calendar_ns());
    std::set<std::string> ids;
    std::vector<TacticFolder::Entry> entries;
    for (const Prunable& one : chosen) {
      journal_.note("prune", one.stored->entry.id);
      ids.insert(one.stored->entry.id);
      entries.push_back(one.stored->entry);
    }
    // What was seen and kept was committed, even if its process was killed before it could say so.
    for (const StoredTactic& stored : all->records) {
      if (!ids.contains(stored.entry.id) && misfit(stored, made_scope()).empty()) {
        journal_.note("commit", stored.entry.id, problem_of(stored));
      }
    }
    const Result<int64_t> removed = folder.remove(entries);
    return removed.ok() || removed.error().code == ErrorCode::kUnavailable;
  }

  bool load() {
    store_.refresh();
    const TacticStore fresh(made_scope(), options());
    for (int problem = 0; problem < kProblems; ++problem) {
      const Problem asked = made_problem(problem);
      const Tactic* found = fresh.find(tactic_key(asked));
      if (found != nullptr && found->problem.to_string() != asked.to_string()) return false;
    }
    return true;
  }

  const TempFolder& temp_;
  const Journal& journal_;
  std::mt19937_64 random_;
  TacticStore store_;
};

/// Replays the journal beside what a fresh process finds.
void check_round(const TempFolder& temp, const Journal& journal) {
  std::map<int, std::set<std::string>> committed;
  std::set<std::string> begun, damaged, lost;
  for (const Journal::Line& line : journal.lines()) {
    if (line.verb == "begin") begun.insert(line.id);
    if (line.verb == "commit") committed[line.problem].insert(line.id);
    if (line.verb == "damage") damaged.insert(line.id);
    if (line.verb == "damage" || line.verb == "prune") lost.insert(line.id);
  }
  TacticStoreOptions options;
  options.folder = temp.path("tactics");
  const TacticStore store(made_scope(), options);
  for (const auto& [problem, ids] : committed) {
    for (const std::string& id : ids) {
      if (lost.contains(id)) continue;
      ASSERT_NE(store.find(tactic_key(made_problem(problem))), nullptr) << "problem " << problem << ", record " << id;
      ASSERT_TRUE(fs::exists(temp.path("tactics/records/" + id + ".json"))) << id;
    }
  }
  for (int problem = 0; problem < kProblems; ++problem) {
    const Tactic* found = store.find(tactic_key(made_problem(problem)));
    if (found == nullptr) continue;
    ASSERT_EQ(found->problem.to_string(), made_problem(problem).to_string());
    ASSERT_TRUE(begun.contains(content_hash(write_tactic(*found)).to_hex()));
  }
  std::error_code error;
  for (fs::directory_iterator at(temp.path("tactics/damaged"), error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    ASSERT_TRUE(damaged.contains(at->path().filename().string().substr(0, 64)))
        << "set aside and healthy: " << at->path();
  }
  const Result<StoredTactics> after = read_stored(TacticFolder(temp.path("tactics")));
  ASSERT_TRUE(after.ok());
  ASSERT_TRUE(after->damaged.empty()) << after->damaged[0].name << " was not set aside";
}

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

TEST(TacticProcesses, WhatWasCommittedAndFitsIsFoundTune11Tune13) {
  const int64_t rounds = setting("VERNIER_PROPERTY_ROUNDS", testing::kSanitized ? 30 : 150);
  const auto seed = static_cast<uint64_t>(setting("VERNIER_PROPERTY_SEED", 1));
  // A process that is killed loses nothing that it wrote, flushed or not: a folder in memory is as good, and ten times
  // faster.
  if (fs::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 1);
  set_log_sink([](LogLevel, std::string_view) {});
  int64_t killed = 0, lines = 0;
  for (int64_t round = 0; round < rounds && !HasFatalFailure(); ++round) {
    SCOPED_TRACE(fmt::format("VERNIER_PROPERTY_SEED={}, round {}", seed, round));
    const TempFolder temp;
    const Journal journal(temp.path("journal"));
    std::mt19937_64 random(seed * 1'000'003 + static_cast<uint64_t>(round));
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i) {
      const uint64_t own = random();
      children.push_back(start_child([&] { return Player(temp, journal, own).play(); }));
    }
    const size_t victim = random() % (2 * kProcesses);
    if (victim < kProcesses) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
      ::kill(children[victim], SIGKILL);
    }
    for (size_t i = 0; i < children.size(); ++i) {
      const int code = wait_child(children[i]);
      if (code == 128 + SIGKILL && i == victim) ++killed;
      if (code != 0 && i != victim) ADD_FAILURE() << "process " << i << " ended with " << code;
    }
    check_round(temp, journal);
    lines += static_cast<int64_t>(journal.lines().size());
  }
  set_log_sink({});
  fmt::print("{} rounds, {} processes killed at work, {} lines of journal\n", rounds, killed, lines);
  EXPECT_GT(killed, rounds / 50);
}

}  // namespace
}  // namespace vernier
