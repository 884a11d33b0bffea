#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/decoder_step_runner.h"
#include "engine/engine.h"
#include "engine/sequence_runner.h"
#include "models/registry.h"
#include "testing/backends.h"
#include "testing/gathering_sink.h"
#include "testing/invented_binder.h"
#include "testing/step_driver.h"

// ENGINE-14, with ENGINE-6 and ENGINE-11: a token's row of an embedding that looks back hashes the tokens before it, so
// whatever takes a sequence apart (chunks, other sequences in the step, a cached prefix, preemption, rows that are
// taken back) must still know them. To the bit, on a model that is invented, as its numbers do not matter.

namespace vernier {
namespace {

using testing::GatheringSink;
using Tokens = std::vector<int32_t>;

constexpr int32_t kAnswer = 16;
constexpr int32_t kEnd = 2;  // after it the text before counts no more

nlohmann::json config() {
  return {{"model_type", "longcat_flash_ngram"},
          {"emb_neighbor_num", 4},
          {"emb_split_num", 2},
          {"eos_token_id", kEnd},
          {"expert_ffn_hidden_size", 24},
          {"ffn_hidden_size", 80},
          {"hidden_size", 48},
          {"kv_lora_rank", 24},
          {"max_position_embeddings", 256},
          {"moe_topk", 2},
          {"n_routed_experts", 3},
          {"ngram_vocab_size_ratio", 3},
          {"num_attention_heads", 2},
          {"num_layers", 1},
          {"q_lora_rank", 24},
          {"qk_nope_head_dim", 8},
          {"qk_rope_head_dim", 8},
          {"routed_scaling_factor", 1.5},
          {"v_head_dim", 12},
          {"vocab_size", 60},
          {"zero_expert_num", 2}};
}

class NgramHistory : public ::testing::Test {
 protected:
  NgramHistory() : backend_(testing::BackendCase{"cpu_exact", Numerics::kExact, 2}.make().value()) {
    Config tree(config(), "config.json");
    testing::InventedBinder binder(*backend_, 5);
    decoder_.emplace(Decoder::bind(read_decoder(tree).value(), binder).value());
  }

  std::unique_ptr<Engine> start(const EngineOptions& options) {
    auto runner =
        std::make_unique<DecoderStepRunner>(*backend_, *decoder_, cache_specs(decoder_->spec(), CodecId::kF32));
    return Engine::start(std::move(runner), options).value();
  }

  /// Prompts that begin alike in part, with end tokens in many places.
  static std::vector<Tokens> prompts() {
    std::vector<Tokens> all;
    for (int i = 0; i < 8; ++i) {
      Tokens prompt;
      for (int t = 0; t < 3 + 11 * i; ++t) {
        prompt.push_back((t + i) % 13 == 5 ? kEnd : (t < 20 ? 5 * t + 3 : 7 * t + i) % 60);
      }
      all.push_back(std::move(prompt));
    }
    return all;
  }

  static std::vector<std::shared_ptr<GatheringSink>> run(Engine& engine, const std::vector<Tokens>& asked) {
    std::vector<std::shared_ptr<GatheringSink>> sinks;
    for (const Tokens& prompt : asked) {
      Request request;
      request.prompt = prompt;
      request.max_tokens = kAnswer;
      request.sampling.temperature = 0;
      request.top_logprobs = 0;
      sinks.push_back(std::make_shared<GatheringSink>());
      EXPECT_TRUE(engine.submit(std::move(request), sinks.back()).ok());
    }
    for (const auto& sink : sinks) {
      EXPECT_TRUE(sink->wait_end());
      EXPECT_FALSE(sink->failed()) << sink->failed()->to_string();
    }
    return sinks;
  }

  /// Tokens and their log probabilities, to the bit.
  static void expect_same(const std::vector<std::shared_ptr<GatheringSink>>& found,
                          const std::vector<std::shared_ptr<GatheringSink>>& expected) {
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(found[i]->tokens(), expected[i]->tokens()) << "prompt " << i;
      for (size_t t = 0; t < expected[i]->sampled().size(); ++t) {
        EXPECT_EQ(found[i]->sampled()[t].logprob, expected[i]->sampled()[t].logprob) << i << " " << t;
      }
    }
  }

  /// Each alone, in one chunk, in an engine of its own.
  std::vector<std::shared_ptr<GatheringSink>> alone() {
    std::vector<std::shared_ptr<GatheringSink>> all;
    for (const Tokens& prompt : prompts()) {
      auto engine = start({.context_tokens = 128, .max_sequences = 1, .prefix_cache = false});
      all.push_back(run(*engine, {prompt}).front());
    }
    return all;
  }

