#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "ops/tolerance.h"
#include "testing/backends.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::BackendCase;
using testing::OpBench;
using testing::random_numbers;
using testing::relative_error;

class SmallOpsDiff : public ::testing::TestWithParam<BackendCase> {
 protected:
  /// Runs the same on the reference and on the backend, over `rows` rows of `cols` random numbers.
  void compare(int64_t rows, int64_t cols, double limit, const std::function<std::vector<float>(OpBench&)>& run) {
    auto backend = GetParam().make();
    ASSERT_TRUE(backend.ok()) << backend.error().to_string();
    auto result = [&](Backend& of) {
      std::mt19937 random(3);
      OpBench bench(of);
      bench.set_inputs(rows, cols, random_numbers(random, rows * cols, 2.0f, 0.3f));
      std::vector<std::vector<int32_t>> step(1);
      for (int64_t row = rows; row-- > 0;) step[0].push_back(static_cast<int32_t>(row));
      bench.driver().begin(step);
      return run(bench);
    };
    RefBackend reference;
    EXPECT_LE(relative_error(result(**backend), result(reference)), limit) << rows << " x " << cols;
  }
};

TEST_P(SmallOpsDiff, RmsNorm) {
  for (int64_t cols : {1, 7, 64, 576}) {
    compare(5, cols, kNormTolerance, [&](OpBench& bench) {
      std::mt19937 random(5);
      Norm norm{"norm", bench.vector(random_numbers(random, cols, 0.4f, 1.2f)), 0.02f};
      Value x = bench.input();
      return bench.read(bench.ops().rms_norm(x, norm));
    });
  }
}

// The mean is far from zero: a variance from sums of squares alone would lose it.
TEST_P(SmallOpsDiff, LayerNorm) {
  for (int64_t cols : {2, 7, 64, 384}) {
    compare(5, cols, kNormTolerance, [&](OpBench& bench) {
      std::mt19937 random(5);
      LayerNorm norm{"norm", bench.vector(random_numbers(random, cols, 0.4f, 1.2f)),
                     bench.vector(random_numbers(random, cols, 0.3f, -0.2f)), 0.02f};
      Value x = bench.input();
      return bench.read(bench.ops().layer_norm(x, norm));
    });
  }
}

// Both tails: what is left of a negative number is small, and is right to its own size.
TEST_P(SmallOpsDiff, Activate) {
  for (Act act : {Act::kSilu, Act::kGeluTanh, Act::kGelu}) {
    for (int64_t cols : {1, 13, 160}) {
      compare(3, cols, kNormTolerance,
              [&](OpBench& bench) { return bench.read(bench.ops().activate(bench.input_shard(), act)); });
    }
  }
}

TEST_P(SmallOpsDiff, LooksUpByPositionAndTheFirstRow) {
  for (LookUp by : {LookUp::kPosition, LookUp::kFirst}) {
    compare(6, 24, kSumTolerance, [&](OpBench& bench) {
      std::mt19937 random(9);
      const std::vector<float> rows = random_numbers(random, int64_t{9} * 24, 1.0f, 0.2f);
      auto table = bench.weight<Split::kNone>({testing::dense(9, 24, rows)}, {}, PackUse::kEmbedding);
      return bench.read(bench.ops().look_up(table, by));
    });
  }
}

TEST_P(SmallOpsDiff, EmbedsNgrams) {
  for (int order : {2, 4}) {
    compare(6, 24, kSumTolerance, [&](OpBench& bench) {
      std::mt19937 random(9);
      auto table = bench.weight<Split::kNone>(
          {testing::dense(9, 24, random_numbers(random, int64_t{9} * 24, 1.0f, 0.2f))}, {}, PackUse::kEmbedding);
      return bench.read(bench.ops().embed_ngrams(table, {order, 9, 320, 2}, 0.3f));
    });
  }
}

TEST_P(SmallOpsDiff, Gate) {
  for (Act act : {Act::kSilu, Act::kGeluTanh, Act::kGelu}) {
    for (int64_t half : {1, 12, 160}) {
      compare(3, 2 * half, kNormTolerance,
              [&](OpBench& bench) { return bench.read(bench.ops().gate(bench.input_shard(), GateSpec{act})); });
    }
  }
}

