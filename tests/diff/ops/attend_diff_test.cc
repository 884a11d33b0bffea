#include <gtest/gtest.h>

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
using testing::StepDriver;

struct AttendCase {
  const char* name;
  int heads, kv_heads, head_dim;
  std::optional<int> window;
  float soft_cap = 0;
  bool sinks = false;
  bool qk_norm = false;
  CodecId stored = CodecId::kF32;
  int32_t block_tokens = 16;
  FreshRows fresh = FreshRows::kStored;
  bool per_head = false;
};

const AttendCase kCases[] = {
    {"plain", 4, 2, 16, {}},
    {"group_of_three", 9, 3, 64, {}, 0, false, false, CodecId::kF16, 64},
    {"one_head", 1, 1, 8, {}},
    {"group_of_five", 5, 1, 32, 11, 0, false, true, CodecId::kBF16},
    {"window_one", 2, 2, 32, 1},
    {"window_below_block", 4, 1, 32, 7, 0, false, false, CodecId::kF16},
    {"window_at_block", 4, 4, 16, 16},
    {"window_above_block", 4, 2, 24, 17, 0, false, true},
    {"wide_heads", 4, 1, 256, 20, 0, false, true, CodecId::kF16, 64},
    {"soft_cap", 4, 2, 32, {}, 2.5f},
    {"group_of_ten", 20, 2, 96, {}, 1.5f, true, false, CodecId::kF16, 16},
    {"wide_bf16", 8, 1, 192, 33, 0, true, false, CodecId::kBF16, 32},
    {"fp8_many_heads", 16, 1, 128, {}, 0, true, false, CodecId::kE4M3Tensor, 8},
    {"sinks", 4, 2, 32, 9, 0, true},
    {"fp8", 4, 2, 32, {}, 0, false, false, CodecId::kE4M3Tensor},
    {"fp8_window", 4, 2, 64, 13, 0, false, true, CodecId::kE4M3Tensor},
    {"fp8_sinks_cap", 8, 2, 24, 19, 3.5f, true, false, CodecId::kE4M3Tensor, 16, FreshRows::kStored, true},
    {"e5m2", 4, 2, 40, {}, 0, false, true, CodecId::kE5M2Tensor},
    {"e5m2_window_heads", 6, 3, 64, 9, 0, true, false, CodecId::kE5M2Tensor, 8, FreshRows::kStored, true},
    {"split", 4, 2, 32, {}, 0, false, false, CodecId::kF32, 16, FreshRows::kComputed},
    {"split_fp8", 8, 1, 64, {}, 0, false, true, CodecId::kE4M3Tensor, 16, FreshRows::kComputed},
    {"split_fp8_window", 4, 4, 24, 13, 0, false, false, CodecId::kE4M3Tensor, 8, FreshRows::kComputed, true},
    {"split_fp8_window_one", 4, 2, 32, 1, 0, true, false, CodecId::kE4M3Tensor, 16, FreshRows::kComputed},
    {"split_fp8_sinks_cap", 8, 2, 64, 40, 2.5f, true, false, CodecId::kE4M3Tensor, 16, FreshRows::kComputed, true},
    {"split_e5m2_sinks", 4, 2, 16, {}, 0, true, false, CodecId::kE5M2Tensor, 16, FreshRows::kComputed},
    {"roundtrip_fp8", 4, 2, 32, {}, 0, true, false, CodecId::kE4M3Tensor, 16, FreshRows::kRoundTrip, true},
    {"roundtrip_f16_window", 4, 2, 24, 7, 4.0f, false, false, CodecId::kF16, 16, FreshRows::kRoundTrip},
};

class AttendDiff : public ::testing::TestWithParam<std::tuple<BackendCase, AttendCase>> {};

constexpr int32_t kTokens = 70;

/// What a test does to the cache before it is made.
using CacheChange = std::function<void(CacheSpec&)>;

/// Two sequences, fed together in unequal pieces; the second starts late. Past every window.
std::vector<std::vector<std::vector<int32_t>>> steps() {
  const std::pair<int, int> pieces[] = {{33, 0}, {1, 5}, {1, 1}, {17, 30}, {0, 1}, {1, 1}, {16, 16}, {1, 16}};
  std::vector<std::vector<std::vector<int32_t>>> result;
  int32_t first = 0, second = kTokens;
  for (auto [a, b] : pieces) {
    std::vector<std::vector<int32_t>> step(2);
    while (a-- > 0) step[0].push_back(first++);
    while (b-- > 0) step[1].push_back(second++);
    result.push_back(step);
  }
  return result;
}

