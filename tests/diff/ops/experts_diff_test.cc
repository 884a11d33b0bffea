#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/tolerance.h"
#include "testing/backends.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::BackendCase;
using testing::OpBench;
using testing::random_numbers;
using testing::relative_error;

struct ExpertsCase {
  const char* name;
  int experts;
  int chosen;
  int64_t hidden;
  int64_t width;
  CodecId codec = CodecId::kF32;
  RouterScore score = RouterScore::kSoftmax;
  bool normalize = true;
  float scale = 1;
  int groups = 1;
  int chosen_groups = 1;
  bool biases = false;
  bool correction = false;
  GateSpec gate = {};
  int identity = 0;
};

constexpr GateSpec kClamped{Act::kSilu, 0.7f, 1.702f, 1};

// Counts of experts that no block divides (B16), widths that no vector divides (B07, B23), and codecs with scales.
const ExpertsCase kCases[] = {
    {"one", 1, 1, 32, 24},
    {"three", 3, 2, 60, 22, CodecId::kF32, RouterScore::kSoftmax, false},
    {"five", 5, 2, 64, 96, CodecId::kBF16},
    {"seven", 7, 3, 33, 17, CodecId::kF16},
    {"eight_clamped", 8, 4, 64, 96, CodecId::kBF16, RouterScore::kSoftmax, true, 1, 1, 1, true, false, kClamped},
    {"sigmoid_groups", 8, 3, 64, 48, CodecId::kF32, RouterScore::kSigmoid, true, 2.5f, 4, 2, false, true},
    {"softmax_groups", 12, 4, 40, 20, CodecId::kF32, RouterScore::kSoftmax, false, 1.5f, 3, 2},
    {"q4_1", 6, 2, 96, 64, CodecId::kQ4_1},
    {"q8_0", 6, 2, 96, 64, CodecId::kQ8_0},
    {"mxfp4_clamped", 5, 2, 64, 96, CodecId::kMxfp4, RouterScore::kSoftmax, true, 1, 1, 1, true, false, kClamped},
    {"gelu", 4, 2, 24, 40, CodecId::kF32, RouterScore::kSoftmax, true, 1, 1, 1, false, false, {Act::kGeluTanh}},
    {"identity", 12, 3, 64, 48, CodecId::kF32, RouterScore::kSoftmax, false, 2, 1, 1, false, true, {}, 4},
    {"identity_most", 7, 4, 33, 20, CodecId::kBF16, RouterScore::kSoftmax, false, 6, 1, 1, true, true, {}, 6},
    {"identity_q8_0", 9, 2, 96, 64, CodecId::kQ8_0, RouterScore::kSigmoid, true, 1, 1, 1, false, false, {}, 3},
};

void PrintTo(const ExpertsCase& of, std::ostream* out) {
  *out << of.name;
}

class ExpertsDiff : public ::testing::TestWithParam<std::tuple<BackendCase, ExpertsCase>> {
 protected:
  static ExpertsLayer layer_of(const ExpertsCase& of, OpBench& bench) {
    std::mt19937 random(11);
    ExpertsLayer layer;
    layer.name = "experts";
    layer.spec = {of.experts,           of.chosen, of.width,   of.score,
                  of.normalize,         of.scale,  of.groups,  of.chosen_groups,
                  GroupScore::kBestTwo, of.gate,   of.identity};
    if (of.score == RouterScore::kSoftmax) layer.spec.group_score = GroupScore::kBest;
    auto matrix = [&](int64_t rows, int64_t cols, CodecId id) {
      const float spread = 1.2f / std::sqrt(static_cast<float>(cols));
      return encode(codec(id), rows, cols, random_numbers(random, rows * cols, spread)).value();
    };
    auto bias = [&](int64_t count) {
      return of.biases ? random_numbers(random, count, 0.3f, 0.1f) : std::vector<float>();
    };
    layer.router =
        bench.weight<Split::kNone>({matrix(of.experts, of.hidden, CodecId::kF32)}, bias(of.experts), PackUse::kRouter);
    if (of.correction) layer.correction = bench.vector(random_numbers(random, of.experts, 0.2f));
    for (int expert = 0; expert < layer.spec.weighted(); ++expert) {
      layer.gate_up.push_back(
          bench.weight<Split::kColumns>({matrix(2 * of.width, of.hidden, of.codec)}, bias(2 * of.width)));
      layer.down.push_back(bench.weight<Split::kRows>({matrix(of.hidden, of.width, of.codec)}, bias(of.hidden)));
    }
    return layer;
  }

