#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

#include "base/random.h"
#include "engine/decoder_step_runner.h"
#include "engine/engine.h"
#include "quantising_backend.h"
#include "testing/backends.h"
#include "testing/gathering_sink.h"
#include "testing/golden_model.h"

// ENGINE-11: what a request is answered, log probabilities to the bit, depends on the request alone: not on what else
// runs, on chunks, preemption, what is cached, or the number of threads. Under fast numerics, where rows are rounded.

namespace vernier {
namespace {

using testing::GatheringSink;

constexpr int kRounds = 100;
constexpr int32_t kAnswer = 20;

struct Kind {
  const char* name;
  const char* model;
  std::optional<CodecId> weights;  ///< none: as the checkpoint has them
  CodecId kv_type = CodecId::kF16;
  FreshRows fresh = FreshRows::kStored;
};

/// Scales that are no powers of two, and differ from layer to layer.
std::vector<CacheSpec> caches_of(const Decoder& decoder, const Kind& kind) {
  std::vector<CacheSpec> caches = cache_specs(decoder.spec(), kind.kv_type);
  for (CacheSpec& cache : caches) {
    cache.fresh = kind.fresh;
    if (!has_cache_scale(kind.kv_type)) continue;
    cache.k_scale = 0.03f * static_cast<float>(1 + cache.layer);
    cache.v_scale = 0.07f / static_cast<float>(1 + cache.layer);
  }
  return caches;
}

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

struct Model {
  std::unique_ptr<Backend> backend;
  std::optional<Decoder> decoder;
};

Model load(const Kind& kind, int threads) {
  Model model;
  model.backend = testing::BackendCase{"cpu_fast", Numerics::kFast, threads, true}.make().value();
  if (kind.weights) {
    model.backend = std::make_unique<testing::QuantisingBackend>(std::move(model.backend), *kind.weights);
  }
  model.decoder.emplace(
      testing::load_decoder(std::string(VERNIER_TEST_DATA "/models/") + kind.model, *model.backend).value());
  return model;
}

/// Everything that an answer says, as one number.
class AnswerHash {
 public:
  explicit AnswerHash(const GatheringSink& sink) {
    for (const SampledToken& token : sink.prompt()) add(token);
    for (const SampledToken& token : sink.sampled()) add(token);
    for (float number : sink.embedding()) add(std::bit_cast<uint32_t>(number));
  }
  uint64_t value() const { return value_; }

 private:
  void add(uint64_t part) { value_ = fmix64(value_ ^ part) + 0x9e3779b97f4a7c15ULL; }
  void add(const SampledToken& token) {
    add(static_cast<uint32_t>(token.token));
    add(std::bit_cast<uint32_t>(token.logprob));
    for (const TokenLogprob& other : token.top) {
      add(static_cast<uint32_t>(other.token));
      add(std::bit_cast<uint32_t>(other.logprob));
    }
  }
  uint64_t value_ = 1;
};

/// Prompts of many lengths, most of which begin alike; greedy and sampled, some scored, some embedded.
std::vector<Request> requests(int32_t vocab) {
  std::vector<Request> all;
  for (int i = 0; i < 12; ++i) {
    Request request;
    const int length[] = {1, 2, 17, 18, 19, 20, 33, 49, 64, 70, 97, 130};
    for (int t = 0; t < length[i]; ++t) request.prompt.push_back((t < 60 ? 5 * t + 3 : 7 * t + i) % vocab);
    request.max_tokens = kAnswer;
    request.sampling.temperature = i % 3 == 0 ? 0.9f : 0;
    request.sampling.seed = 11;
    request.top_logprobs = i % 4;
    if (i == 5) request.prompt_logprobs = 1;
    if (i == 8) request.kind = RequestKind::kEmbedMean;
    if (i == 9) request.kind = RequestKind::kEmbedLast;
    all.push_back(std::move(request));
  }
  return all;
}

std::vector<std::shared_ptr<GatheringSink>> run(Engine& engine, const std::vector<Request>& asked) {
  std::vector<std::shared_ptr<GatheringSink>> sinks;
  for (const Request& request : asked) {
    sinks.push_back(std::make_shared<GatheringSink>());
    EXPECT_TRUE(engine.submit(request, sinks.back()).ok());
  }
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->wait_end());
    EXPECT_FALSE(sink->failed()) << sink->failed()->to_string();
  }
  return sinks;
}

