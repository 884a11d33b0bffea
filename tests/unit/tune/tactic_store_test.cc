#include "tune/tactic_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/log_sink.h"
#include "testing/child_process.h"
#include "testing/made_tactics.h"
#include "testing/temp_folder.h"
#include "tune/tactic_record.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::made_problem;
using testing::made_scope;
using testing::made_tactic;
using testing::start_child;
using testing::TempFolder;
using testing::wait_child;

/// What is logged while it lives.
class Lines {
 public:
  Lines() {
    set_log_sink([this](LogLevel, std::string_view line) { all.emplace_back(line); });
  }
  ~Lines() { set_log_sink({}); }
  std::vector<std::string> all;
};

TacticStoreOptions in(const std::string& folder, std::vector<std::string> layers = {}) {
  TacticStoreOptions options;
  options.folder = folder;
  for (std::string& layer : layers) options.layers.emplace_back(std::move(layer));
  return options;
}

std::string commit(TacticStore& store, const Problem& problem, int64_t at_ms, const std::string& kernel = "tile_a") {
  const Result<std::string> id = store.commit(made_tactic(problem, at_ms, kernel));
  EXPECT_TRUE(id.ok()) << id.error().to_string();
  return id.ok() ? *id : "";
}

/// The kernel and the time of what is known of a problem; "none".
std::string known(const TacticStore& store, const Problem& problem) {
  const Tactic* found = store.find(tactic_key(problem));
  return found == nullptr ? "none" : fmt::format("{}@{}", found->chosen.kernel, found->measured_at_ms);
}

TEST(TacticStoreTest, WhatWasCommittedIsFoundNowAndByTheNextProcess) {
  const TempFolder temp;
  TacticStore store(made_scope(), in(temp.path("tactics")));
  const TacticKey key = store.prepare(made_problem(576));
  EXPECT_EQ(store.find(key), nullptr);
  commit(store, made_problem(576), 5);
  ASSERT_NE(store.find(key), nullptr);
  EXPECT_EQ(store.find(key)->chosen.kernel, "tile_a");
  EXPECT_EQ(known(store, made_problem(577)), "none");
  EXPECT_EQ(known(TacticStore(made_scope(), in(temp.path("tactics"))), made_problem(576)), "tile_a@5");
}

// C01: two layouts of one size are two problems: neither is served by the other's choice.
TEST(TacticStoreTest, EachLayoutHasItsOwnEntryC01) {
  const TempFolder temp;
  TacticStore store(made_scope(), in(temp.path()));
  commit(store, made_problem(576, "A"), 5, "tile_a");
  EXPECT_EQ(known(store, made_problem(576, "B")), "none");
  const std::string id = commit(store, made_problem(576, "B"), 6, "tile_b");
  EXPECT_EQ(store.problems(), 2U);
  // By hand, B is given A's tactic: it is dropped, to be measured again.
  const std::string path = temp.path("records/" + id + ".json");
  std::string bytes = write_tactic(made_tactic(made_problem(576, "B"), 6, "tile_b"));
  const std::string chosen = "\"kernel\":\"tile_b\",\"parameters\":[[";
  ASSERT_NE(bytes.find(chosen), std::string::npos);
  bytes.replace(bytes.find(chosen), 17, "\"kernel\":\"tile_a\"");
  std::ofstream(path, std::ios::trunc) << bytes;
  const Lines lines;
  TacticStore next(made_scope(), in(temp.path()));
  EXPECT_EQ(known(next, made_problem(576, "A")), "tile_a@5");
  EXPECT_EQ(known(next, made_problem(576, "B")), "none");
  EXPECT_THAT(lines.all, ElementsAre(HasSubstr(id + ".json is damaged and set aside, to be measured again")));
}

// C23: rows of one sequence and of many are two problems, each with its own tactic.
TEST(TacticStoreTest, TheCompositionOfAStepIsPartOfTheKeyC23) {
  TacticStore store(made_scope(), {});
  const auto attend = [](const char* rows, const char* sequences) {
    return Problem{"attend", {{"rows", rows}, {"sequences", sequences}}};
  };
  commit(store, attend("64", "1"), 1, "tile_a");
  commit(store, attend("64", "64"), 2, "tile_b");
  EXPECT_EQ(known(store, attend("64", "1")), "tile_a@1");
  EXPECT_EQ(known(store, attend("64", "64")), "tile_b@2");
}

