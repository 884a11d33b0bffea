#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "backends/cpu/cpu_isa.h"
#include "backends/cpu/cpu_tactics.h"
#include "e2e/program/run_program.h"
#include "testing/isa.h"
#include "testing/made_tactics.h"
#include "testing/temp_folder.h"
#include "tune/tactic_record.h"
#include "tune/tactic_store.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::made_problem;
using testing::made_scope;
using testing::made_tactic;
using ::testing::Not;
using testing::Outcome;
using testing::TempFolder;

class TuneProgram : public ::testing::Test {
 protected:
  TuneProgram() : scope_(cpu_tactic_scope(testing::requested_isa(), 0).value()) {
    isa_ = scope_.device.at(2).value;
    kernel_ = "int8_tile_" + isa_;
  }

  /// With a home of its own.
  Outcome run(const std::string& arguments) const {
    return testing::vernier("--home " + home_.path() + " --isa " + isa_ + " " + arguments, true);
  }
  nlohmann::json json(const std::string& arguments) const {
    const Outcome outcome = run("--json " + arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    nlohmann::json parsed = nlohmann::json::parse(outcome.output, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << outcome.output;
    return parsed;
  }
  /// Measured on this machine.
  Tactic here(int cols, int64_t at_ms) const {
    Tactic tactic = made_tactic(made_problem(cols), at_ms);
    tactic.chosen = {kernel_, scope_.kernel_hash(kernel_), {{"rows_at_once", "4"}}};
    tactic.device = scope_.device;
    tactic.libraries = scope_.libraries;
    return tactic;
  }
  static std::string add(const std::string& folder, const Tactic& tactic) {
    return TacticFolder(folder).add(write_tactic(tactic)).value();
  }
  std::string store() const { return home_.path("tactics"); }
  std::string logits_of(const std::string& model) const {
    return "logits " + model + " --ids '[[1,2,3,4,5,6,7],[8]]' --out " + home_.path("logits");
  }

  TacticScope scope_;
  std::string isa_, kernel_;
  TempFolder home_;
};

TEST_F(TuneProgram, AnEmptyStoreIsNoError) {
  const Outcome outcome = run("tune list");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "no tactics in " + store() + "\n");
  EXPECT_TRUE(json("tune list")["records"].empty());
}

TEST_F(TuneProgram, ListTellsWhatThisMachineWouldUse) {
  ASSERT_FALSE(scope_.kernel_hash(kernel_).empty());
  const std::string older = add(store(), here(576, 1'700'000'000'000)),
                    newer = add(store(), here(576, 1'700'000'100'000));
  const std::string foreign = add(store(), made_tactic(made_problem(1536), 5));
  const Outcome outcome = run("tune list");
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("3 records of " + store() + ": 1 used with these flags, 1 superseded, 1 kept for others"),
                    HasSubstr("2023-11-14 22:13"), HasSubstr(kernel_ + " (rows_at_once=4)")));
  const std::map<std::string, std::string> expected = {
      {older, "superseded"}, {newer, "used"}, {foreign, "another device"}};
  const nlohmann::json listed = json("tune list");
  for (const nlohmann::json& record : listed["records"]) {
    const std::string id = record["id"], state = record["state"];
    EXPECT_THAT(state, HasSubstr(expected.at(id)));
  }
  EXPECT_EQ(json("tune list linear[2048x1536]")["records"].size(), 1U);
  EXPECT_EQ(json("tune list cols=57")["records"].size(), 0U);
  // Other threads are another device to a tactic.
  EXPECT_THAT(run("--threads 7 tune list").output, HasSubstr("0 used with these flags"));
}

