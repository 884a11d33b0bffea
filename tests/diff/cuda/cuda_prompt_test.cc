#include <gtest/gtest.h>

#include <algorithm>

#include "ops/tolerance.h"
#include "testing/cuda_case.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::BackendCase;
using testing::OpBench;
using testing::random_numbers;
using testing::relative_error;

/// Attention of many rows of a sequence by products of warp groups, which fast numerics choose.
class CudaPrompt : public testing::CudaCase {
 protected:
  CudaPrompt() : CudaCase(Numerics::kFast) {}
};

using Steps = std::vector<std::vector<int32_t>>;  // rows of each sequence

struct PromptCase {
  int heads, kv_heads, head_dim;
  CodecId stored;
  int32_t block_tokens;
  Steps steps;
  std::optional<int> window = {};
  float soft_cap = 0;
  bool sinks = false;
};

/// The answer of each sequence, in order of its rows.
std::vector<std::vector<float>> attend(Backend& backend, const PromptCase& of) {
  AttnLayer layer;
  AttnSpec& spec = layer.spec;
  spec.heads = of.heads;
  spec.kv_heads = of.kv_heads;
  spec.head_dim = of.head_dim;
  spec.window = of.window;
  spec.soft_cap = of.soft_cap;
  spec.sinks = of.sinks;
  spec.scale = 0.9f / std::sqrt(static_cast<float>(of.head_dim));
  spec.rope = RopeSpec{5000, of.head_dim, RopePlain{}};
  CacheSpec cache;
  cache.kv_heads = of.kv_heads;
  cache.head_dim = of.head_dim;
  cache.window = of.window;
  cache.stored = of.stored;
  if (has_cache_scale(of.stored)) cache.k_scale = 0.03f, cache.v_scale = 0.07f;
  const size_t sequences = of.steps.front().size();
  std::vector<int32_t> all(sequences, 0), next(sequences, 0);
  int32_t longest = 0, most_rows = 0;
  for (const std::vector<int32_t>& counts : of.steps) {
    int32_t rows = 0;
    for (size_t s = 0; s < sequences; ++s) longest = std::max(longest, all[s] += counts[s]), rows += counts[s];
    most_rows = std::max(most_rows, rows);
  }
  OpBench bench(
      backend, cache,
      {.block_tokens = of.block_tokens, .sequences = sequences, .context_tokens = longest, .max_rows = most_rows});
  std::mt19937 random(5);
  if (of.sinks) layer.sinks = bench.vector(random_numbers(random, of.heads, 1.5f, 1));
  const int64_t cols = spec.q_cols() + 2 * spec.kv_cols(), inputs = static_cast<int64_t>(sequences) * longest;
  bench.set_inputs(inputs, cols, random_numbers(random, inputs * cols, 1.2f, 0.1f));
  std::vector<std::vector<float>> out(sequences);
  for (const std::vector<int32_t>& counts : of.steps) {
    std::vector<std::vector<int32_t>> step(sequences);
    for (size_t s = 0; s < sequences; ++s) {
      for (int32_t i = 0; i < counts[s]; ++i) step[s].push_back(static_cast<int32_t>(s) * longest + next[s]++);
    }
    bench.driver().begin(step);
    const std::vector<float> found = bench.read(bench.ops().attend(bench.input_shard(), layer));
    auto at = found.begin();
    for (size_t s = 0; s < sequences; ++s) {
      out[s].insert(out[s].end(), at, at + counts[s] * spec.q_cols());
      at += counts[s] * spec.q_cols();
    }
    bench.driver().commit(step);
  }
  return out;
}

