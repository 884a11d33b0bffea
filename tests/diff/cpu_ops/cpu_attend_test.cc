#include <gtest/gtest.h>

#include "ops_pair.h"

namespace vernier {
namespace {

using testing::OpsPair;
using testing::relative_error;
using testing::StepMaker;

struct Scene {
  AttnSpec spec;
  CodecId stored = CodecId::kF32;
  int32_t block_tokens = 16;
  std::vector<std::vector<int>> steps;  // rows of each sequence
};

// Relative rounding of one stored number: where both sides round a number that lies near a border they may differ by
// twice that. float32 sums differ by some units in the last place times the length of the sums.
double tolerance(CodecId stored) {
  switch (stored) {
    case CodecId::kF16:
      return 0x1p-10;
    case CodecId::kBF16:
      return 0x1p-7;
    case CodecId::kE4M3Tensor:
      return 0x1p-3;
    default:
      return 1e-5;
  }
}

void compare(const Scene& scene, uint32_t seed, int threads) {
  constexpr int kHidden = 24, kVocab = 50;
  OpsPair pair(Numerics::kExact, threads, seed);
  const AttnSpec& spec = scene.spec;
  int64_t q = spec.q_cols(), kv = spec.kv_cols();
  auto table = pair.weight<Split::kNone>(kVocab, kHidden, false, 1);
  auto qkv = pair.weight<Split::kColumns>(q + 2 * kv, kHidden, true, 0.25f);
  auto output = pair.weight<Split::kRows>(kHidden, q, false, 1 / std::sqrt(static_cast<float>(q)));
  OpsPair::Both<AttnLayer> layer;
  layer.cpu.spec = layer.ref.spec = spec;
  layer.cpu.qk_norm_eps = layer.ref.qk_norm_eps = 1e-6f;
  if (spec.qk_norm) {
    auto q_norm = pair.norm(spec.head_dim), k_norm = pair.norm(spec.head_dim);
    layer.cpu.q_norm = q_norm.cpu.weight, layer.ref.q_norm = q_norm.ref.weight;
    layer.cpu.k_norm = k_norm.cpu.weight, layer.ref.k_norm = k_norm.ref.weight;
  }
  if (spec.sinks) {
    auto sinks = pair.vector(pair.numbers(spec.heads, 1));
    layer.cpu.sinks = sinks.cpu, layer.ref.sinks = sinks.ref;
  }
  int sequences = static_cast<int>(scene.steps.front().size());
  int total = 0, most_rows = 0;
  for (const std::vector<int>& step : scene.steps) {
    int rows = std::accumulate(step.begin(), step.end(), 0);
    total += rows;
    most_rows = std::max(most_rows, rows);
  }
  StepMaker steps({{spec.window, (total + scene.block_tokens) / scene.block_tokens + 2 * sequences}},
                  scene.block_tokens, sequences, seed);
  KvLayout layout;
  CacheSpec cache;
  cache.kv_heads = spec.kv_heads;
  cache.head_dim = spec.head_dim;
  cache.window = spec.window;
  cache.stored = scene.stored;
  if (scene.stored == CodecId::kE4M3Tensor) cache.k_scale = 0.3f, cache.v_scale = 0.07f;
  layout.layers = {cache};
  layout.class_blocks = steps.class_blocks();
  layout.block_tokens = scene.block_tokens;
  pair.make_ops(layout, most_rows);

  auto run = [&](Ops& ops, const StepView& view, const auto& table, const auto& qkv, const auto& layer,
                 const auto& output) {
    ops.begin(view);
    return ops.read(ops.reduce(ops.linear(ops.attend(ops.linear(ops.embed(table, 1), qkv), layer), output))).value();
  };
  for (size_t i = 0; i < scene.steps.size(); ++i) {
    const StepView& view = steps.next(scene.steps[i], kVocab, false);
    std::vector<float> got = run(pair.cpu_ops(), view, table.cpu, qkv.cpu, layer.cpu, output.cpu);
    std::vector<float> expected = run(pair.ref_ops(), view, table.ref, qkv.ref, layer.ref, output.ref);
    ASSERT_LE(relative_error(got, expected), tolerance(scene.stored))
        << "step " << i << ": heads " << spec.heads << '/' << spec.kv_heads << " dim " << spec.head_dim << " window "
        << spec.window.value_or(0) << " block " << scene.block_tokens << " cap " << spec.soft_cap << " sinks "
        << spec.sinks << " norm " << spec.qk_norm << " rope " << spec.rope.to_string() << " stored "
        << codec(scene.stored).name;
  }
}

// CPU-2, CPU-3: for any cut into steps. Slots that were never written hold NaN.
TEST(CpuAttend, AgreesWithTheReferenceOverRandomScenes) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](std::initializer_list<int> values) {
      return values.begin()[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random)];
    };
    Scene scene;
    AttnSpec& spec = scene.spec;
    spec.kv_heads = pick({1, 2, 3});
    spec.heads = spec.kv_heads * pick({1, 2, 3, 4, 6});
    spec.head_dim = pick({8, 10, 16, 24, 32, 64, 72, 80});
    if (pick({0, 1}) == 1) spec.window = pick({1, 3, 16, 21, 48});
    spec.scale = 1.3f / std::sqrt(static_cast<float>(spec.head_dim));
    spec.soft_cap = static_cast<float>(pick({0, 0, 20}));
    spec.sinks = pick({0, 0, 1}) == 1;
    spec.qk_norm = pick({0, 1}) == 1;
    spec.rope.dim = pick({0, 1, 2}) == 0 ? spec.head_dim / 4 * 2 : spec.head_dim;
    if (pick({0, 1}) == 1) spec.rope.scaling = RopeLlama3{8, 1, 4, 32};
    constexpr CodecId kStored[] = {CodecId::kF32, CodecId::kF16, CodecId::kBF16, CodecId::kE4M3Tensor};
    scene.stored = kStored[pick({0, 0, 1, 2, 3})];
    scene.block_tokens = pick({1, 5, 16, 64});
    int sequences = pick({1, 2, 4});
    for (int step = 0; step < 8; ++step) {
      std::vector<int> rows;
      for (int s = 0; s < sequences; ++s) rows.push_back(pick({0, 1, 1, 1, 2, 3, 7, 20, 33}));
      if (std::accumulate(rows.begin(), rows.end(), 0) == 0) rows[0] = 1;
      scene.steps.push_back(rows);
    }
    compare(scene, seed, 1 + static_cast<int>(seed % 3));
    if (HasFatalFailure()) return;
  }
}