  std::unique_ptr<Backend> backend_;
  std::optional<Decoder> decoder_;
};

TEST_F(NgramHistory, BatchedChunkedCachedPreempted) {
  const auto expected = alone();
  for (int32_t rows : {1, 2, 3, 5, 48}) {
    auto engine = start({.context_tokens = 128, .max_sequences = 8, .max_step_rows = rows, .block_tokens = 4});
    expect_same(run(*engine, prompts()), expected);
    const auto again = run(*engine, prompts());
    expect_same(again, expected);
    EXPECT_GT(again.back()->finished()->cached_tokens, 0);
  }
  // Every number of tokens may be cached: the first row of a step follows each of them.
  auto each = start({.context_tokens = 128, .max_sequences = 2, .block_tokens = 1});
  const Tokens longest = prompts().back();
  for (size_t cached = 1; cached < 24; ++cached) {
    each->flush_cache();
    const Tokens prefix(longest.begin(), longest.begin() + static_cast<std::ptrdiff_t>(cached));
    run(*each, {prefix});
    const auto found = run(*each, {longest});
    expect_same(found, {expected.back()});
    EXPECT_GE(found.front()->finished()->cached_tokens, static_cast<int32_t>(cached) - 1);
  }
  int64_t token_bytes = 0;
  for (const CacheSpec& layer : cache_specs(decoder_->spec(), CodecId::kF32)) token_bytes += layer.bytes_per_token();
  auto tight = start({.context_tokens = 128, .max_sequences = 8, .cache_bytes = 120 * token_bytes, .block_tokens = 4});
  // How many run at once depends on when the threads are given a processor.
  for (int round = 0; round < 50 && tight->stats().preemptions == 0; ++round) {
    tight->flush_cache();
    expect_same(run(*tight, prompts()), expected);
  }
  EXPECT_GT(tight->stats().preemptions, 0) << "this test needs a smaller cache";
}

// Rows that were computed and are taken back leave nothing behind, at every length and behind every prefix.
TEST_F(NgramHistory, RowsThatAreTakenBackAreForgotten) {
  const Tokens text = {5, 9, 2, 7, 7, 11, 30, 31, 32, 33, 2, 40};
  auto read = [&](testing::StepDriver& driver) {
    return driver.ops().read(decoder_->head(driver.ops(), decoder_->forward(driver.ops()))).value();
  };
  const std::vector<CacheSpec> caches = cache_specs(decoder_->spec(), CodecId::kF32);
  testing::StepDriver whole(*backend_, caches, {});
  whole.begin({text});
  const std::vector<float> expected = read(whole);
  const auto vocab = static_cast<size_t>(decoder_->spec().vocab);
  for (size_t kept = 1; kept < text.size(); ++kept) {
    for (size_t taken_back = 1; taken_back < 5; ++taken_back) {
      testing::StepDriver driver(*backend_, caches, {});
      const Tokens first(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(kept));
      Tokens drafted = first;
      for (size_t i = 0; i < taken_back; ++i) drafted.push_back(50 + static_cast<int32_t>(i));
      driver.begin({drafted});
      read(driver);
      driver.commit({first});
      driver.begin({Tokens(text.begin() + static_cast<std::ptrdiff_t>(kept), text.end())});
      const std::vector<float> found = read(driver);
      EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin() + static_cast<std::ptrdiff_t>(kept * vocab)))
          << kept << " kept, " << taken_back << " taken back";
    }
  }
}

// What the tests above would miss if nothing looked back: the token three before changes a row's embedding, the one
// four before and what stands before an end token do not.
TEST_F(NgramHistory, LooksBackAsFarAsItsLongestNgram) {
  testing::StepDriver driver(*backend_, cache_specs(decoder_->spec(), CodecId::kF32), {});
  auto embedding = [&](const Tokens& text) {
    driver.begin({text});
    std::vector<float> last(static_cast<size_t>(decoder_->spec().ngrams.size()));
    for (size_t i = 0; i < last.size(); ++i) {
      last[i] = static_cast<float>(ngram_row(decoder_->spec().ngrams[i], driver.view().histories[0]));
    }
    return last;
  };
  EXPECT_NE(embedding({10, 11, 12, 13, 14}), embedding({10, 21, 12, 13, 14}));
  EXPECT_EQ(embedding({10, 11, 12, 13, 14}), embedding({20, 11, 12, 13, 14}));
  EXPECT_EQ(embedding({10, 11, kEnd, 13, 14}), embedding({10, 21, kEnd, 13, 14}));
}

// The same through the runner of one sequence, which `logits`, `run` and `chat` use, and after a reset.
TEST_F(NgramHistory, OfOneSequence) {
  const Tokens text = prompts().back();
  auto logits = [&](int32_t chunk) {
    auto runner = SequenceRunner::make(*backend_, *decoder_,
                                       {.kv_type = CodecId::kF32, .context_tokens = 128, .chunk_rows = chunk});
    std::vector<float> all;
    EXPECT_TRUE((*runner)->feed(Tokens{50, 51, 52, 53}).ok());
    (*runner)->reset();
    EXPECT_TRUE((*runner)
                    ->feed_for_logits(
                        text, [&](std::span<const float> rows) { all.insert(all.end(), rows.begin(), rows.end()); })
                    .ok());
    return all;
  };
  const std::vector<float> whole = logits(128);
  for (int32_t chunk : {1, 2, 3, 7}) EXPECT_EQ(logits(chunk), whole) << chunk;
}

}  // namespace
}  // namespace vernier
