#include "api/tune_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "api/loaded_model.h"
#include "engine/sequence_runner.h"
#include "testing/isa.h"
#include "testing/sanitized.h"
#include "testing/temp_folder.h"
#include "vernier/engine.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;
using State = TunedProblem::State;
using testing::TempFolder;

/// A model as a process loads it: with a store of its own over the folder.
std::unique_ptr<LoadedModel> load(const std::string& name, const std::string& folder) {
  LoadOptions options;
  options.backend.isa = testing::requested_isa();
  options.backend.threads = 2;
  TacticStoreOptions store;
  store.folder = folder;
  options.tactics = std::make_shared<TacticStore>(tactic_scope(options.backend).value(), store);
  auto model = LoadedModel::load(std::string(VERNIER_TEST_DATA "/models/") + name, options);
  EXPECT_TRUE(model.ok()) << model.error().to_string();
  return std::move(model).value();
}

TuneReport tune(const LoadedModel& model) {
  TuneRequest request;
  request.budget_ns = testing::kSanitized ? 120'000'000'000 : 20'000'000'000;
  request.version = "test";
  auto report = tune_model(model.backend(), model.decoder().parts(), *model.tactics(), request);
  EXPECT_TRUE(report.ok()) << report.error().to_string();
  return std::move(report).value();
}

/// Products that ran without a tactic while a prompt was read and some tokens written.
int64_t untuned_launches(const LoadedModel& model) {
  auto runner = SequenceRunner::make(model.backend(), model.decoder(), {.context_tokens = 128}).value();
  std::vector<int32_t> prompt(70);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(3 + i * 7 % 200);
  SampleSpec greedy;
  greedy.temperature = 0;
  for (int i = 0; i < 5; ++i) prompt = {runner->feed_and_sample(prompt, greedy).value().token};
  int64_t launches = 0;
  for (const UntunedLaunches& one : model.backend().untuned()) launches += one.launches;
  return launches;
}

/// C14, G2.2: a target and its draft, tuned one after the other in one process, with one store or two; then again, when
/// all is known; then in processes that only read. In none of them does either run a product without its tactic.
TEST(TuneModel, TargetAndDraftRunNothingUntunedColdAndWarmC14) {
  const std::string target = "llama", draft = "gemma3";
  const TempFolder temp;
  EXPECT_GT(untuned_launches(*load(target, temp.path("first"))), 0) << "counts what there is";
  for (const bool shared : {true, false}) {
    SCOPED_TRACE(shared ? "one store" : "two stores");
    const std::string first = temp.path("first"), second = shared ? first : temp.path("second");
    for (const bool warm : {false, true}) {
      SCOPED_TRACE(warm ? "warm" : "cold");
      const auto one = load(target, first);
      const TuneReport of_target = tune(*one);
      const auto other = load(draft, second);
      const TuneReport of_draft = tune(*other);
      for (const TuneReport* report : {&of_target, &of_draft}) {
        const auto problems = static_cast<int64_t>(report->problems.size());
        EXPECT_GT(problems, 0);
        EXPECT_EQ(report->count(State::kMeasured) + report->count(State::kKnown), problems);
        EXPECT_TRUE(!warm || report->count(State::kMeasured) == 0);
      }
      EXPECT_TRUE(warm || of_draft.count(State::kMeasured) > 0) << "the draft has shapes of its own";
      EXPECT_EQ(untuned_launches(*one), 0) << "the target, after the draft was tuned";
      EXPECT_EQ(untuned_launches(*other), 0);
    }
    EXPECT_EQ(untuned_launches(*load(target, first)), 0);
    EXPECT_EQ(untuned_launches(*load(draft, second)), 0);
  }
}

/// C21: what cannot even be prepared for measuring keeps its fixed choice and says why; nothing ends for it.
TEST(TuneModel, WhatCannotBePreparedKeepsItsFixedChoiceC21) {
  const TempFolder temp;
  const auto model = load("llama", temp.path());
  TuneRequest request;
  request.most_bytes = 1;
  const auto report = tune_model(model->backend(), model->decoder().parts(), *model->tactics(), request);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_GT(report->problems.size(), 0U);
  for (const TunedProblem& one : report->problems) {
    EXPECT_EQ(one.state, State::kFailed);
    EXPECT_THAT(one.why, HasSubstr("bytes; 1 are allowed"));
  }
  EXPECT_GT(untuned_launches(*model), 0);
}

/// A library's engine uses the store as the program does.
class LibraryTactics : public ::testing::Test {
 protected:
  LibraryTactics() {
    namespace fs = std::filesystem;
    fs::copy(VERNIER_TEST_DATA "/models/llama", temp_.path("model"), fs::copy_options::recursive);
    fs::copy(VERNIER_TEST_DATA "/tokenizers/mini-spm-first.json", temp_.path("model/tokenizer.json"));
    options_.isa = testing::requested_isa();
    options_.threads = 2;
    options_.tune_store = temp_.path("tactics");
  }
  size_t records() const { return TacticFolder(temp_.path("tactics")).read()->entries.size(); }
  api::Result<api::Engine> open() const { return api::Engine::open(temp_.path("model"), options_); }

  TempFolder temp_;
  api::Options options_;
};

TEST_F(LibraryTactics, AnEngineMeasuresWhatIsAskedAndKeepsItWhereItIsTold) {
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(records(), 0U) << "off measures nothing";
  options_.tune = "missing";
  options_.tune_budget_ms = 120'000;
  ASSERT_TRUE(open().ok());
  const size_t measured = records();
  EXPECT_GT(measured, 0U);
  EXPECT_EQ(untuned_launches(*load("llama", temp_.path("tactics"))), 0) << "what the program then loads runs tuned";
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(records(), measured) << "all of it is known";
  options_.tune_store += ":ro";
  options_.tune = "full";
  options_.tune_budget_ms = 1;
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(records(), measured) << "nothing is written there";
}

TEST_F(LibraryTactics, WordsThatMeanNothingAreRefused) {
  options_.tune = "all";
  EXPECT_THAT(open().error().message, HasSubstr("tune all: expected off, missing or full"));
  options_.tune = "missing";
  options_.tune_budget_ms = -1;
  EXPECT_THAT(open().error().message, HasSubstr("tune_budget_ms is -1, expected 0 to"));
  options_.tune_budget_ms = 0;
  options_.backend = "reference";
  EXPECT_EQ(open().error().code, api::ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace vernier