std::vector<float> attend(Backend& backend, const AttendCase& of, const CacheChange& change = nullptr) {
  AttnLayer layer;
  AttnSpec& spec = layer.spec;
  spec.heads = of.heads;
  spec.kv_heads = of.kv_heads;
  spec.head_dim = of.head_dim;
  spec.window = of.window;
  spec.soft_cap = of.soft_cap;
  spec.sinks = of.sinks;
  spec.qk_norm = of.qk_norm;
  spec.scale = 0.8f / std::sqrt(static_cast<float>(of.head_dim));
  spec.rope = RopeSpec{5000, of.head_dim, RopeLinear{1.5}};
  CacheSpec cache;
  cache.kv_heads = of.kv_heads;
  cache.head_dim = of.head_dim;
  cache.window = of.window;
  cache.stored = of.stored;
  cache.fresh = of.fresh;
  if (has_cache_scale(of.stored)) cache.k_scale = 0.03f, cache.v_scale = 0.07f;
  if (of.per_head) {
    std::vector<float> k, v;
    for (int head = 0; head < of.kv_heads; ++head) {
      k.push_back(0.03f * static_cast<float>(1 + 0.7 * head));
      v.push_back(0.07f / static_cast<float>(1 + 0.6 * head));
    }
    cache.k_scale = KvScale::make(k, "test").value();
    cache.v_scale = KvScale::make(v, "test").value();
  }

  if (change) change(cache);
  std::mt19937 random(11);
  OpBench bench(backend, cache, {.block_tokens = of.block_tokens, .sequences = 2, .context_tokens = kTokens});
  layer.qk_norm_eps = 1e-5f;
  if (of.qk_norm) {
    layer.q_norm = bench.vector(random_numbers(random, of.head_dim, 0.4f, 1.1f));
    layer.k_norm = bench.vector(random_numbers(random, of.head_dim, 0.4f, 0.9f));
  }
  if (of.sinks) layer.sinks = bench.vector(random_numbers(random, of.heads, 1.5f, 1));
  const int64_t cols = spec.q_cols() + 2 * spec.kv_cols();
  bench.set_inputs(2 * kTokens, cols, random_numbers(random, 2 * kTokens * cols, 1.2f, 0.1f));
  std::vector<float> out;
  for (const auto& step : steps()) {
    bench.driver().begin(step);
    std::vector<float> rows = bench.read(bench.ops().attend(bench.input_shard(), layer));
    out.insert(out.end(), rows.begin(), rows.end());
    bench.driver().commit(step);
  }
  return out;
}

// OPS-3, OPS-4, OPS-5, OPS-7.
TEST_P(AttendDiff, AgainstTheReference) {
  const auto& [candidate, of] = GetParam();
  auto backend = candidate.make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  RefBackend reference;
  const double error = relative_error(attend(**backend, of), attend(reference, of));
  RecordProperty("relative_error", std::to_string(error));
  EXPECT_LE(error, attend_tolerance(of.stored, candidate.numerics));
}

/// OPS-12: the two ways to meet a step's own rows agree where these are rounded first, and where nothing is rounded.
TEST_P(AttendDiff, SplitAfterRoundingIsPaged) {
  const auto& [candidate, of] = GetParam();
  for (const BackendCase& kind : {candidate, BackendCase{"reference"}}) {
    auto backend = kind.make();
    ASSERT_TRUE(backend.ok()) << backend.error().to_string();
    const auto way = [&](FreshRows fresh) {
      return attend(**backend, of, [fresh](CacheSpec& cache) { cache.fresh = fresh; });
    };
    const std::vector<float> paged = way(FreshRows::kStored);
    const double exact = kind.name == "reference" ? 1e-6 : 0;
    EXPECT_LE(relative_error(way(FreshRows::kRoundTrip), paged), exact) << kind.name;
    if (of.stored != CodecId::kF32) continue;
    EXPECT_LE(relative_error(way(FreshRows::kComputed), paged), exact) << kind.name;
  }
}