// CPU-3
TEST(CpuAttend, DecodesWellPastTheWindow) {
  Scene scene;
  scene.spec.heads = 4;
  scene.spec.kv_heads = 1;
  scene.spec.head_dim = 16;
  scene.spec.window = 13;
  scene.spec.scale = 0.25f;
  scene.spec.rope.dim = 16;
  scene.block_tokens = 8;
  scene.steps = {{20}};
  for (int i = 0; i < 100; ++i) scene.steps.push_back({1});
  compare(scene, 1, 2);
}

// CPU-8
TEST(CpuAttend, LongSequencesAreCutIntoRangesAndMerged) {
  Scene scene;
  scene.spec.heads = 6;
  scene.spec.kv_heads = 2;
  scene.spec.head_dim = 64;
  scene.spec.scale = 0.125f;
  scene.spec.sinks = true;
  scene.spec.rope.dim = 64;
  scene.block_tokens = 64;
  scene.steps = {{700}, {1}, {1}, {3}, {1}};
  compare(scene, 2, 2);
}

/// CPU-2, where a small chunk over one KV head late in a sequence is cut into a tile for each thread.
TEST(CpuAttend, SmallChunksOverOneKvHeadAreShared) {
  for (bool window : {false, true}) {
    Scene scene;
    scene.spec.heads = 4;
    scene.spec.kv_heads = 1;
    scene.spec.head_dim = 32;
    if (window) scene.spec.window = 40;
    scene.spec.scale = 0.17f;
    scene.spec.rope.dim = 32;
    scene.block_tokens = 16;
    scene.steps = {{300}, {24}, {9}, {5}, {4}, {13}};
    for (int threads : {1, 2, 5}) compare(scene, 3, threads);
  }
}

}  // namespace
}  // namespace vernier
