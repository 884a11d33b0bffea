#include <gtest/gtest.h>

#include <regex>

#include "engine/decoder_step_runner.h"
#include "engine/engine.h"
#include "grammar/grammar_compiler.h"
#include "testing/backends.h"
#include "testing/gathering_sink.h"
#include "testing/golden_model.h"

namespace vernier {
namespace {

using testing::GatheringSink;

constexpr int32_t kVocab = 320;
constexpr int32_t kEnd = 300;

/// Each byte is a token; the other ids are none.
std::shared_ptr<const GrammarVocabulary> bytes_vocabulary() {
  GrammarVocabularyParts parts;
  parts.token_bytes.resize(kVocab);
  for (int byte = 0; byte < 256; ++byte) parts.token_bytes[static_cast<size_t>(byte)] = static_cast<char>(byte);
  parts.token_bytes[kEnd] = "<end>";
  parts.end_ids = {kEnd};
  parts.logits = kVocab;
  return GrammarVocabulary::make(std::move(parts)).value();
}

std::vector<SamplingParams> hostile_settings() {
  std::vector<SamplingParams> all(8);
  all[0].temperature = 0;
  all[1].logit_bias = {{'x', 100.0F}, {'a', -100.0F}};
  all[1].temperature = 0;
  all[2].repetition_penalty = 10;
  all[3].frequency_penalty = 2;
  all[3].presence_penalty = -2;
  all[4].top_k = 1;
  all[4].logit_bias = {{'x', 100.0F}};
  all[5].temperature = 2;
  all[5].min_p = 0.5F;
  all[6].top_p = 1e-6F;
  all[6].dialect = SamplerDialect::kSglang;
  all[7].banned_sequences = {{'a'}, {'b', 'b'}};
  all[7].dialect = SamplerDialect::kLlama;
  return all;
}

// behaviour 19.6: the mask is applied last; no setting of the sampler passes it, whatever else runs in the step.
TEST(ConstrainedAnswer, NoSettingOfTheSamplerPassesTheGrammar) {
  if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  auto backend = testing::BackendCase{"cpu_exact", Numerics::kExact, 2}.make().value();
  const Decoder decoder = testing::load_decoder(VERNIER_TEST_DATA "/models/llama", *backend).value();
  GrammarCompiler compiler(bytes_vocabulary());
  auto grammar = compiler.compile({.kind = GrammarSpec::Kind::kRegex, .text = "[abc]{5,7}-[0-9]{3}"}).value();
  auto engine =
      Engine::start(std::make_unique<DecoderStepRunner>(*backend, decoder, cache_specs(decoder.spec(), CodecId::kF32)),
                    {.context_tokens = 128})
          .value();
  std::vector<std::shared_ptr<GatheringSink>> sinks;
  for (const SamplingParams& settings : hostile_settings()) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      for (bool constrained : {true, false}) {  // a free neighbour in the same steps
        Request request;
        request.prompt = {1, 2, static_cast<int32_t>(seed) + 3};
        request.max_tokens = 20;
        request.min_tokens = seed == 2 ? 9 : 0;  // bans the end where the grammar may end
        request.end_tokens = {kEnd};
        request.sampling = settings;
        request.sampling.seed = seed;
        if (constrained) request.grammar = grammar;
        auto sink = std::make_shared<GatheringSink>();
        Result<RequestId> submitted = engine->submit(std::move(request), sink);
        ASSERT_TRUE(submitted.ok()) << submitted.error().to_string();
        if (constrained) sinks.push_back(std::move(sink));
      }
    }
  }
  const std::regex whole("[abc]{5,7}-[0-9]{3}");
  for (size_t i = 0; i < sinks.size(); ++i) {
    ASSERT_TRUE(sinks[i]->wait_end()) << i;
    ASSERT_FALSE(sinks[i]->failed()) << i << ": " << sinks[i]->failed()->to_string();
    std::string text;
    for (int32_t token : sinks[i]->tokens()) text += static_cast<char>(token);
    EXPECT_TRUE(std::regex_match(text, whole)) << i << ": " << text;
    EXPECT_EQ(sinks[i]->finished()->reason, FinishReason::kStop) << i;
  }
}

}  // namespace
}  // namespace vernier
