#include <gtest/gtest.h>

#include "testing/backends.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::OpBench;
using testing::random_numbers;

constexpr int32_t kTokens = 620;
constexpr int kHeads = 6, kDim = 32;
constexpr int64_t kHidden = int64_t{kHeads} * kDim;

/// A small layer: product, attention over a cache, gate, experts. Its rows depend on their sequence alone.
class SmallLayer {
 public:
  explicit SmallLayer(Backend& backend)
      : bench_(backend, cache(), {.sequences = 3, .context_tokens = kTokens, .max_rows = 3 * kTokens}) {
    std::mt19937 random(4);
    bench_.set_inputs(3 * kTokens, kHidden, random_numbers(random, 3 * kTokens * kHidden, 1.0f, 0.1f));
    auto matrix = [&](CodecId id, int64_t rows, int64_t cols) {
      return encode(codec(id), rows, cols, random_numbers(random, rows * cols, 0.09f)).value();
    };
    qkv_ = bench_.weight<Split::kColumns>({matrix(CodecId::kQ8_0, kHidden + 2 * 64, kHidden)});
    back_ = bench_.weight<Split::kRows>({matrix(CodecId::kBF16, kHidden, kHidden)});
    layer_.spec.heads = kHeads;
    layer_.spec.kv_heads = 2;
    layer_.spec.head_dim = kDim;
    layer_.spec.scale = 0.17f;
    layer_.spec.rope = RopeSpec{10000, kDim, RopePlain{}};
    experts_.name = "experts";
    experts_.spec.experts = 5;
    experts_.spec.chosen = 2;
    experts_.spec.width = 64;
    experts_.router = bench_.weight<Split::kNone>({matrix(CodecId::kF32, 5, kHidden)}, {}, PackUse::kRouter);
    for (int i = 0; i < 5; ++i) {
      experts_.gate_up.push_back(bench_.weight<Split::kColumns>({matrix(CodecId::kMxfp4, 128, kHidden)}));
      experts_.down.push_back(bench_.weight<Split::kRows>({matrix(CodecId::kE4M3Channel, kHidden, 64)}));
    }
  }

  /// Feeds sequence s the rows counts[s], and keeps what sequence 0 got.
  void feed(const std::vector<int32_t>& counts) {
    std::vector<std::vector<int32_t>> step(counts.size());
    for (size_t s = 0; s < counts.size(); ++s) {
      for (int32_t i = 0; i < counts[s]; ++i) step[s].push_back(static_cast<int32_t>(s) * kTokens + next_[s]++);
    }
    bench_.driver().begin(step);
    Value x = bench_.input();
    Shard mixed = bench_.ops().attend(bench_.ops().linear(x, qkv_), layer_);
    Value y = bench_.ops().reduce_add(bench_.ops().linear(mixed, back_), std::move(x));
    Value z = bench_.ops().reduce(bench_.ops().experts(y, experts_));
    const std::vector<float> rows = bench_.read(z);
    first_.insert(first_.end(), rows.begin(), rows.begin() + counts[0] * kHidden);
    bench_.driver().commit(step);
  }
  const std::vector<float>& first() const { return first_; }

 private:
  static CacheSpec cache() {
    CacheSpec cache;
    cache.kv_heads = 2;
    cache.head_dim = kDim;
    cache.stored = CodecId::kE4M3Tensor;
    cache.k_scale = 0.03f;
    cache.v_scale = 0.07f;
    return cache;
  }

  OpBench bench_;
  Weight<Split::kColumns> qkv_;
  Weight<Split::kRows> back_;
  AttnLayer layer_;
  ExpertsLayer experts_;
  std::vector<int32_t> next_ = {0, 0, 0};
  std::vector<float> first_;
};

/// A row is the same to the bit alone and in a crowd, and for any cut of its sequence into steps. Rows that walk their
/// ranges of keys and rows whose ranges stand side by side are among them.
void check_row_bits(Backend& backend) {
  SmallLayer whole(backend);
  whole.feed({kTokens});
  SmallLayer pieces(backend);
  for (int32_t count : {300, 1, 1, 200, 7, 111}) pieces.feed({count});
  SmallLayer crowd(backend);
  crowd.feed({10, 600, 0});
  crowd.feed({500, 1, 77});
  for (int i = 0; i < 10; ++i) crowd.feed({1, 1, 1});
  crowd.feed({100, 0, 3});
  EXPECT_EQ(pieces.first(), whole.first());
  EXPECT_EQ(crowd.first(), whole.first());
}

// CUDA-5, under exact numerics, and where fast ones are to keep a row's bits.
TEST(CudaRowBits, DependOnTheirSequenceAlone) {
  const std::string reason = testing::why_no_cuda_cases();
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (testing::BackendCase of : testing::cuda_cases()) {
    of.same_rows = true;
    SCOPED_TRACE(of.name);
    auto backend = of.make();
    ASSERT_TRUE(backend.ok()) << backend.error().to_string();
    check_row_bits(**backend);
  }
}

}  // namespace
}  // namespace vernier