TEST_F(TuneProgram, WhyTellsTheNextBestAndWhyOthersAreNotUsed) {
  add(store(), here(576, 1'700'000'000'000));
  add(store(), made_tactic(made_problem(576), 5));
  const Outcome outcome = run("tune why 'linear[2048x576] q4_1'");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(
      outcome.output,
      AllOf(HasSubstr("linear(codec=q4_1, rows=2048, cols=576, layout=panels8, batch=1)\n"),
            HasSubstr("taken: " + kernel_ + " (rows_at_once=4), 1.2 us +- 17 ns over 15 repeats; 3.1 % before tile_b"),
            HasSubstr("beside stream: failed, no memory for its rows"),
            HasSubstr("not taken: tile_a (rows_at_once=4), record "), HasSubstr("another device: measured on ")));
  const Outcome absent = run("tune why linear[2048x577]");
  EXPECT_EQ(absent.exit_code, 3);
  EXPECT_THAT(absent.output, HasSubstr("no tactic in " + store() + " is for 'linear 2048x577'"));
}

// C20: layers beneath are shown and never written; a second folder to write is refused.
TEST_F(TuneProgram, LayersLieBeneath) {
  const std::string shipped = home_.path("shipped");
  add(shipped, here(576, 9'000'000'000'000));
  add(store(), here(576, 1));
  const nlohmann::json records = json("tune list --tune-store " + shipped + ":ro linear")["records"];
  ASSERT_EQ(records.size(), 2U);
  for (const nlohmann::json& record : records) EXPECT_EQ(record["state"], record["layer"] == 0 ? "used" : "superseded");
  const Outcome outcome = run("tune list --tune-store " + shipped + " --tune-store " + store());
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("one is written to"));
}

TEST_F(TuneProgram, ExportAndImportCarryTacticsToAnotherHome) {
  add(store(), here(576, 1));
  add(store(), made_tactic(made_problem(1536), 5));
  const std::string file = home_.path("all.tactics"), other = home_.path("other");
  EXPECT_EQ(run("tune export --out " + file).output, file + ": 2 records\n");
  EXPECT_EQ(run("tune import --tune-store " + other + " " + file).output,
            other + ": 2 records added, 0 were there already\n");
  EXPECT_EQ(run("tune import --tune-store " + other + " " + file).output,
            other + ": 0 records added, 2 were there already\n");
  EXPECT_THAT(run("tune diff " + other + " " + file).output,
              HasSubstr("0 problems only in A, 0 only in B, 2 in both, 0 of them chosen otherwise"));
  EXPECT_EQ(json("tune export --used --out " + file)["records"], 1);
  EXPECT_EQ(run("tune export --out " + file + " nothing=so").exit_code, 3);

  std::string bytes = testing::bytes_of(file);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  const Outcome damaged = run("tune import " + file);
  EXPECT_EQ(damaged.exit_code, 4);
  EXPECT_THAT(damaged.output, HasSubstr(file + ": line 2 is damaged"));
  EXPECT_THAT(run("tune import " + other).output, HasSubstr("is a folder; vernier tune merge takes folders"));
}

TEST_F(TuneProgram, MergeIsTheUnionAndNamesWhatIsDamaged) {
  const std::string other = home_.path("other");
  add(store(), here(1, 1));
  add(other, here(1, 1));
  add(other, here(2, 2));
  const std::string broken = add(other, here(3, 3));
  std::ofstream(other + "/records/" + broken + ".json", std::ios::trunc) << "half";
  const Outcome outcome = run("tune merge " + other);
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("1 records added, 1 were there already"), HasSubstr(broken + ".json")));
  EXPECT_EQ(TacticFolder(store()).read()->entries.size(), 2U);
  EXPECT_EQ(run("tune merge " + home_.path("nowhere")).exit_code, 3);
}

TEST_F(TuneProgram, DiffTellsOtherChoices) {
  const std::string other = home_.path("other");
  Tactic rival = here(1, 2);
  rival.chosen.kernel = "float_tile_" + isa_;
  add(store(), here(1, 1));
  add(store(), here(2, 1));
  add(other, rival);
  add(other, here(3, 1));
  const Outcome outcome = run("tune diff " + other);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("only in A: linear(codec=q4_1, rows=2048, cols=3"), HasSubstr("only in B: "),
                    HasSubstr("float_tile_" + isa_ + " (rows_at_once=4) in A, " + kernel_)));
}

