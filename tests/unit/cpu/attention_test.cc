#include "backends/cpu/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace vernier {
namespace {

constexpr int kBlockTokens = 16, kBlocks = 24;

/// One sequence over two layers of one cache, which all steps go through.
class TwoLayers {
 public:
  TwoLayers(Isa isa, CodecId stored) : pool_(2), attention_(isa, pool_), random_(7) {
    spec_.heads = 6;
    spec_.kv_heads = 2;
    spec_.head_dim = 64;
    spec_.scale = 0.125f;
    KvLayout layout;
    layout.block_tokens = kBlockTokens;
    layout.class_blocks = {kBlocks};
    CacheSpec cache;
    cache.kv_heads = spec_.kv_heads;
    cache.head_dim = spec_.head_dim;
    cache.stored = stored;
    for (cache.layer = 0; cache.layer < 2; ++cache.layer) layout.layers.push_back(cache);
    kv_ = CpuKvStore::make(layout).value();
    blocks_.resize(kBlocks);
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  /// Of the next rows in a layer: whether any answer of a KV head's first query is NaN, [rows, kv_heads]. The number
  /// `nan_at` of the first row's q | k | v is NaN, where it is one.
  std::vector<bool> step(int layer, int position, int rows, int64_t nan_at = -1) {
    std::vector<float> qkv(static_cast<size_t>(rows * (spec_.q_cols() + 2 * spec_.kv_cols())));
    std::normal_distribution<float> normal(0, 1);
    for (float& x : qkv) x = normal(random_);
    if (nan_at >= 0) qkv[static_cast<size_t>(nan_at)] = std::nanf("");
    std::vector<int32_t> tokens(static_cast<size_t>(rows)), positions(tokens), begin{0, kBlocks}, first_position{0};
    std::iota(positions.begin(), positions.end(), position);
    const SequenceRows sequence{0, rows, position};
    const CacheTable table{kBlockTokens, blocks_, begin, first_position};
    const StepView view{tokens, positions, {&sequence, 1}, {&table, 1}, {}};
    std::vector<float> out(static_cast<size_t>(rows * spec_.q_cols()));
    AttnLayer call;
    call.spec = spec_;
    call.layer = layer;
    attention_.begin(view);
    attention_.run(call, *kv_, qkv.data(), out.data());
    std::vector<bool> nan;
    for (int head = 0; head < rows * spec_.heads; head += spec_.heads / spec_.kv_heads) {
      const auto first = out.begin() + int64_t{head} * spec_.head_dim;
      nan.push_back(std::any_of(first, first + spec_.head_dim, [](float x) { return std::isnan(x); }));
    }
    return nan;
  }
  int64_t key_at(int head) const { return spec_.q_cols() + int64_t{head} * spec_.head_dim + 5; }
  int64_t value_at(int head) const { return key_at(head) + spec_.kv_cols(); }

 private:
  AttnSpec spec_;
  ThreadPool pool_;
  Attention attention_;
  std::mt19937 random_;
  std::unique_ptr<CpuKvStore> kv_;
  std::vector<int32_t> blocks_;
};

class AttentionTest : public ::testing::TestWithParam<Isa> {};

// CPU-5: kernels look for codes of NaN only in a layer to which one was written, and they find it in every later step.
TEST_P(AttentionTest, ANanThatWasWrittenIsReadByAllThatSeeIt) {
  for (CodecId stored : {CodecId::kF16, CodecId::kE4M3Tensor, CodecId::kE5M2Tensor}) {
    for (bool of_values : {false, true}) {
      TwoLayers layers(GetParam(), stored);
      const std::vector<bool> none(2, false), second = {false, true};
      for (int layer : {0, 1}) EXPECT_EQ(layers.step(layer, 0, 40), std::vector<bool>(80, false));
      for (int layer : {0, 1}) EXPECT_EQ(layers.step(layer, 40, 1), none);
      EXPECT_EQ(layers.step(0, 41, 1, of_values ? layers.value_at(1) : layers.key_at(1)), second) << of_values;
      EXPECT_EQ(layers.step(1, 41, 1), none);
      EXPECT_EQ(layers.step(0, 42, 1), second);
      const std::vector<bool> tile = layers.step(0, 43, 20);
      for (size_t i = 0; i < tile.size(); ++i) EXPECT_EQ(tile[i], i % 2 == 1) << i;
      EXPECT_EQ(layers.step(1, 42, 21), std::vector<bool>(42, false));
      EXPECT_EQ(layers.step(0, 63, 1), second);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, AttentionTest, ::testing::ValuesIn(machine_isas()),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace vernier
