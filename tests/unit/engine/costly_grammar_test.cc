#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/grammar_error.h"
#include "engine/scripted_step_runner.h"
#include "testing/gathering_sink.h"
#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

using testing::GatheringSink;

/// Takes too much work for the mask, or for taking in the token, that follows `free_tokens` tokens.
class CostlyRun : public AutomatonRun {
 public:
  CostlyRun(int free_tokens, bool in_accept) : left_(free_tokens), in_accept_(in_accept) {}
  Result<bool> accept(int32_t, SharedWork*) override {
    if (left_ == 0 && in_accept_) return invalid_argument("the grammar takes more than 5 steps");
    --left_;
    return true;
  }
  Status fill_mask(std::span<uint32_t> bits, SharedWork*) override {
    if (left_ == 0 && !in_accept_) return invalid_argument("the grammar takes more than 5 steps");
    std::ranges::fill(bits, ~0U);
    return {};
  }
  bool is_complete() const override { return false; }
  Status rollback(int) override { return {}; }

 private:
  int left_;
  bool in_accept_;
};

class CostlyAutomaton : public Automaton {
 public:
  CostlyAutomaton(int free_tokens, bool in_accept) : free_tokens_(free_tokens), in_accept_(in_accept) {}
  Result<std::unique_ptr<AutomatonRun>> start() const override {
    return std::unique_ptr<AutomatonRun>(std::make_unique<CostlyRun>(free_tokens_, in_accept_));
  }
  size_t bytes() const override { return 0; }

 private:
  int free_tokens_;
  bool in_accept_;
};

class CostlyGrammar : public ::testing::TestWithParam<bool> {};

// ENGINE-8 One constrained request stopped generation for everyone; now it alone ends, as a fault of the request.
TEST_P(CostlyGrammar, EndsItsRequestAndNoOther) {
  auto vocabulary = testing::toy_vocabulary();
  const auto vocab = static_cast<int32_t>(vocabulary->logits());
  auto engine = Engine::start(std::make_unique<ScriptedStepRunner>(vocab, 4096), {.context_tokens = 256}).value();
  auto script = std::make_shared<ScriptedAnswer>();
  for (int32_t i = 0; i < 40; ++i) script->steps.push_back({'a', ""});
  script->end_token = vocabulary->end_ids()[0];
  script->step_ns = 1'000'000;
  Request free;
  free.prompt = {1, 2, 3};
  free.max_tokens = 100;
  free.end_tokens = {script->end_token};
  free.script = script;
  Request costly = free;
  costly.grammar = std::make_shared<CompiledGrammar>(vocabulary, std::make_shared<CostlyAutomaton>(4, GetParam()),
                                                     std::vector<int32_t>{});
  auto free_sink = std::make_shared<GatheringSink>(), costly_sink = std::make_shared<GatheringSink>();
  ASSERT_TRUE(engine->submit(free, free_sink).ok());
  ASSERT_TRUE(engine->submit(costly, costly_sink).ok());
  ASSERT_TRUE(free_sink->wait_end() && costly_sink->wait_end());
  ASSERT_TRUE(costly_sink->failed());
  EXPECT_EQ(costly_sink->failed()->code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(costly_sink->failed()->where, kGrammarPlace);
  EXPECT_THAT(costly_sink->failed()->message, ::testing::HasSubstr("more than 5 steps"));
  EXPECT_EQ(costly_sink->tokens().size(), 4U);
  ASSERT_TRUE(free_sink->finished());
  EXPECT_EQ(free_sink->tokens().size(), 40U);
  EXPECT_LE(engine->stats().steps, 40 + 4) << "the other request lost steps";
}

INSTANTIATE_TEST_SUITE_P(InTheMaskOrInTheToken, CostlyGrammar, ::testing::Bool());

}  // namespace
}  // namespace vernier