// A problem is the same text to `explain` as to a record: what was measured of it is found there.
TEST_F(TuneProgram, ExplainTellsWhatIsKnownOfAModelsProblems) {
  const std::string model = testing::tiny_model("llama");
  nlohmann::json lines = json("explain --tactics " + model);
  ASSERT_FALSE(lines.empty());
  const auto product =
      std::ranges::find_if(lines, [](const nlohmann::json& line) { return line["problem"] == "linear"; });
  ASSERT_NE(product, lines.end());
  EXPECT_TRUE((*product)["tactic"].is_null());
  Tactic tactic = here(1, 7);
  const std::string kernel = (*product)["kernel"];
  tactic.chosen = {kernel, scope_.kernel_hash(kernel), {{"rows_at_once", "2"}, {"chunk_panels", "3"}}};
  tactic.problem = {"linear", {}};
  for (const char* fact : {"codec", "rows", "cols", "batch", "numerics"}) {
    tactic.problem.facts.push_back({fact, (*product)["facts"][fact]});
  }
  add(store(), tactic);
  lines = json("explain --tactics " + model);
  EXPECT_GE(std::ranges::count_if(lines, [](const nlohmann::json& line) { return line["tactic"].is_object(); }), 1);
  const Outcome outcome = run("explain --tactics " + model);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("tactics: known for 1 of "), HasSubstr("\nuntuned: "),
                    HasSubstr(": " + kernel + " (chunk_panels=3, rows_at_once=2"),
                    HasSubstr("    tactic: " + kernel + " (rows_at_once=2, chunk_panels=3), 1.2 us +- 17 ns over 15")));
  EXPECT_EQ(run("explain --tactics --device-features sm90 " + model).exit_code, 2);
}

// TUNE-19: a run that watches flags a record that promised too much, and every other form shows it.
TEST_F(TuneProgram, ARecordThatProvesSlowerIsShown) {
  const std::string model = testing::tiny_model("llama");
  const nlohmann::json lines = json("explain --tactics " + model);
  for (const nlohmann::json& line : lines) {
    if (line["problem"] != "linear") continue;
    Tactic tactic = here(1, 7);
    const std::string kernel = line["kernel"];
    tactic.chosen = {kernel, scope_.kernel_hash(kernel), {}};
    tactic.time.median_ns = 1;
    tactic.time.spread_ns = 0;
    tactic.problem = {"linear", {}};
    for (const char* fact : {"codec", "rows", "cols", "batch", "numerics"}) {
      tactic.problem.facts.push_back({fact, line["facts"][fact]});
    }
    add(store(), tactic);
  }
  EXPECT_THAT(run(logits_of(model) + " --generate 80").output, Not(HasSubstr("in the median of")));
  EXPECT_THAT(run("tune list").output, Not(HasSubstr("slower in use")));
  const Outcome watched = run(logits_of(model) + " --generate 80 --tune-watch 2");
  EXPECT_EQ(watched.exit_code, 0);
  EXPECT_THAT(watched.output,
              HasSubstr("in the median of 32 launches and was measured with 0.0 us; vernier tune --tune"));
  EXPECT_THAT(run("tune list").output, HasSubstr("\nslower in use: "));
  EXPECT_THAT(run("tune why linear batch=1").output, HasSubstr("\n    slower in use: "));
  EXPECT_THAT(run("explain --tactics " + model).output, HasSubstr("\n    slower in use: "));
  int flagged = 0;
  const nlohmann::json listed = json("tune list");
  for (const nlohmann::json& record : listed["records"]) flagged += record["slower_in_use_ns"].is_number();
  EXPECT_GT(flagged, 0);
  EXPECT_EQ(run(logits_of(model) + " --tune-watch -1").exit_code, 2);
}