// Both sides of every limit are met: numbers are 2 wide.
TEST_P(SmallOpsDiff, GateBetweenLimits) {
  for (const GateSpec& spec : {GateSpec{Act::kSilu, 1.5f, 1.702f, 1}, GateSpec{Act::kSilu, 0.8f},
                               GateSpec{Act::kSilu, 0, 1.3f}, GateSpec{Act::kSilu, 0, 1, 0.6f}}) {
    for (int64_t half : {1, 13, 96}) {
      compare(5, 2 * half, kNormTolerance,
              [&](OpBench& bench) { return bench.read(bench.ops().gate(bench.input_shard(), spec)); });
    }
  }
}

TEST_P(SmallOpsDiff, AddReduceAndCap) {
  compare(4, 40, kSumTolerance, [](OpBench& bench) {
    Value x = bench.input();
    Value y = bench.ops().add(bench.input(), std::move(x));
    return bench.read(y);
  });
  compare(4, 33, kSoftCapTolerance,
          [](OpBench& bench) { return bench.read(bench.ops().soft_cap(bench.input(), 1.7f)); });
}

TEST_P(SmallOpsDiff, EmbedsEachCodec) {
  for (CodecId id : {CodecId::kF32, CodecId::kF16, CodecId::kBF16, CodecId::kQ4_1, CodecId::kQ5_0, CodecId::kQ8_0,
                     CodecId::kQ4_K, CodecId::kQ6_K}) {
    for (PackUse use : {PackUse::kEmbedding, PackUse::kTiedEmbeddingHead}) {
      compare(9, 256, kEmbeddingTolerance, [&](OpBench& bench) {
        std::mt19937 random(5);
        QTensor table = encode(codec(id), 9, 256, random_numbers(random, 9 * 256, 0.7f, 0.1f)).value();
        return bench.read(bench.ops().embed(bench.weight<Split::kNone>({table}, {}, use), 1.3f));
      });
    }
  }
}

// OPS-8: equal specs over equal logits draw the same token on every backend.
TEST_P(SmallOpsDiff, SamplesTheSameTokens) {
  auto tokens = [](Backend& backend) {
    std::mt19937 random(9);
    OpBench bench(backend);
    bench.set_inputs(24, 300, random_numbers(random, 24 * 300, 2.0f));
    std::vector<std::vector<int32_t>> step(1);
    std::vector<SampleSpec> specs(24);
    for (int32_t row = 0; row < 24; ++row) {
      step[0].push_back(row);
      SampleSpec& spec = specs[static_cast<size_t>(row)];
      spec.seed = static_cast<uint64_t>(row) * 77;
      spec.temperature = row % 4 == 0 ? 0.0f : 0.9f;
      if (row % 4 == 2) spec.top_k = 20, spec.top_p = 0.8f;
      if (row % 4 == 3) spec.min_p = 0.05f;
    }
    bench.driver().begin(step);
    std::vector<int32_t> drawn;
    const SampledRows tokens = bench.ops().sample(bench.input(), specs).value();
    for (const auto& token : tokens) drawn.push_back(token->token);
    return drawn;
  };
  auto backend = GetParam().make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  RefBackend reference;
  EXPECT_EQ(tokens(**backend), tokens(reference));
}

