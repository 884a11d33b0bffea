#include <gtest/gtest.h>

#include <numeric>

#include "ops/tolerance.h"
#include "testing/cuda_case.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::OpBench;
using testing::random_numbers;
using testing::relative_error;

/// What the shared tables leave out: sizes at which a kernel takes another path, and formats without an encoder there.
class CudaDiff : public testing::CudaCase {};

std::vector<std::vector<int32_t>> rows_from(int32_t first, int32_t count) {
  std::vector<std::vector<int32_t>> step(1);
  for (int32_t i = 0; i < count; ++i) step[0].push_back(first + i);
  return step;
}

std::vector<float> product(Backend& backend, const std::vector<QTensor>& segments, const std::vector<float>& x,
                           int32_t rows, const std::vector<float>& bias) {
  OpBench bench(backend);
  bench.set_inputs(rows, segments.front().cols(), x);
  bench.driver().begin(rows_from(0, rows));
  return bench.read(bench.ops().linear(bench.input(), bench.weight<Split::kNone>(segments, bias)));
}

// CUDA-3. Blocks that nothing divides, parts of a fused weight in different formats, and rows that begin at any byte.
TEST_F(CudaDiff, ProductsOfOddBlocksAndMixedParts) {
  std::mt19937 random(3);
  auto made = [&](const Codec& of, int64_t rows, int64_t cols, float spread) {
    return encode(of, rows, cols, random_numbers(random, rows * cols, spread, 0.04f)).value();
  };
  const std::vector<std::vector<QTensor>> weights = {
      {made(block_codec(CodecId::kE4M3Block, 5, 12, ScaleType::kF32), 37, 131, 0.3f)},
      {made(block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kE8M0), 200, 300, 1.7f)},
      {made(block_codec(CodecId::kE5M2Block, 64, 32, ScaleType::kF32), 70, 99, 0.6f)},
      {made(codec(CodecId::kQ4_K), 19, 512, 0.3f), made(codec(CodecId::kQ6_K), 7, 512, 1.7f)},
      {made(codec(CodecId::kBF16), 9, 33, 0.6f), made(codec(CodecId::kE4M3Channel), 12, 33, 1.7f)},
      {made(codec(CodecId::kNvfp4), 9, 48, 0.6f), made(codec(CodecId::kNvfp4), 12, 48, 1.7f)},
  };
  for (const std::vector<QTensor>& segments : weights) {
    int64_t outputs = 0;
    for (const QTensor& segment : segments) outputs += segment.rows();
    const int64_t cols = segments.front().cols();
    for (int32_t rows : {1, 2, 8, 9, 30}) {
      const std::vector<float> x = random_numbers(random, rows * cols, 1.3f, 0.2f);
      const std::vector<float> bias = random_numbers(random, outputs, 0.5f);
      EXPECT_LE(
          relative_error(product(backend(), segments, x, rows, bias), product(reference(), segments, x, rows, bias)),
          2e-6)
          << segments.front().codec().name << ", " << rows << " rows of " << cols;
    }
  }
}

struct LongCase {
  int heads, kv_heads, head_dim;
  std::optional<int> window;
  CodecId stored;
  FreshRows fresh = FreshRows::kStored;
  std::vector<int32_t> steps = {700, 1, 1, 90, 3, 105};
};

/// A prompt of many ranges of keys, then single rows: the two ways of the kernel, past every window.
std::vector<float> long_attention(Backend& backend, const LongCase& of) {
  AttnLayer layer;
  AttnSpec& spec = layer.spec;
  spec.heads = of.heads;
  spec.kv_heads = of.kv_heads;
  spec.head_dim = of.head_dim;
  spec.window = of.window;
  spec.sinks = true;
  spec.scale = 0.8f / std::sqrt(static_cast<float>(of.head_dim));
  spec.rope = RopeSpec{5000, of.head_dim / 2, RopePlain{}};
  CacheSpec cache;
  cache.kv_heads = of.kv_heads;
  cache.head_dim = of.head_dim;
  cache.window = of.window;
  cache.stored = of.stored;
  cache.fresh = of.fresh;
  if (has_cache_scale(of.stored)) cache.k_scale = 0.03f, cache.v_scale = 0.07f;
  const int32_t tokens = std::reduce(of.steps.begin(), of.steps.end());
  OpBench bench(backend, cache, {.block_tokens = 16, .context_tokens = tokens, .max_rows = tokens});
  std::mt19937 random(5);
  layer.sinks = bench.vector(random_numbers(random, of.heads, 1.5f, 1));
  const int64_t cols = spec.q_cols() + 2 * spec.kv_cols();
  bench.set_inputs(tokens, cols, random_numbers(random, tokens * cols, 1.2f, 0.1f));
  std::vector<float> out;
  int32_t first = 0;
  for (int32_t rows : of.steps) {
    const auto step = rows_from(first, rows);
    bench.driver().begin(step);
    const std::vector<float> found = bench.read(bench.ops().attend(bench.input_shard(), layer));
    // The judge is slow; a row in forty, and all of a short step, tell as much.
    for (int32_t row = 0; row<rows; row += rows> 10 ? 40 : 1) {
      const auto at = found.begin() + row * spec.q_cols();
      out.insert(out.end(), at, at + spec.q_cols());
    }
    bench.driver().commit(step);
    first += rows;
  }
  return out;
}