/// One head of one number: keys 1, -1, 0.5 with values 1, 2, 3 are stored under scales 0.5 and 0.25; then a row with
/// query 2, key 0.25, value 4. With both scales forgotten the answer would be 4.93.
std::vector<float> worked_example(Backend& backend, FreshRows fresh, size_t chunk) {
  AttnLayer layer;
  layer.spec.heads = layer.spec.kv_heads = layer.spec.head_dim = 1;
  CacheSpec cache;
  cache.kv_heads = cache.head_dim = 1;
  cache.stored = CodecId::kE4M3Tensor;
  cache.k_scale = 0.5f;
  cache.v_scale = 0.25f;
  cache.fresh = fresh;
  OpBench bench(backend, cache, {});
  bench.set_inputs(4, 3, {0, 1, 1, 0, -1, 2, 0, 0.5f, 3, 2, 0.25f, 4});
  std::vector<float> out;
  for (int32_t token = 0; token < 4;) {
    std::vector<std::vector<int32_t>> step(1);
    for (size_t i = 0; i < chunk && token < 4; ++i) step[0].push_back(token++);
    bench.driver().begin(step);
    const std::vector<float> rows = bench.read(bench.ops().attend(bench.input_shard(), layer));
    out.insert(out.end(), rows.begin(), rows.end());
    bench.driver().commit(step);
  }
  return out;
}

class ExactAttend : public ::testing::TestWithParam<BackendCase> {};

TEST_P(ExactAttend, AppliesBothScalesOnEveryWay) {
  auto backend = GetParam().make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  for (FreshRows fresh : {FreshRows::kStored, FreshRows::kComputed, FreshRows::kRoundTrip}) {
    for (size_t chunk : {1, 3, 4}) {
      EXPECT_NEAR(worked_example(**backend, fresh, chunk).back(), 1.8845104557562233, 1e-6)
          << name(fresh) << ", " << chunk << " rows a step";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ExactAttend, ::testing::ValuesIn(testing::exact_backends()),
                         [](const auto& info) { return info.param.name; });

/// Sequences of an encoder, each whole in its step and side by side with others.
std::vector<float> attend_whole(Backend& backend, int heads, int kv_heads, int head_dim, float soft_cap) {
  AttnLayer layer;
  AttnSpec& spec = layer.spec;
  spec.heads = heads;
  spec.kv_heads = kv_heads;
  spec.head_dim = head_dim;
  spec.causal = false;
  spec.soft_cap = soft_cap;
  spec.scale = 1.1f / std::sqrt(static_cast<float>(head_dim));
  CacheSpec cache;
  cache.kv_heads = 1;
  cache.head_dim = 2;
  std::vector<float> out;
  const int64_t cols = spec.q_cols() + 2 * spec.kv_cols();
  constexpr int32_t kInputs = 300;
  std::mt19937 random(12);
  const std::vector<float> inputs = random_numbers(random, cols * kInputs, 1.2f, 0.1f);
  for (const std::vector<int>& lengths : {std::vector<int>{1, 5, 2, 33}, {130, 3}, {2}, {200, 1, 98}}) {
    OpBench bench(backend, cache, {.sequences = lengths.size(), .context_tokens = kInputs, .max_rows = kInputs});
    bench.set_inputs(kInputs, cols, inputs);
    std::vector<std::vector<int32_t>> step;
    int32_t token = 0;
    for (int length : lengths) {
      for (step.emplace_back(); length > 0; --length) step.back().push_back(token++);
    }
    bench.driver().begin(step);
    std::vector<float> rows = bench.read(bench.ops().attend(bench.input_shard(), layer));
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

class AttendWholeDiff : public ::testing::TestWithParam<BackendCase> {};

// OPS-3: every row sees all rows of its own sequence, later ones too, and none of another's.
TEST_P(AttendWholeDiff, AgainstTheReference) {
  auto backend = GetParam().make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  RefBackend reference;
  const double limit = GetParam().numerics == Numerics::kExact ? 2e-5 : 4e-3;
  const std::tuple<int, int, int, float> shapes[] = {{12, 12, 32, 0}, {4, 2, 24, 0}, {2, 2, 10, 3}, {3, 3, 64, 0}};
  for (auto [heads, kv_heads, head_dim, cap] : shapes) {
    EXPECT_LE(relative_error(attend_whole(**backend, heads, kv_heads, head_dim, cap),
                             attend_whole(reference, heads, kv_heads, head_dim, cap)),
              limit)
        << heads << " heads of " << head_dim;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, AttendWholeDiff, ::testing::ValuesIn(testing::backend_cases()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Shapes, AttendDiff,
                         ::testing::Combine(::testing::ValuesIn(testing::backend_cases()), ::testing::ValuesIn(kCases)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace vernier