// API-11, C09
/// A model's products are measured once, each tactic is a record, and what is known is not measured again.
TEST_F(TuneProgram, TacticsThatCannotBeKeptAreNotMeasured) {
  std::ofstream(home_.path("file")) << "no folder";
  const std::string folder = home_.path("file") + "/tactics";
  const Outcome outcome = run("tune " + testing::tiny_model("llama") + " --budget 30s --tune-store " + folder);
  EXPECT_NE(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("cannot be kept in " + folder), HasSubstr("--tune-store"), Not(HasSubstr("problems:"))));
}

TEST_F(TuneProgram, AModelIsTunedAndTheNextRunKnowsIt) {
  const std::string model = testing::tiny_model("llama");
  const nlohmann::json first = json("tune " + model + " --budget 30s");
  ASSERT_FALSE(first["problems"].empty());
  std::map<std::string, int> batches;
  for (const nlohmann::json& one : first["problems"]) {
    EXPECT_EQ(one["state"], "measured") << one;
    EXPECT_GT(one["median_ns"], 0);
    EXPECT_GT(one["fixed_ns"], 0);
    EXPECT_GE(one["repeats"], 3);
    const std::string problem = one["problem"];
    for (const char* batch : {"batch=1,", "batch=512,"}) batches[batch] += problem.find(batch) != std::string::npos;
  }
  EXPECT_GT(batches["batch=1,"], 0) << "decoding";
  EXPECT_GT(batches["batch=512,"], 0) << "a prompt";
  EXPECT_EQ(TacticFolder(store()).read()->entries.size(), first["problems"].size());
  const nlohmann::json records = json("tune list")["records"];
  for (const nlohmann::json& record : records) {
    EXPECT_EQ(record["state"], "used");
    EXPECT_FALSE(record["version"].get<std::string>().empty());
    EXPECT_FALSE(record["clock"].get<std::string>().empty());
  }

  const nlohmann::json known = json("tune " + model);
  for (const nlohmann::json& one : known["problems"]) EXPECT_EQ(one["state"], "known");
  EXPECT_EQ(json("tune list")["records"].size(), records.size());
  const Outcome again = run("tune " + model + " --tune full --tune-skip linear");
  EXPECT_THAT(again.output, AllOf(HasSubstr("skipped as asked: linear "), HasSubstr(" 0 measured among 0 candidates")));
  const Outcome none = run("tune " + model + " --tune full --budget 0");
  EXPECT_THAT(none.output,
              AllOf(HasSubstr("not covered, as time was up: linear "), HasSubstr("not measured: attention")));
  // What runs now takes them: no product of a step is untuned.
  const Outcome strict = run(logits_of(model) + " --on-untuned error");
  EXPECT_EQ(strict.exit_code, 0) << strict.output;
}

/// The same bytes of answers with tactics and without.
TEST_F(TuneProgram, AnswersAreTheSameWithTactics) {
  const std::string model = testing::tiny_model("llama");
  const Outcome before = run(logits_of(model) + " --generate 8");
  ASSERT_EQ(before.exit_code, 0) << before.output;
  const std::string numbers = testing::bytes_of(home_.path("logits"));
  ASSERT_EQ(run("tune " + model + " --budget 30s").exit_code, 0);
  ASSERT_EQ(run(logits_of(model) + " --generate 8 --on-untuned error").exit_code, 0);
  EXPECT_EQ(testing::bytes_of(home_.path("logits")), numbers);
}