  static std::vector<float> run(Backend& backend, const ExpertsCase& of, int64_t rows) {
    std::mt19937 random(3);
    OpBench bench(backend, one_cache(), {.context_tokens = 256, .max_rows = 256});
    bench.set_inputs(rows, of.hidden, random_numbers(random, rows * of.hidden, 1.0f, 0.1f));
    const ExpertsLayer layer = layer_of(of, bench);
    std::vector<std::vector<int32_t>> step(1);
    for (int64_t row = rows; row-- > 0;) step[0].push_back(static_cast<int32_t>(row));
    bench.driver().begin(step);
    std::vector<float> out;
    // Twice: the first leaves its numbers in the memory of the second (B11).
    for (int round = 0; round < 2; ++round) {
      Value x = bench.input();
      out = bench.read(bench.ops().reduce(bench.ops().experts(x, layer)));
    }
    return out;
  }

  static CacheSpec one_cache() {
    CacheSpec cache;
    cache.kv_heads = 1;
    cache.head_dim = 2;
    return cache;
  }
};

// OPS-3. B24: experts with no row, one row and many in one call, from decode to prefill.
TEST_P(ExpertsDiff, EqualsTheReference) {
  const auto& [of, spec] = GetParam();
  auto backend = of.make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  RefBackend reference;
  // Exact: float32 sums. Fast: rows as int8 in groups of 32, or as bf16, twice.
  const double limit = experts_tolerance(of.numerics);
  for (int64_t rows : {1, 2, 7, 9, 65, 200}) {
    EXPECT_LE(relative_error(run(**backend, spec, rows), run(reference, spec, rows)), limit) << rows << " rows";
  }
}

/// float32 weights and more experts than a row chooses.
class OneOfManyExperts : public ExpertsDiff {};

// An expert that no row chose is not read: its weights are no numbers, and nothing shows.
TEST_P(OneOfManyExperts, ThatNoRowChoseIsNotRead) {
  const auto& [of, spec] = GetParam();
  auto backend = of.make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  std::mt19937 random(3);
  OpBench bench(**backend, one_cache(), {.context_tokens = 64, .max_rows = 64});
  bench.set_inputs(9, spec.hidden, random_numbers(random, 9 * spec.hidden, 1.0f, 0.1f));
  ExpertsLayer layer = layer_of(spec, bench);
  std::vector<float> bias(static_cast<size_t>(spec.experts), 0.0f);
  bias[1] = -1e9f;
  layer.router.bias = bench.vector(bias);
  const std::vector<float> nan(static_cast<size_t>(2 * spec.width * spec.hidden),
                               std::numeric_limits<float>::quiet_NaN());
  layer.gate_up[1] = bench.weight<Split::kColumns>({testing::dense(2 * spec.width, spec.hidden, nan)});
  bench.driver().begin({{0, 1, 2, 3, 4, 5, 6, 7, 8}});
  Value x = bench.input();
  for (float number : bench.read(bench.ops().reduce(bench.ops().experts(x, layer)))) ASSERT_TRUE(std::isfinite(number));
}

