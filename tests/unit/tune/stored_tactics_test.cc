#include "tune/stored_tactics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/made_tactics.h"
#include "tune/content_hash.h"
#include "tune/tactic_archive.h"
#include "tune/tactic_record.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;
using testing::made_problem;
using testing::made_scope;
using testing::made_tactic;
using ::testing::UnorderedElementsAre;

StoredTactic stored(const Problem& problem, int64_t at_ms, int64_t used_ns, const std::string& device = "AMD EPYC") {
  StoredTactic one;
  one.tactic = made_tactic(problem, at_ms, "tile_a", made_scope(device));
  one.entry.bytes = write_tactic(one.tactic);
  one.entry.id = content_hash(one.entry.bytes).to_hex();
  one.entry.used_ns = used_ns;
  return one;
}

/// The times of measuring of those that may go.
std::vector<int64_t> gone(const std::vector<StoredTactic>& all, const PruneRules& rules) {
  std::vector<int64_t> times;
  for (const Prunable& one : choose_prunable(all, made_scope(), rules, 1000)) {
    times.push_back(one.stored->tactic.measured_at_ms);
    EXPECT_FALSE(one.why.empty());
  }
  return times;
}

std::vector<StoredTactic> some() {
  return {stored(made_problem(1), 1, 900), stored(made_problem(1), 2, 800), stored(made_problem(2), 3, 100),
          stored(made_problem(1), 4, 500, "Intel Xeon"), stored(made_problem(1), 5, 600, "Intel Xeon")};
}

TEST(ChoosePrunable, WithoutARuleNothingGoes) {
  EXPECT_TRUE(gone(some(), {}).empty());
}

// What fits another machine is not for this one to judge.
TEST(ChoosePrunable, SupersededIsOnlyWhatFitsHere) {
  PruneRules rules;
  rules.superseded = true;
  EXPECT_THAT(gone(some(), rules), UnorderedElementsAre(1));
}

TEST(ChoosePrunable, WhatDoesNotFitAndWhatIsUnused) {
  PruneRules rules;
  rules.misfits = true;
  EXPECT_THAT(gone(some(), rules), UnorderedElementsAre(4, 5));
  rules = {};
  rules.unused_for_ns = 450;
  EXPECT_THAT(gone(some(), rules), UnorderedElementsAre(3, 4));
}

// TUNE-12
TEST(ChoosePrunable, OfTooManyTheOldestUnusedGoFirst) {
  const std::vector<StoredTactic> all = some();
  PruneRules rules;
  rules.most_bytes = 0;
  for (const StoredTactic& one : all) *rules.most_bytes += static_cast<int64_t>(one.entry.bytes.size());
  EXPECT_TRUE(gone(all, rules).empty());
  *rules.most_bytes -= 1;
  EXPECT_THAT(gone(all, rules), UnorderedElementsAre(3));
  *rules.most_bytes -= static_cast<int64_t>(all[2].entry.bytes.size());
  EXPECT_THAT(gone(all, rules), UnorderedElementsAre(3, 4));
}

// A clock that was wrong once must not decide for ever: whatever is measured now is taken.
TEST(Supersedes, WhatIsDatedAheadComesAfterAllOthers) {
  const int64_t now_ms = calendar_ns() / 1'000'000, day_ms = 24LL * 3600 * 1000;
  TacticFolder::Contents contents;
  for (int64_t at_ms : {now_ms, now_ms + day_ms / 2, now_ms + 400 * day_ms}) {
    contents.entries.push_back(stored(made_problem(1), at_ms, 0).entry);
  }
  const StoredTactics all = read_contents(std::move(contents));
  ASSERT_EQ(all.records.size(), 3u);
  EXPECT_TRUE(supersedes(all.records[1], all.records[0]));
  EXPECT_TRUE(supersedes(all.records[0], all.records[2]));
  EXPECT_FALSE(supersedes(all.records[2], all.records[0]));
}

// Of equal times the id decides, the same in every process.
TEST(Supersedes, IsATotalOrder) {
  const StoredTactic a = stored(made_problem(1), 1, 0), b = stored(made_problem(2), 1, 0);
  EXPECT_NE(supersedes(a, b), supersedes(b, a));
  EXPECT_FALSE(supersedes(a, a));
  EXPECT_TRUE(supersedes(stored(made_problem(1), 2, 0), a));
}

TEST(TacticArchive, BringsBackTheBytes) {
  std::vector<TacticFolder::Entry> entries;
  for (const StoredTactic& one : some()) entries.push_back(one.entry);
  const std::string archive = write_archive(entries);
  EXPECT_TRUE(is_archive(archive));
  const Result<TacticFolder::Contents> read = read_archive(archive);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  ASSERT_EQ(read->entries.size(), entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(read->entries[i].id, entries[i].id);
    EXPECT_EQ(read->entries[i].bytes, entries[i].bytes);
  }
}

TEST(TacticArchive, DamageIsToldByLine) {
  std::vector<TacticFolder::Entry> entries;
  for (const StoredTactic& one : some()) entries.push_back(one.entry);
  const std::string archive = write_archive(entries);
  const auto refusal = [](const std::string& text) {
    const Result<TacticFolder::Contents> read = read_archive(text);
    return read.ok() ? "taken" : read.error().message;
  };
  EXPECT_THAT(refusal("what"), HasSubstr("no archive of tactics"));
  EXPECT_THAT(refusal("vernier tactics 2\n"), HasSubstr("this version reads 'vernier tactics 1'"));
  EXPECT_EQ(refusal(archive.substr(0, archive.size() - 1)), "line 6 is cut off");
  std::string flipped = archive;
  flipped[archive.size() / 2] ^= 1;
  EXPECT_THAT(refusal(flipped), HasSubstr("line 4 is damaged"));
  EXPECT_EQ(refusal("vernier tactics 1\n\n"), "line 2 does not begin with a record's id");
}

}  // namespace
}  // namespace vernier
