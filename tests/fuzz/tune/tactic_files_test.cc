#include <gtest/gtest.h>

#include "testing/fuzzer.h"
#include "testing/made_tactics.h"
#include "tune/content_hash.h"
#include "tune/tactic_archive.h"
#include "tune/tactic_record.h"

namespace vernier {
namespace {

using testing::fuzz;
using testing::made_problem;
using testing::made_tactic;

// A record that is taken says the same again, to the byte, once it is written as we write it.
TEST(FuzzTune, NoRecordEndsTheProcess) {
  fuzz({"tactic", {write_tactic(made_tactic(made_problem(576), 17))}, {"\"format\":1", "1e999", "-0", "[[[["}},
       [](const std::string& input) {
         const Result<Tactic> tactic = read_tactic(input);
         if (!tactic.ok()) {
           EXPECT_FALSE(tactic.error().message.empty());
           return false;
         }
         const std::string written = write_tactic(*tactic);
         const Result<Tactic> again = read_tactic(written);
         EXPECT_TRUE(again.ok() || written.size() > kMostRecordBytes);
         EXPECT_TRUE(!again.ok() || write_tactic(*again) == written);
         return true;
       });
}

TEST(FuzzTune, NoArchiveEndsTheProcess) {
  std::vector<TacticFolder::Entry> entries;
  for (int i = 0; i < 3; ++i) {
    const std::string bytes = write_tactic(made_tactic(made_problem(i), i));
    entries.push_back({content_hash(bytes).to_hex(), bytes, 0});
  }
  fuzz({"tactics", {write_archive(entries)}, {"vernier tactics 1\n", entries[0].id, "\n"}},
       [](const std::string& input) {
         const Result<TacticFolder::Contents> read = read_archive(input);
         if (!read.ok()) {
           EXPECT_FALSE(read.error().message.empty());
           return false;
         }
         for (const TacticFolder::Entry& entry : read->entries) EXPECT_EQ(content_hash(entry.bytes).to_hex(), entry.id);
         return true;
       });
}

}  // namespace
}  // namespace vernier