// A24: an expert whose answers nearly vanish, down to numbers that are no normal ones, changes nothing.
TEST_P(OneOfManyExperts, ThatIsDormantChangesNothing) {
  const auto& [of, spec] = GetParam();
  auto backend = of.make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  for (float size : {1e-18f, 1e-20f, 1e-22f, 1e-38f}) {
    std::vector<float> out[2];
    for (int silent : {0, 1}) {
      std::mt19937 random(3);
      OpBench bench(**backend, one_cache(), {.context_tokens = 64, .max_rows = 64});
      bench.set_inputs(9, spec.hidden, random_numbers(random, 9 * spec.hidden, 1.0f, 0.1f));
      ExpertsLayer layer = layer_of(spec, bench);
      std::vector<float> small(static_cast<size_t>(2 * spec.width * spec.hidden), silent == 1 ? 0.0f : size);
      layer.gate_up[1] = bench.weight<Split::kColumns>({testing::dense(2 * spec.width, spec.hidden, small)});
      bench.driver().begin({{0, 1, 2, 3, 4, 5, 6, 7, 8}});
      Value x = bench.input();
      out[silent] = bench.read(bench.ops().reduce(bench.ops().experts(x, layer)));
    }
    EXPECT_LE(relative_error(out[0], out[1]), 1e-6) << size;
  }
}

class IdentityExperts : public ExpertsDiff {};

// An expert without weights answers a row with the row itself, times the routing weight; it reads nothing.
TEST_P(IdentityExperts, AnswerWithTheRow) {
  const auto& [of, spec] = GetParam();
  auto backend = of.make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  std::mt19937 random(3);
  OpBench bench(**backend, one_cache(), {.context_tokens = 64, .max_rows = 64});
  const std::vector<float> x = random_numbers(random, 9 * spec.hidden, 1.0f, 0.1f);
  bench.set_inputs(9, spec.hidden, x);
  ExpertsLayer layer = layer_of(spec, bench);
  // All rows choose experts 8, 9 and 10, whose logits are 2, 1 and 0.
  const std::vector<float> nothing(static_cast<size_t>(spec.experts * spec.hidden), 0.0f);
  std::vector<float> bias(static_cast<size_t>(spec.experts), -80.0f);
  for (int i = 0; i < 3; ++i) bias[static_cast<size_t>(8 + i)] = static_cast<float>(2 - i);
  layer.router =
      bench.weight<Split::kNone>({testing::dense(spec.experts, spec.hidden, nothing)}, bias, PackUse::kRouter);
  layer.correction = nullptr;
  const std::vector<float> nan(static_cast<size_t>(2 * spec.width * spec.hidden),
                               std::numeric_limits<float>::quiet_NaN());
  for (auto& weight : layer.gate_up) {
    weight = bench.weight<Split::kColumns>({testing::dense(2 * spec.width, spec.hidden, nan)});
  }
  bench.driver().begin({{0, 1, 2, 3, 4, 5, 6, 7, 8}});
  const Value in = bench.input();
  const std::vector<float> out = bench.read(bench.ops().reduce(bench.ops().experts(in, layer)));
  std::vector<float> expected = x;
  for (float& number : expected) number *= spec.scale;  // the three weights sum to the scale
  EXPECT_LE(relative_error(out, expected), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Backends, ExpertsDiff,
                         ::testing::Combine(::testing::ValuesIn(testing::backend_cases()), ::testing::ValuesIn(kCases)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
                         });

INSTANTIATE_TEST_SUITE_P(Backends, OneOfManyExperts,
                         ::testing::Combine(::testing::ValuesIn(testing::backend_cases()),
                                            ::testing::Values(kCases[1], kCases[10])),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
                         });

INSTANTIATE_TEST_SUITE_P(
    Backends, IdentityExperts,
    ::testing::Combine(::testing::ValuesIn(testing::backend_cases()),
                       ::testing::Values(*std::ranges::find(kCases, std::string("identity"), &ExpertsCase::name))),
    [](const auto& info) { return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name; });

}  // namespace
}  // namespace vernier