// C14, TUNE-13: target {a, b} and draft {b, c} tune at once into one store: all are there, b has one value, nothing is
// left to tune.
TEST(TacticStoreTest, TargetAndDraftShareAStoreC14Tune13) {
  const TempFolder temp;
  TacticStore target(made_scope(), in(temp.path()));
  TacticStore draft(made_scope(), in(temp.path()));
  commit(target, made_problem(1), 10, "tile_a");
  commit(draft, made_problem(2), 11, "tile_b");
  commit(target, made_problem(2), 12, "tile_a");
  commit(draft, made_problem(3), 13, "tile_b");
  // What the one has learned is no loss to the other: reading adds.
  draft.refresh();
  target.refresh();
  for (const TacticStore* store : {&target, &draft}) {
    EXPECT_EQ(known(*store, made_problem(1)), "tile_a@10");
    EXPECT_EQ(known(*store, made_problem(2)), "tile_a@12");
    EXPECT_EQ(known(*store, made_problem(3)), "tile_b@13");
  }
  const TacticStore next(made_scope(), in(temp.path()));
  EXPECT_EQ(next.problems(), 3U);
  EXPECT_EQ(known(next, made_problem(2)), "tile_a@12");
}

// C13, C06: four ranks of disjoint problems, one of them killed at its end: the store holds the union, a second start
// tunes nothing.
TEST(TacticStoreTest, TheUnionOfFourRanksSurvivesC13) {
  const TempFolder temp;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(start_child([&, rank] {
      TacticStore store(made_scope(), in(temp.path()));
      for (int i = 0; i < 8; ++i) {
        if (!store.commit(made_tactic(made_problem(100 * rank + i), i)).ok()) return false;
      }
      if (rank == 2) ::kill(::getpid(), SIGKILL);
      return true;
    }));
  }
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(wait_child(ranks[static_cast<size_t>(rank)]), rank == 2 ? 128 + SIGKILL : 0);
  const TacticStore second(made_scope(), in(temp.path()));
  EXPECT_EQ(second.problems(), 32U);
  EXPECT_EQ(known(second, made_problem(307)), "tile_a@7");
}

// TUNE-9: what fits another device, driver or build is kept, is not used, and is used again where it fits.
TEST(TacticStoreTest, WhatDoesNotFitIsKeptAndNotUsedTune9) {
  const TempFolder temp;
  {
    TacticStore store(made_scope(), in(temp.path()));
    commit(store, made_problem(576), 5);
  }
  TacticScope changed = made_scope();
  changed.kernel_hash = [](std::string_view kernel) { return std::string(64, kernel == "tile_a" ? 'd' : 'b'); };
  {
    TacticStore other(made_scope("Intel Xeon"), in(temp.path()));
    EXPECT_EQ(known(other, made_problem(576)), "none");
    EXPECT_EQ(other.records(), 1U);
    EXPECT_TRUE(other.commit(made_tactic(made_problem(576), 6, "tile_b", made_scope("Intel Xeon"))).ok());
    EXPECT_EQ(known(TacticStore(changed, in(temp.path())), made_problem(576)), "none");
  }
  const TacticStore again(made_scope(), in(temp.path()));
  EXPECT_EQ(known(again, made_problem(576)), "tile_a@5");
  EXPECT_EQ(again.records(), 2U);
}

TEST(TacticStoreTest, WhatDoesNotFitCannotBeCommitted) {
  TacticStore store(made_scope(), {});
  const Result<std::string> refused =
      store.commit(made_tactic(made_problem(576), 6, "tile_b", made_scope("Intel Xeon")));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("measured on device=Intel Xeon; here device=AMD EPYC"));
  Tactic tactic = made_tactic(made_problem(1), 1);
  tactic.chosen.kernel_hash = "of an older build";
  EXPECT_FALSE(store.commit(tactic).ok());
}

TEST(TacticStoreTest, ALaterFormatIsKeptForItsVersion) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  ASSERT_TRUE(folder.add("{\"format\":2}\n").ok());
  const Lines lines;
  const TacticStore store(made_scope(), in(temp.path()));
  EXPECT_EQ(store.records(), 1U);
  EXPECT_TRUE(lines.all.empty());
}

// A file under the right hash that is no record all the same.
TEST(TacticStoreTest, WholeBytesThatAreNoRecordAreSetAside) {
  const TempFolder temp;
  ASSERT_TRUE(TacticFolder(temp.path()).add("{\"format\":1}\n").ok());
  Lines lines;
  const TacticStore store(made_scope(), in(temp.path()));
  EXPECT_THAT(lines.all, ElementsAre(HasSubstr("set aside, to be measured again: no record: 'problem' is absent")));
  lines.all.clear();
  const TacticStore next(made_scope(), in(temp.path()));
  EXPECT_TRUE(lines.all.empty());
}

