#include <gtest/gtest.h>

#include <limits>

#include "ops/tolerance.h"
#include "testing/cuda_case.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::OpBench;
using testing::random_numbers;
using testing::relative_error;

/// What a step's launches become: parts of a product, graphs, and tokens found on the device.
class CudaSteps : public testing::CudaCase {};

std::vector<std::vector<int32_t>> one_sequence(int32_t rows) {
  std::vector<std::vector<int32_t>> step(1);
  for (int32_t i = 0; i < rows; ++i) step[0].push_back(i);
  return step;
}

/// norm, product and gate as a feed-forward part has them, of rows that are the first of one table.
std::vector<float> normed_gated(Backend& backend, CodecId id, int64_t cols, int64_t half, int32_t rows) {
  std::mt19937 random(6);
  OpBench bench(backend);
  bench.set_inputs(20, cols, random_numbers(random, 20 * cols, 1.3f, 0.2f));
  auto part = [&](float spread) {
    return encode(codec(id), half, cols, random_numbers(random, half * cols, spread, 0.01f)).value();
  };
  const auto weight = bench.weight<Split::kColumns>({part(0.03f), part(0.05f)}, random_numbers(random, 2 * half, 0.4f));
  const auto down = bench.weight<Split::kRows>({testing::dense(40, half, random_numbers(random, 40 * half, 0.1f))});
  const Norm norm{"norm", bench.vector(random_numbers(random, cols, 0.3f, 1.1f)), 1e-5f};
  bench.driver().begin(one_sequence(rows));
  const Value x = bench.input();
  const Value normed = bench.ops().rms_norm(x, norm);
  const Shard both = bench.ops().linear(normed, weight);
  return bench.read(bench.ops().reduce(bench.ops().linear(bench.ops().gate(both, GateSpec{Act::kSilu}), down)));
}

// CUDA-3, CUDA-5: what is a part of a product has the bits of a launch of its own. Widths that fit beside a product for
// one row alone, and for none.
TEST_F(CudaSteps, NormsAndGatesInsideAProduct) {
  for (CodecId id : {CodecId::kBF16, CodecId::kQ8_0, CodecId::kE4M3Channel}) {
    for (int64_t cols : {64, 576, 2080, 13024}) {
      for (int64_t half : {5, 36}) {
        if (cols > 1000 && half > 5) continue;
        std::vector<float> alone;
        for (int32_t rows : {1, 3, 8, 9, 20}) {
          const std::vector<float> found = normed_gated(backend(), id, cols, half, rows);
          if (rows == 1) alone = found;
          EXPECT_LE(relative_error(found, normed_gated(reference(), id, cols, half, rows)), 1e-5)
              << rows << " rows of " << cols << " into " << half;
          EXPECT_EQ(std::vector<float>(found.begin(), found.begin() + 40), alone) << rows << " rows of " << cols;
        }
      }
    }
  }
}

// A normed row that several ops take in, one of which is no product; and a residual that a pending norm still needs.
TEST_F(CudaSteps, PendingNormsOutliveWhatTheyAreAddedTo) {
  auto run = [](Backend& backend) {
    std::mt19937 random(16);
    OpBench bench(backend);
    bench.set_inputs(4, 96, random_numbers(random, 4 * 96, 1.3f, 0.2f));
    const auto square = bench.weight<Split::kRows>({testing::dense(96, 96, random_numbers(random, 96 * 96, 0.1f))});
    const auto to_shard =
        bench.weight<Split::kColumns>({testing::dense(96, 96, random_numbers(random, 96 * 96, 0.1f))});
    const Norm norm{"norm", bench.vector(random_numbers(random, 96, 0.3f, 1.1f)), 1e-5f};
    bench.driver().begin(one_sequence(4));
    Value x = bench.input();
    const Value normed = bench.ops().rms_norm(x, norm);
    Value y = bench.ops().reduce_add(bench.ops().linear(bench.ops().linear(normed, to_shard), square), std::move(x));
    const Value again = bench.ops().rms_norm(y, norm);
    y = bench.ops().add(bench.ops().rms_norm(normed, norm), std::move(y));
    Value z = bench.ops().reduce_add(bench.ops().linear(bench.ops().linear(again, to_shard), square), std::move(y));
    return bench.read(z);
  };
  EXPECT_LE(relative_error(run(backend()), run(reference())), 1e-5);
}