/// One row's way to a token: every dialect, cut, mask and edit by turns. `words` holds the masks.
SampleSpec mixed_spec(int row, int64_t vocab, std::mt19937& random, std::vector<std::vector<uint32_t>>& words) {
  const auto below = [&](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  SampleSpec spec;
  spec.seed = random();
  spec.position = below(1000);
  spec.dialect = static_cast<SamplerDialect>(row % 4);
  spec.temperature = std::array{0.0f, 0.3f, 0.9f, 1.0f, 1.7f}[below(5)];
  if (below(2) == 0) spec.top_k = std::array{1, 20, 40, 700}[below(4)];
  if (below(2) == 0) spec.top_p = std::array{0.0f, 0.1f, 0.8f, 0.95f}[below(4)];
  if (below(3) == 0) spec.min_p = std::array{0.02f, 0.2f, 1.0f}[below(3)];
  if (row % 9 == 8) spec.typical_p = 0.7f;
  if (row % 11 == 10) spec.top_logprobs = 2;
  if (row % 13 == 12) spec.forced = 17;
  if (row % 7 == 6) spec.known_tokens = static_cast<int32_t>(vocab) - 40;
  const auto mask = [&]() -> std::span<const uint32_t> {
    std::vector<uint32_t>& made = words.emplace_back(static_cast<size_t>(vocab + 31) / 32);
    for (uint32_t& word : made) word = random() | (below(2) == 0 ? 0x20000U : 0U);
    made[0] |= 1U << 17;
    return made;
  };
  if (row % 5 == 3) spec.mask = mask();
  if (row % 5 == 4) spec.allowed = mask();
  for (uint32_t token = below(8); row % 3 == 2 && token < vocab; token += 1 + below(static_cast<uint32_t>(vocab) / 8)) {
    LogitEdit edit{static_cast<int32_t>(token), 0.7f * static_cast<float>(below(9)) - 3, 1.0f + 0.1f * (token % 4),
                   0.25f * (token % 3)};
    if (token % 6 == 5) edit.bias = -std::numeric_limits<float>::infinity();
    spec.edits.push_back(edit);
  }
  return spec;
}

// OPS-8 over wide rows: peaked and flat rows, ties, rows of nothing and rows with a NaN.
TEST_P(SmallOpsDiff, DrawsTheSameTokensWhateverCutsThem) {
  constexpr int kRows = 60;
  auto tokens = [](Backend& backend, int64_t vocab) {
    std::mt19937 random(21);
    std::vector<float> logits = random_numbers(random, kRows * vocab, 3.0f);
    for (int64_t i = 0; i < kRows * vocab; ++i) {
      float& logit = logits[static_cast<size_t>(i)];
      const int64_t row = i / vocab, token = i % vocab;
      if (row % 6 == 1) logit = std::nearbyint(2 * logit) / 2;  // ties
      if (row % 6 == 2) logit *= 0.01f;                         // more than are put in order
      if (row % 6 == 3 && token % 50 != 0) logit -= 30;
      if (row == 57) logit = -std::numeric_limits<float>::infinity();
      if (row == 58 && token == vocab / 2) logit = std::numeric_limits<float>::quiet_NaN();
      if (row == 59 && token == 3) logit = std::numeric_limits<float>::infinity();
    }
    OpBench bench(backend);
    bench.set_inputs(kRows, vocab, logits);
    std::vector<std::vector<uint32_t>> words;
    words.reserve(2 * kRows);
    std::vector<SampleSpec> specs;
    std::vector<std::vector<int32_t>> step(1);
    for (int32_t row = 0; row < kRows; ++row) {
      step[0].push_back(row);
      specs.push_back(mixed_spec(row, vocab, random, words));
    }
    bench.driver().begin(step);
    std::vector<std::string> drawn;
    const SampledRows rows = bench.ops().sample(bench.input(), specs).value();
    for (const auto& token : rows)
      drawn.push_back(token.ok() ? std::to_string(token->token) : token.error().to_string());
    return drawn;
  };
  auto backend = GetParam().make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  RefBackend reference;
  for (const int64_t vocab : {320, 9001}) {
    const std::vector<std::string> ours = tokens(**backend, vocab), wanted = tokens(reference, vocab);
    for (size_t row = 0; row < wanted.size(); ++row) EXPECT_EQ(ours[row], wanted[row]) << vocab << ", row " << row;
  }
}

// G17, on the ways that take the largest logit alone, too.
TEST_P(SmallOpsDiff, DrawsNoTokenThatTheTokenizerDoesNotKnow) {
  for (const float unknown : {50.0F, std::numeric_limits<float>::quiet_NaN()}) {
    for (const bool greedy : {true, false}) {
      auto tokens = [&](Backend& backend) {
        std::mt19937 random(9);
        std::vector<float> logits = random_numbers(random, 8 * 320, 2.0f);
        for (size_t i = 0; i < logits.size(); ++i) logits[i] = i % 320 < 300 ? logits[i] : unknown;
        OpBench bench(backend);
        bench.set_inputs(8, 320, logits);
        bench.driver().begin({{0, 1, 2, 3, 4, 5, 6, 7}});
        std::vector<SampleSpec> specs(8);
        for (SampleSpec& spec : specs) {
          spec.known_tokens = 300;
          spec.temperature = greedy ? 0.0f : 0.9f;
          spec.seed = static_cast<uint64_t>(&spec - specs.data());
        }
        std::vector<int32_t> drawn;
        const SampledRows rows = bench.ops().sample(bench.input(), specs).value();
        for (const auto& token : rows) drawn.push_back(token.value().token);
        return drawn;
      };
      auto backend = GetParam().make();
      ASSERT_TRUE(backend.ok()) << backend.error().to_string();
      RefBackend reference;
      const std::vector<int32_t> drawn = tokens(**backend);
      EXPECT_EQ(drawn, tokens(reference));
      EXPECT_LT(*std::ranges::max_element(drawn), 300);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SmallOpsDiff, ::testing::ValuesIn(testing::backend_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace vernier