// OPS-4, OPS-7, CUDA-3: every width and stored type; prompts, chunks behind a prefix, beside other prompts and beside
// single rows, past a window, with blocks that tiles of keys do and do not fill.
TEST_F(CudaPrompt, AgreesWithTheReference) {
  constexpr auto kF16 = CodecId::kF16, kBF16 = CodecId::kBF16;
  constexpr auto kE4M3 = CodecId::kE4M3Tensor, kE5M2 = CodecId::kE5M2Tensor;
  const auto same_rows = BackendCase{"cuda_same_rows", Numerics::kFast, 1, true}.make().value();
  for (const PromptCase& of : {
           PromptCase{4, 1, 128, kBF16, 64, {{150}}},
           PromptCase{4, 2, 128, kBF16, 16, {{90}, {1}, {200}}, 100, 0, true},
           PromptCase{3, 1, 128, kE4M3, 64, {{150}, {130}}, {}, 8},
           PromptCase{5, 1, 128, kE4M3, 16, {{70, 1, 64, 3}, {1, 80, 100, 2}, {64, 64, 1, 90}}, 70, 0, true},
           PromptCase{2, 2, 128, kE5M2, 24, {{140}}, {}, 0, true},
           PromptCase{2, 1, 128, kF16, 128, {{300}}, 128},
           PromptCase{8, 1, 64, kE4M3, 64, {{65, 66}, {100, 1}}, 33, 0, true},
           PromptCase{3, 1, 64, kBF16, 8, {{270}}},
           PromptCase{2, 1, 64, kF16, 16, {{64}, {64}}, {}, 20},
           PromptCase{2, 1, 96, kBF16, 16, {{100}, {77}}},
           PromptCase{2, 1, 96, kE5M2, 64, {{100}}, 40},
           PromptCase{2, 1, 192, kF16, 64, {{130}}, {}, 0, true},
           PromptCase{2, 1, 192, kE4M3, 16, {{130}}},
           PromptCase{2, 1, 256, kBF16, 64, {{130}, {70}}, 90, 30},
           PromptCase{2, 1, 256, kE4M3, 16, {{130}}},
       }) {
    SCOPED_TRACE(fmt::format("{}/{} heads of {}, {} in blocks of {}, window {}", of.heads, of.kv_heads, of.head_dim,
                             cache_type_name(of.stored), of.block_tokens, of.window.value_or(0)));
    const auto found = attend(backend(), of), expected = attend(reference(), of);
    for (size_t s = 0; s < found.size(); ++s) {
      EXPECT_LE(relative_error(found[s], expected[s]), attend_tolerance(of.stored, Numerics::kFast)) << s;
    }
    // What is asked for by same_rows is another order: so this one did serve.
    const auto exact = attend(*same_rows, of);
    for (size_t s = 0; s < exact.size(); ++s) {
      EXPECT_LE(relative_error(exact[s], expected[s]), attend_tolerance(of.stored, Numerics::kExact)) << s;
    }
    EXPECT_NE(found.front(), exact.front());
  }
}

// CUDA-5: a row that this kernel takes is the same to the bit wherever its chunk begins and whoever shares the step.
TEST_F(CudaPrompt, RowsDependOnTheirSequenceAlone) {
  for (CodecId stored : {CodecId::kBF16, CodecId::kE4M3Tensor}) {
    for (std::optional<int> window : {std::optional<int>{}, std::optional<int>{100}}) {
      PromptCase of{6, 2, 128, stored, 16, {{430, 0}}, window, 0, true};
      const auto whole = attend(backend(), of).front();
      of.steps = {{64, 0}, {101, 0}, {200, 0}, {65, 0}};
      EXPECT_EQ(attend(backend(), of).front(), whole) << "in chunks";
      of.steps = {{100, 300}, {0, 100}, {266, 30}, {64, 0}};
      EXPECT_EQ(attend(backend(), of).front(), whole) << "beside another";
      of.steps = {{100, 0}, {1, 0}, {329, 0}};
      EXPECT_NE(attend(backend(), of).front(), whole) << "a row alone is summed in another order";
      // More tiles than a GPU has processors: blocks take one after the other, and of several sequences one each.
      PromptCase many{32, 8, 64, stored, 32, {{700, 0}}, window, 0, true};
      const auto alone = attend(backend(), many).front();
      many.steps = {{700, 65}};
      EXPECT_EQ(attend(backend(), many).front(), alone);
      many.steps = {{350, 0}, {350, 0}};
      EXPECT_EQ(attend(backend(), many).front(), alone);
    }
  }
}

}  // namespace
}  // namespace vernier