// OPS-4, OPS-7 over several ranges of keys; the last two over several spans of them, side by side and walked.
TEST_F(CudaDiff, AttentionOverManyRanges) {
  for (const LongCase& of :
       {LongCase{3, 1, 64, {}, CodecId::kF32}, LongCase{4, 2, 24, 300, CodecId::kE4M3Tensor},
        LongCase{2, 2, 32, 257, CodecId::kF16}, LongCase{5, 1, 40, {}, CodecId::kE5M2Tensor},
        LongCase{4, 1, 32, {}, CodecId::kE4M3Tensor, FreshRows::kComputed},
        LongCase{4, 1, 32, 256, CodecId::kBF16, FreshRows::kRoundTrip}, LongCase{5, 1, 128, {}, CodecId::kBF16},
        LongCase{4, 2, 96, 300, CodecId::kE4M3Tensor}, LongCase{2, 1, 192, {}, CodecId::kF16},
        LongCase{2, 1, 256, {}, CodecId::kE5M2Tensor}, LongCase{11, 1, 32, 100, CodecId::kE4M3Tensor},
        LongCase{2, 1, 32, {}, CodecId::kF16, FreshRows::kStored, {2040, 1, 1, 90, 1, 400, 2}},
        LongCase{1, 1, 64, 2200, CodecId::kBF16, FreshRows::kStored, {2200, 1, 3, 1}}}) {
    EXPECT_LE(relative_error(long_attention(backend(), of), long_attention(reference(), of)),
              attend_tolerance(of.stored, Numerics::kExact))
        << of.heads << " heads of " << of.head_dim << ", window " << of.window.value_or(0) << ", "
        << cache_type_name(of.stored);
  }
}

/// How many numbers of keys and values did not fit.
int64_t saturated(Backend& backend) {
  AttnLayer layer;
  layer.spec.heads = 2;
  layer.spec.kv_heads = layer.spec.heads;
  layer.spec.head_dim = 24;
  CacheSpec cache;
  cache.kv_heads = 2;
  cache.head_dim = 24;
  cache.stored = CodecId::kE4M3Tensor;
  cache.k_scale = 0.003f;
  cache.v_scale = 0.002f;
  OpBench bench(backend, cache, {});
  std::mt19937 random(8);
  bench.set_inputs(20, 144, random_numbers(random, 20 * 144, 1.0f));
  bench.driver().begin(rows_from(0, 20));
  (void)bench.read(bench.ops().attend(bench.input_shard(), layer));
  return bench.driver().kv().saturated().front();
}

TEST_F(CudaDiff, CountsWhatSaturates) {
  EXPECT_GT(saturated(reference()), 0);
  EXPECT_EQ(saturated(backend()), saturated(reference()));
}

// CUDA-6: a step that fails says so at its end, and the next one runs.
TEST_F(CudaDiff, MemoryThatIsNotThereIsAnErrorOfTheStep) {
#ifdef VERNIER_TEST_CUDA
  auto small = make_cuda_backend({.device = 0, .most_bytes = 3'000'000});
  ASSERT_TRUE(small.ok()) << small.error().to_string();
  CacheSpec cache;
  cache.kv_heads = 1;
  cache.head_dim = 2;
  OpBench bench(**small, cache, {.context_tokens = 4096, .max_rows = 4096});
  bench.set_inputs(64, 256, std::vector<float>(64 * 256, 0.5f));
  std::vector<std::vector<int32_t>> step(1, std::vector<int32_t>(3000, 7));
  {
    bench.driver().begin(step);
    Value x = bench.input();
    const auto read = bench.ops().read(x);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, ErrorCode::kOutOfMemory);
  }
  bench.driver().begin(rows_from(0, 2));
  EXPECT_EQ(bench.read(bench.input()).size(), 2u * 256);
#endif
}

}  // namespace
}  // namespace vernier
