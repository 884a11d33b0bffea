#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "base/random.h"
#include "engine/sequence_runner.h"
#include "testing/backends.h"
#include "testing/golden_model.h"

// CPU-13, from the outside: the logits of a prompt are the same to the bit however it is cut into steps. Models with
// windows, sinks, experts and latent attention, weights in narrow formats, caches of 16 and 8 bits.

namespace vernier {
namespace {

constexpr int kSplits = 1000;
constexpr int32_t kTokens = 48;

struct Kind {
  const char* model;
  CodecId kv_type = CodecId::kF16;
  FreshRows fresh = FreshRows::kStored;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.model;
}

class RandomSplits : public ::testing::TestWithParam<Kind> {};

TEST_P(RandomSplits, GiveTheSameLogits) {
  auto backend = testing::BackendCase{"cpu_fast", Numerics::kFast, 2, true}.make().value();
  const Decoder decoder =
      testing::load_decoder(std::string(VERNIER_TEST_DATA "/models/") + GetParam().model, *backend).value();
  RunnerOptions options{.context_tokens = kTokens, .chunk_rows = kTokens, .block_tokens = 4};
  options.caches = cache_specs(decoder.spec(), GetParam().kv_type);
  for (CacheSpec& cache : options.caches) {
    cache.fresh = GetParam().fresh;
    if (!has_cache_scale(cache.stored)) continue;
    cache.k_scale = 0.03f * static_cast<float>(1 + cache.layer);
    cache.v_scale = 0.07f / static_cast<float>(1 + cache.layer);
  }
  auto runner = SequenceRunner::make(*backend, decoder, options).value();
  std::vector<int32_t> prompt(kTokens);
  for (int32_t t = 0; t < kTokens; ++t)
    prompt[static_cast<size_t>(t)] = (7 * t + 3) % static_cast<int32_t>(decoder.spec().vocab);

  uint64_t hash = 0;
  auto feed = [&](size_t begin, size_t end) {
    const Status fed = runner->feed_for_logits(std::span(prompt).subspan(begin, end - begin), [&](auto rows) {
      for (float number : rows) hash = fmix64(hash ^ std::bit_cast<uint32_t>(number)) + 1;
    });
    ASSERT_TRUE(fed.ok()) << fed.error().to_string();
  };
  feed(0, prompt.size());
  const uint64_t whole = hash;
  std::mt19937 random(3);
  for (int split = 0; split < kSplits; ++split) {
    runner->reset();
    hash = 0;
    std::string cuts;
    // Few long pieces in some splits, many short ones in others.
    const size_t longest = std::uniform_int_distribution<size_t>(1, prompt.size())(random);
    for (size_t at = 0; at < prompt.size();) {
      const size_t length = std::uniform_int_distribution<size_t>(1, std::min(longest, prompt.size() - at))(random);
      feed(at, at + length);
      at += length;
      cuts += " " + std::to_string(length);
    }
    ASSERT_EQ(hash, whole) << "split " << split << ":" << cuts;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RandomSplits,
                         ::testing::Values(Kind{"gpt-oss-mxfp4", CodecId::kE4M3Tensor},
                                           Kind{"gemma3", CodecId::kE4M3Tensor, FreshRows::kRoundTrip},
                                           Kind{"deepseek-v3-fp8-block"}, Kind{"qwen2-ct-nvfp4", CodecId::kBF16}),
                         [](const auto& info) {
                           std::string name = info.param.model;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace vernier