class SameBits : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    for (int threads : {1, 2, 3}) models_.push_back(load(GetParam(), threads));
    asked_ = requests(static_cast<int32_t>(models_[0].decoder->spec().vocab));
    for (const Request& request : asked_) {
      auto engine = start(models_[0], {.context_tokens = 192, .max_sequences = 1, .prefix_cache = false});
      alone_.push_back(AnswerHash(*run(*engine, {request}).front()).value());
    }
    for (const CacheSpec& layer : caches_of(*models_[0].decoder, GetParam())) {
      token_bytes_ += layer.bytes_per_token();
    }
  }

  std::unique_ptr<Engine> start(Model& model, const EngineOptions& options) {
    auto runner =
        std::make_unique<DecoderStepRunner>(*model.backend, *model.decoder, caches_of(*model.decoder, GetParam()));
    return Engine::start(std::move(runner), options).value();
  }

  std::vector<Model> models_;
  std::vector<Request> asked_;
  std::vector<uint64_t> alone_;
  int64_t token_bytes_ = 0;
};

TEST_P(SameBits, InRandomBatches) {
  std::mt19937 random(5);
  auto pick = [&](std::initializer_list<int> values) {
    return values.begin()[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random)];
  };
  int64_t hits = 0, preemptions = 0;
  for (int round = 0; round < kRounds; ++round) {
    EngineOptions options;
    options.context_tokens = 192;
    options.max_sequences = pick({1, 2, 3, 5, 9, 12});
    options.max_step_rows = pick({12, 16, 21, 64, 512});
    options.block_tokens = pick({1, 4, 16, 32});
    options.prefix_cache = pick({0, 1, 1}) == 1;
    options.decode_gap_ns = pick({100'000, 150'000'000});
    if (pick({0, 1, 1}) == 1) options.cache_bytes = 300 * token_bytes_;
    auto engine = start(models_[static_cast<size_t>(round) % models_.size()], options);
    for (int again = pick({1, 2}); again > 0; --again) {
      std::vector<size_t> order(asked_.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::shuffle(order, random);
      std::vector<Request> shuffled;
      for (size_t i : order) shuffled.push_back(asked_[i]);
      const auto sinks = run(*engine, shuffled);
      for (size_t i = 0; i < order.size(); ++i) {
        ASSERT_EQ(AnswerHash(*sinks[i]).value(), alone_[order[i]])
            << "round " << round << ", request " << order[i] << ": " << options.max_sequences << " at once, steps of "
            << options.max_step_rows << ", blocks of " << options.block_tokens << ", "
            << sinks[i]->finished()->cached_tokens << " cached, " << sinks[i]->finished()->preemptions << " preempted";
        hits += sinks[i]->finished()->cached_tokens;
        preemptions += sinks[i]->finished()->preemptions;
      }
    }
  }
  EXPECT_GT(hits, 1000);
  EXPECT_GT(preemptions, 10) << "this test needs a smaller cache";
}

/// A prompt that holds an earlier answer reads the keys and values which that answer left.
TEST_P(SameBits, BehindAnEarlierAnswer) {
  auto engine = start(models_[1], {.context_tokens = 192, .max_sequences = 4, .block_tokens = 4});
  const auto first = run(*engine, {asked_[4], asked_[7]});
  std::vector<Request> next{asked_[4], asked_[7]};
  for (size_t i = 0; i < next.size(); ++i) {
    for (int32_t token : first[i]->tokens()) next[i].prompt.push_back(token);
    next[i].prompt.push_back(3);
  }
  const auto behind = run(*engine, next);
  for (Request& request : next) request.reuse_prefix = false;
  const auto whole = run(*engine, next);
  for (size_t i = 0; i < next.size(); ++i) {
    EXPECT_GT(behind[i]->finished()->cached_tokens, static_cast<int32_t>(asked_[i == 0 ? 4 : 7].prompt.size()));
    EXPECT_EQ(whole[i]->finished()->cached_tokens, 0);
    EXPECT_EQ(AnswerHash(*behind[i]).value(), AnswerHash(*whole[i]).value()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, SameBits,
    ::testing::Values(Kind{"llama_bf16", "llama", {}}, Kind{"llama_q4_1", "llama", CodecId::kQ4_1},
                      Kind{"gemma3_q8_0", "gemma3", CodecId::kQ8_0},
                      Kind{"mistral_bf16", "mistral", {}, CodecId::kBF16},
                      Kind{"gpt_oss_fp8_cache", "gpt-oss", {}, CodecId::kE4M3Tensor},
                      Kind{"gemma3_fp8_cache_in_two_parts", "gemma3", {}, CodecId::kE4M3Tensor, FreshRows::kRoundTrip}),
    ::testing::PrintToStringParamName());

}  // namespace
}  // namespace vernier