/// C14: one after the other; afterwards both find all they need, each in its own store.
TEST_F(TuneProgram, ADraftIsTunedBesideItsModelC14) {
  const std::string target = testing::tiny_model("llama"), draft = testing::tiny_model("gemma3");
  const std::string other = home_.path("other");
  const std::string both = "tune " + target + " --draft " + draft;
  const nlohmann::json cold = json(both + " --budget 20s --draft-store " + other);
  ASSERT_EQ(cold.size(), 2U);
  EXPECT_EQ(cold[0]["model"], target);
  EXPECT_EQ(cold[1]["store"], other);
  for (const nlohmann::json& one : cold[1]["problems"]) EXPECT_EQ(one["state"], "measured") << one;
  EXPECT_EQ(run(logits_of(target) + " --on-untuned error").exit_code, 0);
  EXPECT_EQ(run(logits_of(draft) + " --on-untuned error --tune-store " + other).exit_code, 0);
  EXPECT_EQ(run(logits_of(draft) + " --on-untuned error").exit_code, 5);
  const Outcome warm = run(both + " --budget 20s");
  EXPECT_THAT(warm.output, AllOf(HasSubstr("model " + target + "\n"), HasSubstr("draft " + draft + "\n"),
                                 HasSubstr(" 0 measured among 0 candidates")));
  EXPECT_EQ(run(logits_of(target) + " --on-untuned error").exit_code, 0);
  EXPECT_EQ(run(logits_of(draft) + " --on-untuned error").exit_code, 0);
  EXPECT_EQ(run("tune " + target + " --draft " + home_.path("nowhere")).exit_code, 3);
  EXPECT_EQ(run("tune " + target + " --draft-store " + other).exit_code, 2);
}

TEST_F(TuneProgram, ATuneAtTheStartMeasuresWhatIsMissing) {
  const std::string ask = logits_of(testing::tiny_model("llama"));
  const Outcome refused = run(ask + " --on-untuned error");
  EXPECT_EQ(refused.exit_code, 5);
  EXPECT_THAT(refused.output, AllOf(HasSubstr("--on-untuned=error, and "), HasSubstr(" have no tactic here: linear ")));
  EXPECT_FALSE(std::filesystem::exists(store()));
  const std::string elsewhere = home_.path("elsewhere");
  EXPECT_EQ(run(ask + " --tune missing --tune-budget 30s --on-untuned error --tune-store " + elsewhere).exit_code, 0);
  EXPECT_EQ(run(ask + " --on-untuned error --tune-store " + elsewhere + ":ro").exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(store()));
}

TEST_F(TuneProgram, APinIsAChoiceOfOnesOwn) {
  const std::string model = testing::tiny_model("llama");
  const std::string fixed = json("explain " + model)[1]["kernel"];
  const std::string stream = "float_tile_" + isa_;
  const Outcome wrong = run("explain " + model + " --tune-pin 'linear => nothing'");
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.output, HasSubstr("pin 'linear => nothing' for linear("));
  EXPECT_EQ(run("explain " + model + " --tune-pin linear").exit_code, 2);
  const Outcome elsewhere = run("explain " + model + " --tune-pin 'linear[9x9] batch=1 => " + stream + "'");
  EXPECT_EQ(elsewhere.exit_code, 2);
  EXPECT_THAT(elsewhere.output, HasSubstr("finds no product of this model"));
  const nlohmann::json pinned = json("--threads 2 explain --numerics exact " + model +
                                     " --tune-pin 'linear batch=1 => " + stream + " chunk_panels=2'");
  int taken = 0;
  for (const nlohmann::json& line : pinned)
    taken += line["kernel"] == stream && line["parameters"]["chunk_panels"] == "2";
  EXPECT_GT(taken, 0) << fixed;
}

TEST_F(TuneProgram, ATimeToMeasureInIsNothingWhereNothingIsMeasured) {
  const std::string logits = logits_of(testing::tiny_model("llama"));
  EXPECT_THAT(run(logits + " --tune-budget 5s").output, HasSubstr("--tune-budget and --tune-memory change nothing"));
  EXPECT_THAT(run(logits + " --tune missing --tune-budget 5s").output, Not(HasSubstr("change nothing")));
}

