#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "backends/cpu/cpu_tactics.h"
#include "backends/cpu/linear_plan.h"
#include "engine/decoder_step_runner.h"
#include "engine/engine.h"
#include "testing/backends.h"
#include "testing/gathering_sink.h"
#include "testing/golden_model.h"
#include "tune/batch_bucket.h"
#include "tune/tactic_store.h"

// ENGINE-11: which tactics are known changes no bit of an answer, in either numerics.

namespace vernier {
namespace {

using testing::GatheringSink;

constexpr int kThreads = 2;
constexpr int32_t kAnswer = 12;

/// For every problem of the model a candidate at random: far more changes than measuring would make.
void invent_tactics(const Decoder& decoder, TacticStore& store, std::mt19937& random) {
  for (const DecoderPart& part : decoder.parts()) {
    if (part.matrix == nullptr) continue;
    const CpuMatrix& matrix = cpu_matrix(*part.matrix);
    for (const MatrixSegment* kind : linear_kinds(matrix)) {
      for (int bucket = 0; bucket < kBatchBuckets; ++bucket) {
        const int64_t rows = bucket_rows(bucket);
        const std::vector<LinearPlan> plans = linear_candidates(matrix, *kind, rows, kThreads);
        Tactic tactic;
        tactic.problem = linear_problem(matrix, *kind, rows);
        tactic.chosen = name_plan(plans[random() % plans.size()], matrix, *kind);
        tactic.device = store.scope().device;
        tactic.version = "invented";
        ASSERT_TRUE(store.commit(std::move(tactic)).ok());
      }
    }
  }
}

/// Every token with the bits of its probabilities, of prompts of many lengths in one engine.
std::vector<uint32_t> answers(Backend& backend, const Decoder& decoder) {
  auto runner = std::make_unique<DecoderStepRunner>(backend, decoder, cache_specs(decoder.spec(), CodecId::kF16));
  auto engine =
      Engine::start(std::move(runner), {.context_tokens = 128, .max_sequences = 6, .max_step_rows = 64}).value();
  std::vector<std::shared_ptr<GatheringSink>> sinks;
  const auto vocab = static_cast<int32_t>(decoder.spec().vocab);
  for (int i = 0; i < 9; ++i) {
    Request request;
    for (int t = 0; t < 3 + 8 * i; ++t) request.prompt.push_back((11 * t + 5 * i + 1) % vocab);
    request.max_tokens = kAnswer;
    request.sampling.temperature = 0;
    request.top_logprobs = 4;
    sinks.push_back(std::make_shared<GatheringSink>());
    EXPECT_TRUE(engine->submit(request, sinks.back()).ok());
  }
  std::vector<uint32_t> told;
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->wait_end());
    for (const SampledToken& token : sink->sampled()) {
      told.push_back(static_cast<uint32_t>(token.token));
      told.push_back(std::bit_cast<uint32_t>(token.logprob));
      for (const TokenLogprob& other : token.top) told.push_back(std::bit_cast<uint32_t>(other.logprob));
    }
  }
  return told;
}

class TacticsBits : public ::testing::TestWithParam<const char*> {};

TEST_P(TacticsBits, AnyTacticsAnyNumericsTheSameAnswers) {
  if (!testing::requested_backend().empty()) GTEST_SKIP() << "these tactics are the CPU's";
  for (Numerics numerics : {Numerics::kFast, Numerics::kExact}) {
    std::mt19937 random(7);
    const auto backend = testing::BackendCase{"cpu", numerics, kThreads}.make().value();
    const Decoder decoder =
        testing::load_decoder(std::string(VERNIER_TEST_DATA "/models/") + GetParam(), *backend).value();
    const std::vector<uint32_t> fixed = answers(*backend, decoder);
    EXPECT_GT(fixed.size(), 9U * kAnswer);
    for (const UntunedLaunches& one : backend->untuned()) EXPECT_GT(one.launches, 0) << one.shape;
    for (int round = 0; round < 3; ++round) {
      const auto store = std::make_shared<TacticStore>(cpu_tactic_scope(testing::requested_isa(), kThreads).value(),
                                                       TacticStoreOptions());
      invent_tactics(decoder, *store, random);
      const std::vector<UntunedLaunches> before = backend->untuned();
      ASSERT_TRUE(backend->use_tactics(store, {}).ok());
      EXPECT_EQ(answers(*backend, decoder), fixed) << "round " << round;
      const std::vector<UntunedLaunches> after = backend->untuned();
      for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i].launches, before[i].launches) << after[i].shape;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TacticsBits,
                         ::testing::Values("llama", "llama-tied", "gpt-oss-mxfp4", "llama-fp8-block",
                                           "llama-modelopt-nvfp4", "qwen3-moe"),
                         [](const auto& info) { return testing::test_name(info.param); });

}  // namespace
}  // namespace vernier