/// Steps of one kind that are launched in two manners by turns, so that graphs are made, met and given up.
std::vector<float> by_turns(Backend& backend, int32_t rows) {
  AttnLayer layer;
  layer.spec.heads = 6;
  layer.spec.kv_heads = 2;
  layer.spec.head_dim = 64;
  layer.spec.scale = 0.13f;
  layer.spec.rope = RopeSpec{10000, 64, RopePlain{}};
  CacheSpec cache;
  cache.kv_heads = 2;
  cache.head_dim = 64;
  cache.stored = CodecId::kE4M3Tensor;
  cache.k_scale = 0.03f;
  cache.v_scale = 0.07f;
  OpBench bench(backend, cache, {.block_tokens = 16, .context_tokens = 700, .max_rows = 600});
  std::mt19937 random(4);
  const int64_t cols = layer.spec.q_cols() + 2 * layer.spec.kv_cols();
  bench.set_inputs(700, cols, random_numbers(random, 700 * cols, 1.0f, 0.1f));
  std::vector<float> out;
  int32_t next = 0;
  for (int turn = 0; turn < 14; ++turn) {
    std::vector<std::vector<int32_t>> step(1);
    for (int32_t i = turn == 0 ? 250 : rows; i > 0; --i) step[0].push_back(next++);
    bench.driver().begin(step);
    AttnLayer now = layer;
    if (turn % 5 == 4) now.spec.soft_cap = 3;  // other arguments; and at other turns another op behind
    Shard mixed = bench.ops().attend(bench.input_shard(), now);
    if (turn % 4 == 3) mixed = bench.ops().activate(mixed, Act::kGelu);
    const std::vector<float> found = bench.read(std::move(mixed));
    out.insert(out.end(), found.begin(), found.end());
    bench.driver().commit(step);
  }
  return out;
}

// CUDA-8.
TEST_F(CudaSteps, DoWhatTheyAreToldWhateverTheLastOnesDid) {
  for (int32_t rows : {1, 2, 9}) {
    EXPECT_LE(relative_error(by_turns(backend(), rows), by_turns(reference(), rows)),
              attend_tolerance(CodecId::kE4M3Tensor, Numerics::kExact))
        << rows;
  }
}

/// Tokens of rows of logits, or -1 where a row has none.
std::vector<int32_t> largest(Backend& backend, const std::vector<float>& logits, int32_t rows) {
  OpBench bench(backend);
  bench.set_inputs(rows, static_cast<int64_t>(logits.size()) / rows, logits);
  std::vector<int32_t> tokens;
  for (int again = 0; again < 3; ++again) {
    bench.driver().begin(one_sequence(rows));
    const std::vector<SampleSpec> specs(static_cast<size_t>(rows), SampleSpec{.temperature = 0});
    const SampledRows sampled = bench.ops().sample(bench.input(), specs).value();
    for (const auto& token : sampled) tokens.push_back(token.ok() ? token->token : -1);
  }
  return tokens;
}

// OPS-8 for the largest logit: ties to the lowest id, zeros of either sign tie, and no token where there is none.
TEST_F(CudaSteps, LargestLogits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(2);
  for (int32_t cols : {1, 33, 4096, 10001}) {
    std::vector<float> logits = random_numbers(random, 6 * cols, 2.0f, -9);
    auto row = [&](int at) {
      return std::span(logits).subspan(static_cast<size_t>(at * cols), static_cast<size_t>(cols));
    };
    row(1)[static_cast<size_t>(cols / 2)] = row(1)[static_cast<size_t>(cols - 1)] = 5;
    row(2)[static_cast<size_t>(cols - 1)] = 0.0f;
    row(2)[static_cast<size_t>(cols / 3)] = -0.0f;
    std::ranges::fill(row(3), -3.5f);
    EXPECT_EQ(largest(backend(), logits, 6), largest(reference(), logits, 6)) << cols;
    row(4)[static_cast<size_t>(cols / 2)] = std::numeric_limits<float>::quiet_NaN();
    std::ranges::fill(row(5), -kInfinity);
    row(0)[0] = kInfinity;
    const std::vector<int32_t> found = largest(backend(), logits, 6);
    EXPECT_EQ(found, largest(reference(), logits, 6)) << cols;
    EXPECT_EQ(found[4], -1);
    EXPECT_EQ(found[5], -1);
  }
}

}  // namespace
}  // namespace vernier