TEST_F(TuneProgram, WordsThatAreNoModelNameTheFormThatWasMeant) {
  const Outcome wrong = run("tune lst");
  EXPECT_EQ(wrong.exit_code, 3);
  EXPECT_THAT(wrong.output, HasSubstr("did you mean vernier tune list?"));
  const Outcome nothing = run("tune");
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.output, HasSubstr("expected MODEL, whose products are measured, or one of list, why"));
  EXPECT_EQ(run("tune --numerics exact list").exit_code, 2);
  for (const char* budget : {"-1s", "soon", "1h", ""}) {
    EXPECT_EQ(run("tune " + testing::tiny_model("llama") + " --budget '" + budget + "'").exit_code, 2) << budget;
  }
  EXPECT_THAT(run("tune " + testing::tiny_model("llama") + " --tune-skip hed").output,
              HasSubstr("'hed' is no op to skip"));
}

TEST_F(TuneProgram, WhyOfAModelTellsItsShapes) {
  const std::string model = testing::tiny_model("llama");
  const Outcome known = run("tune why " + model + " linear batch=1");
  EXPECT_EQ(known.exit_code, 0) << known.output;
  EXPECT_THAT(known.output, HasSubstr("taken: the fixed choice; it was never measured here"));
  const Outcome unknown = run("tune why " + model + " 'linear[3x5] q4_1'");
  EXPECT_EQ(unknown.exit_code, 3);
  EXPECT_THAT(unknown.output, HasSubstr("no product of the model is 'linear 3x5 q4_1'; there are linear "));
}

TEST_F(TuneProgram, AMissingStoreIsNamed) {
  const std::string other = home_.path("other");
  add(other, here(1, 1));
  const Outcome outcome = run("tune diff " + other);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("this machine's store " + store() + " is not there"));
}

TEST_F(TuneProgram, PruneRemovesByRulesAlone) {
  add(store(), here(576, 1));
  const std::string newer = add(store(), here(576, 2));
  const std::string foreign = add(store(), made_tactic(made_problem(1), 5));
  // In nanoseconds it would be before all times, and every record older than that.
  EXPECT_THAT(run("tune prune --unused-days 200000").output, HasSubstr("unused-days"));
  const Outcome without = run("tune prune");
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.output, HasSubstr("nothing to prune by"));
  EXPECT_THAT(run("tune prune --superseded --misfits --dry-run").output, HasSubstr("2 of 3 records, "));
  EXPECT_EQ(TacticFolder(store()).read()->entries.size(), 3U);
  EXPECT_THAT(run("tune prune --superseded").output, HasSubstr("measured again later\n1 of 3 records removed"));
  EXPECT_EQ(json("tune prune --misfits")["removed"], 1);
  ASSERT_EQ(TacticFolder(store()).read()->entries.size(), 1U);
  EXPECT_EQ(TacticFolder(store()).read()->entries[0].id, newer);
  EXPECT_THAT(run("tune prune --max-bytes 1").output, Not(HasSubstr("0 of 1")));
}

TEST_F(TuneProgram, PruneTellsWhatIsDamagedAndKeepsWhatIsNotTheStores) {
  const std::string bad = add(store(), here(576, 1));
  std::ofstream(std::filesystem::path(store()) / "records" / (bad + ".json")) << "cut";
  const std::filesystem::path aside = std::filesystem::path(store()) / "damaged";
  std::filesystem::create_directories(aside);
  std::ofstream(aside / "thesis.txt") << "kept";
  EXPECT_THAT(run("tune prune --damaged --dry-run").output, HasSubstr("1 damaged ones would go"));
  EXPECT_EQ(json("tune prune --damaged")["damaged"], 1);
  EXPECT_TRUE(TacticFolder(store()).read()->damaged.empty());
  EXPECT_TRUE(std::filesystem::exists(aside / "thesis.txt"));
  EXPECT_THAT(run("tune prune --damaged").output, HasSubstr("0 damaged ones removed"));
}

}  // namespace
}  // namespace vernier
