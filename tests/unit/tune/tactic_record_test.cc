#include "tune/tactic_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/made_tactics.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;
using testing::made_problem;
using testing::made_scope;
using testing::made_tactic;

Tactic whole() {
  Tactic tactic = made_tactic(made_problem(576), 1'700'000'000'123);
  tactic.tie = true;
  tactic.time.median_ns = 0.1 + 0.2;  // no short decimal
  return tactic;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// C08: what was best, what came next and how far apart they were can be audited later.
TEST(TacticRecord, HoldsTheBestTheNextAndTheSpreadC08) {
  const Tactic written = whole();
  const Result<Tactic> read = read_tactic(write_tactic(written));
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->problem.to_string(), written.problem.to_string());
  EXPECT_EQ(read->chosen.kernel, "tile_a");
  EXPECT_EQ(read->chosen.kernel_hash, std::string(64, 'a'));
  EXPECT_EQ(facts_text(read->chosen.parameters), "rows_at_once=4");
  EXPECT_EQ(read->time.median_ns, written.time.median_ns);
  EXPECT_EQ(read->time.spread_ns, 17.3);
  EXPECT_EQ(read->time.repeats, 15);
  EXPECT_TRUE(read->tie);
  ASSERT_EQ(read->others.size(), 2U);
  EXPECT_EQ(read->others[0].named.kernel, "tile_b");
  EXPECT_EQ(read->others[0].time.median_ns, 1272.8);
  EXPECT_EQ(read->others[1].verdict, "failed");
  EXPECT_EQ(read->others[1].detail, "no memory for its rows");
  EXPECT_EQ(facts_text(read->device), facts_text(written.device));
  EXPECT_EQ(facts_text(read->libraries), "driver=550.54");
  EXPECT_EQ(read->clock, "governor performance");
  EXPECT_EQ(read->measured_at_ms, 1'700'000'000'123);
  EXPECT_EQ(read->version, "0.1.0");
}

// TUNE-7: a record's address is the hash of its bytes, so equal tactics must have equal bytes.
TEST(TacticRecord, EqualTacticsAreEqualBytesTune7) {
  const std::string bytes = write_tactic(whole());
  EXPECT_EQ(write_tactic(*read_tactic(bytes)), bytes);
  EXPECT_EQ(bytes.find('\n'), bytes.size() - 1);
}

TEST(TacticRecord, BytesThatAreNoTextDoNotEndIt) {
  Tactic tactic = whole();
  tactic.device[1].value = "\xff\xfe processor";
  EXPECT_TRUE(read_tactic(write_tactic(tactic)).ok());
}

TEST(TacticRecord, WhatIsNoRecordIsRefusedByField) {
  const std::string bytes = write_tactic(whole());
  const auto refusal = [](const std::string& text) {
    const Result<Tactic> read = read_tactic(text);
    if (read.ok()) return std::string("taken");
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    return read.error().message;
  };
  EXPECT_EQ(refusal(""), "not one line");
  EXPECT_EQ(refusal(bytes + bytes), "not one line");
  EXPECT_EQ(refusal("{\"a\":\n"), "no JSON");
  EXPECT_EQ(refusal("[]\n"), "a array; expected an object");
  EXPECT_EQ(refusal("\xef\xbb\xbf{}\n"), "'format' is absent");
  EXPECT_THAT(refusal(std::string(9, '[') + "\n"), HasSubstr("nested more than 8 deep"));
  EXPECT_THAT(refusal(std::string(70'000, ' ') + "\n"), HasSubstr("a record has at most 65536"));
  EXPECT_EQ(refusal(replaced(bytes, "\"median_ns\":0.30000000000000004", "\"median_ns\":-1.5")),
            "'median_ns' is -1.5; expected a time from 0");
  EXPECT_EQ(refusal(replaced(bytes, "\"repeats\":15", "\"repeats\":1.5")),
            "'repeats' is 1.5; expected a whole number from 0");
  EXPECT_EQ(refusal(replaced(bytes, "\"repeats\":15", "\"repeats\":18446744073709551615")),
            "'repeats' is 18446744073709551615; expected a whole number from 0");
  EXPECT_EQ(refusal(replaced(bytes, "\"tie\":true", "\"tie\":1")), "'tie' is a number; expected a boolean");
  EXPECT_EQ(refusal(replaced(bytes, "[\"threads\",\"2\"]", "[\"threads\",2]")),
            "'device' holds [\"threads\",2]; expected [name, value]");
  EXPECT_EQ(refusal(replaced(bytes, "\"kernel\":\"tile_a\"", "\"kernel\":\"\"")), "a kernel has no name");
  EXPECT_EQ(refusal(replaced(bytes, "\"tie\":true", "\"tie\":false,\"tie\":true")), "'tie' is there twice");
  EXPECT_EQ(refusal(replaced(bytes, "\"repeats\":15", "\"repeats\":1,\"repeats\":15")), "'repeats' is there twice");
}

// A number of another problem's record must not serve this one.
TEST(TacticRecord, TheProblemIsTheOneThatItsHashSays) {
  const std::string bytes = write_tactic(whole());
  const Result<Tactic> read = read_tactic(replaced(bytes, "[\"cols\",\"576\"]", "[\"cols\",\"577\"]"));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, "the problem's hash is that of another problem");
}

TEST(TacticRecord, ALaterFormatIsNoDamage) {
  const Result<Tactic> read = read_tactic("{\"format\":2,\"all\":\"else\"}\n");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(read.error().message, "format 2; this version reads 1");
}

// TUNE-8: each fact decides, and no border between two facts can be moved.
TEST(TacticKeyTest, EachFactWithItsNameAndPlaceDecidesTune8) {
  const TacticKey key = tactic_key({"op", {{"a", "b"}, {"c", "d"}}});
  EXPECT_EQ(key, tactic_key({"op", {{"a", "b"}, {"c", "d"}}}));
  EXPECT_NE(key, tactic_key({"op2", {{"a", "b"}, {"c", "d"}}}));
  EXPECT_NE(key, tactic_key({"op", {{"c", "d"}, {"a", "b"}}}));
  EXPECT_NE(key, tactic_key({"op", {{"a", "b, c=d"}}}));
  EXPECT_NE(key, tactic_key({"op", {{"ab", ""}, {"c", "d"}}}));
}

// TUNE-9: what is told is why a record is not used, with both sides.
TEST(TacticMisfit, TellsWhatDiffersTune9) {
  const Tactic tactic = made_tactic(made_problem(576), 1);
  EXPECT_EQ(tactic_misfit(tactic, made_scope()), "");
  EXPECT_EQ(tactic_misfit(tactic, made_scope("Intel Xeon")),
            "another device: measured on device=AMD EPYC; here device=Intel Xeon");
  TacticScope scope = made_scope();
  scope.libraries[0].value = "560.10";
  EXPECT_EQ(tactic_misfit(tactic, scope), "other libraries: measured with driver=550.54; here driver=560.10");
  scope = made_scope();
  scope.kernel_hash = [](std::string_view) { return std::string(64, 'd'); };
  EXPECT_EQ(tactic_misfit(tactic, scope),
            "another kernel: tile_a is aaaaaaaaaaaa in the record and dddddddddddd in this build");
  scope.kernel_hash = [](std::string_view) { return std::string(); };
  EXPECT_EQ(tactic_misfit(tactic, scope), "this build has no kernel tile_a");
}

}  // namespace
}  // namespace vernier