// TUNE-14: what the user measured stands above what was shipped, whenever that was measured; layers are never written.
TEST(TacticStoreTest, LayersLieBeneathTheUsersAndAreOnlyReadTune14) {
  const TempFolder temp;
  {
    TacticStore first(made_scope(), in(temp.path("first")));
    commit(first, made_problem(1), 50);
    commit(first, made_problem(2), 50);
    commit(first, made_problem(3), 50);
    TacticStore second(made_scope(), in(temp.path("second")));
    commit(second, made_problem(2), 60);
    commit(second, made_problem(4), 60);
    TacticStore user(made_scope(), in(temp.path("user")));
    commit(user, made_problem(1), 40);
  }
  const std::string damaged = temp.write("first/records/" + std::string(64, 'e') + ".json", "what");
  Lines lines;
  TacticStore store(made_scope(),
                    in(temp.path("user"), {temp.path("first"), temp.path("second"), temp.path("absent")}));
  EXPECT_EQ(known(store, made_problem(1)), "tile_a@40");
  EXPECT_EQ(known(store, made_problem(2)), "tile_a@50");
  EXPECT_EQ(known(store, made_problem(4)), "tile_a@60");
  EXPECT_THAT(lines.all, ElementsAre(HasSubstr("is damaged and not used")));
  EXPECT_TRUE(fs::exists(damaged));
  store.prepare(made_problem(3));
  commit(store, made_problem(3), 45);
  EXPECT_EQ(known(store, made_problem(3)), "tile_a@45");
  EXPECT_FALSE(fs::exists(temp.path("first/lock")) && fs::exists(temp.path("first/damaged")));
  EXPECT_EQ(TacticFolder(temp.path("first")).read()->entries.size(), 3U);
}

// C16, C20, TUNE-15: where nothing can be kept, one warning says so and the work goes on with what is in memory.
TEST(TacticStoreTest, AHomeThatCannotBeWrittenIsOneWarningC20Tune15) {
  const TempFolder temp;
  temp.write("home", "a file in place of the folder");
  const Lines lines;
  TacticStore store(made_scope(), in(temp.path("home/tactics")));
  for (int i = 0; i < 3; ++i) commit(store, made_problem(i), i);
  store.refresh();
  EXPECT_EQ(known(store, made_problem(2)), "tile_a@2");
  EXPECT_THAT(lines.all, ElementsAre(HasSubstr("tactics are kept in memory alone: cannot ")));
}

// C16: a process whose record cannot be published, or that cannot see its own, goes on with its own copy.
TEST(TacticStoreTest, ARecordThatCannotBePublishedIsKnownAllTheSameC16) {
  const TempFolder temp;
  const Lines lines;
  TacticStore store(made_scope(), in(temp.path("tactics")));
  commit(store, made_problem(1), 1);
  fs::remove_all(temp.path("tactics"));
  temp.write("tactics", "it became a file");
  commit(store, made_problem(2), 2);
  store.refresh();
  EXPECT_EQ(known(store, made_problem(1)), "tile_a@1");
  EXPECT_EQ(known(store, made_problem(2)), "tile_a@2");
  EXPECT_EQ(lines.all.size(), 1U);
}

TEST(TacticStoreTest, OfTooManyTriedTheWorstAreLeftOut) {
  const TempFolder temp;
  TacticStore store(made_scope(), in(temp.path()));
  Tactic tactic = made_tactic(made_problem(1), 1);
  for (int i = 0; i < 2000; ++i) tactic.others.push_back(tactic.others[0]);
  ASSERT_TRUE(store.commit(tactic).ok());
  TacticStore next(made_scope(), in(temp.path()));
  ASSERT_EQ(known(next, made_problem(1)), "tile_a@1");
  EXPECT_GT(next.find(tactic_key(made_problem(1)))->others.size(), 200U);
  tactic.clock = std::string(70'000, 'c');
  EXPECT_FALSE(store.commit(tactic).ok());
}

// Nothing is written that the next process would set aside.
TEST(TacticStoreTest, WhatCannotBeReadAgainIsNotWritten) {
  const TempFolder temp;
  TacticStore store(made_scope(), in(temp.path()));
  Problem problem = made_problem(1);
  problem.facts[0].value = "\xff\xfe";  // no text: JSON holds it as something else
  const Result<std::string> refused = store.commit(made_tactic(problem, 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("cannot be kept"));
  EXPECT_TRUE(TacticFolder(temp.path()).read()->entries.empty());
}

// TUNE-12: the folder stays under its bound, and what goes first is what nobody wanted for the longest time.
TEST(TacticStoreTest, TheOldestUnusedGoesFirstTune12) {
  const TempFolder temp;
  TacticStoreOptions options = in(temp.path());
  const auto bytes = static_cast<int64_t>(write_tactic(made_tactic(made_problem(10), 10)).size());
  options.most_bytes = 20 * bytes;
  const auto now = fs::file_time_type::clock::now();
  {
    TacticStore store(made_scope(), options);
    for (int i = 10; i < 29; ++i) {
      const std::string id = commit(store, made_problem(i), i);
      fs::last_write_time(temp.path("records/" + id + ".json"), now - std::chrono::hours(100 - i));
    }
  }
  TacticStore store(made_scope(), options);
  store.prepare(made_problem(10));  // the oldest, and wanted
  for (int i = 50; i < 60; ++i) commit(store, made_problem(i), i);
  const TacticStore left(made_scope(), options);
  EXPECT_LE(static_cast<int64_t>(left.records()) * bytes, options.most_bytes);
  EXPECT_GE(left.records(), 15U);
  EXPECT_EQ(known(left, made_problem(10)), "tile_a@10");
  EXPECT_EQ(known(left, made_problem(11)), "none");
  EXPECT_EQ(known(left, made_problem(59)), "tile_a@59");
  EXPECT_EQ(known(store, made_problem(11)), "tile_a@11");  // knowledge of a process only grows
}

// Look-ups go on while another thread learns: the table grows several times under them.
TEST(TacticTableTest, IsReadWhileItGrows) {
  TacticTable table;
  std::vector<Tactic> tactics(2000);
  std::vector<TacticKey> keys;
  for (int i = 0; i < 2000; ++i) keys.push_back(tactic_key(made_problem(i)));
  std::atomic<int> put = 0;
  std::thread reader([&] {
    while (put < 2000) {
      const int so_many = put;
      for (int i = 0; i < so_many; ++i) {
        ASSERT_EQ(table.find(keys[static_cast<size_t>(i)]), &tactics[static_cast<size_t>(i)]);
      }
      ASSERT_EQ(table.find({1, 2}), nullptr);
    }
  });
  for (size_t i = 0; i < 2000; ++i) {
    table.put(keys[i], tactics[i]);
    put = static_cast<int>(i) + 1;
  }
  reader.join();
  EXPECT_EQ(table.size(), 2000U);
  table.put(keys[7], tactics[8]);
  EXPECT_EQ(table.size(), 2000U);
  EXPECT_EQ(table.find(keys[7]), &tactics[8]);
}

// Keys that begin alike, and that of all zeros, are keys like others.
TEST(TacticTableTest, KeysThatCollideAreKeptApart) {
  TacticTable table;
  std::vector<Tactic> tactics(4);
  const TacticKey keys[] = {{0, 0}, {2, 0}, {2, 256}, {4, 0}};
  for (size_t i = 0; i < 4; ++i) table.put(keys[i], tactics[i]);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(table.find(keys[i]), &tactics[i]);
  EXPECT_EQ(table.find({6, 0}), nullptr);
}

// TUNE-7, TUNE-19: what proves slower is noted beside its record, which stays as it is; other processes know it, and a
// later record of the problem begins anew.
TEST(TacticStoreTest, WhatProvesSlowerIsNotedBesideItsRecordTune19) {
  const TempFolder temp;
  const Problem problem = made_problem(576);
  const TacticKey key = tactic_key(problem);
  TacticStore store(made_scope(), in(temp.path()));
  const std::string id = commit(store, problem, 5);
  EXPECT_FALSE(store.slower(key));
  store.note_slower(tactic_key(made_problem(1)), {1, 2, 3});
  store.note_slower(key, {2500.5, 32, 77});
  const TacticStore other(made_scope(), in(temp.path()));
  ASSERT_TRUE(other.slower(key));
  EXPECT_EQ(other.slower(key)->median_ns, 2500.5);
  EXPECT_EQ(other.slower(key)->launches, 32);
  EXPECT_EQ(other.slower(key)->seen_at_ms, 77);
  EXPECT_EQ(known(other, problem), "tile_a@5") << "it is used as before";
  const TacticFolder folder(temp.path());
  EXPECT_EQ(folder.read()->entries.size(), 1U);
  EXPECT_TRUE(folder.read()->damaged.empty());
  EXPECT_EQ(read_slower(folder).size(), 1U);

  commit(store, problem, 6);
  EXPECT_FALSE(store.slower(key));
  const TacticFolder::Contents both = folder.read().value();
  for (const TacticFolder::Entry& entry : both.entries) {
    EXPECT_EQ(*folder.remove({&entry, entry.id == id ? 1U : 0U}), entry.id == id ? 1 : 0);
  }
  EXPECT_TRUE(read_slower(folder).empty()) << "the note goes with its record";
  temp.write("slower/" + id, "soon");
  EXPECT_TRUE(read_slower(folder).empty());
}

}  // namespace
}  // namespace vernier
