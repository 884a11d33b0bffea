#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "ops_pair.h"

// CPU-8, CPU-13: a row's numbers are those it has alone, to the bit, for any cut of its prompt into steps, beside any
// other rows, on any number of threads.

namespace vernier {
namespace {

constexpr int kVocab = 61;
constexpr int32_t kBlockTokens = 8;

/// A model of one layer: what its weights and its cache are stored as, and how it attends.
struct Shape {
  CodecId weights = CodecId::kQ4_1;
  CodecId stored = CodecId::kF16;
  FreshRows fresh = FreshRows::kStored;
  Numerics numerics = Numerics::kFast;
  AttnSpec spec;
  int hidden = 64;
};

/// Rows of each sequence in one step.
using Cut = std::vector<std::vector<int>>;
/// Of each sequence, the rows of all its positions.
using Rows = std::vector<std::vector<float>>;

class Layer {
 public:
  Layer(const Shape& shape, int threads) : shape_(shape), random_(7) {
    CpuOptions options;
    options.threads = threads;
    options.isa = testing::requested_isa();
    options.numerics = shape.numerics;
    backend_ = CpuBackend::make(options).value();
    const AttnSpec& spec = shape.spec;
    table_ = {"table", packed(kVocab), nullptr, {}};
    qkv_ = {"qkv", packed(spec.q_cols() + 2 * spec.kv_cols()), nullptr, {}};
    gate_up_ = {"gate_up", packed(2 * shape.hidden), nullptr, {}};
    down_ = {"down", packed(shape.hidden), nullptr, {}};
    output_ = {"output", packed(shape.hidden, spec.q_cols()), nullptr, {}};
    head_ = {"head", packed(kVocab), nullptr, {}};
    const std::vector<float> ones(static_cast<size_t>(shape.hidden), 1.0f);
    norm_ = {"norm", backend_->upload(ones).value(), 1e-5f};
    if (spec.sinks) sinks_ = backend_->upload(numbers(spec.heads)).value();
  }

  /// The first tokens of each sequence, a step for each entry of the cut. A sequence's blocks are where `first_block`
  /// says, one behind the other or every third.
  Rows run(const std::vector<std::vector<int32_t>>& tokens, const Cut& cut) {
    const auto count = static_cast<int32_t>(tokens.size());
    constexpr int32_t kBlocks = 64;
    KvLayout layout;
    CacheSpec cache;
    cache.kv_heads = shape_.spec.kv_heads;
    cache.head_dim = shape_.spec.head_dim;
    cache.window = shape_.spec.window;
    cache.stored = shape_.stored;
    cache.fresh = shape_.fresh;
    if (has_cache_scale(shape_.stored)) {
      std::vector<float> k, v;
      for (int head = 0; head < cache.kv_heads; ++head) {
        k.push_back(0.013f * static_cast<float>(3 + head));
        v.push_back(0.021f / static_cast<float>(1 + head));
      }
      cache.k_scale = KvScale::make(k, "test").value();
      cache.v_scale = KvScale::make(v, "test").value();
    }
    layout.layers = {cache};
    layout.class_blocks = {kBlocks * count};
    layout.block_tokens = kBlockTokens;
    auto kv = backend_->make_kv(layout).value();
    auto ops = backend_->make_ops(*kv, 4096).value();
    std::vector<int32_t> next(tokens.size(), 0);
    Rows rows(tokens.size());
    for (const std::vector<int>& step : cut) {
      std::vector<int32_t> ids, positions, blocks, begin{0}, first_position, sampled;
      std::vector<SequenceRows> sequences;
      for (size_t s = 0; s < step.size(); ++s) {
        if (step[s] == 0) continue;
        sequences.push_back({static_cast<int32_t>(ids.size()), step[s], next[s]});
        for (int i = 0; i < step[s]; ++i, ++next[s]) {
          sampled.push_back(static_cast<int32_t>(ids.size()));
          ids.push_back(tokens[s][static_cast<size_t>(next[s])]);
          positions.push_back(next[s]);
        }
        // Blocks of the sequences lie between each other, and a window has lost those before it.
        const int32_t oldest =
            shape_.spec.window ? std::max(0, sequences.back().first_position - *shape_.spec.window + 1) : 0;
        for (int32_t block = oldest / kBlockTokens; block * kBlockTokens < next[s]; ++block) {
          blocks.push_back(block * count + static_cast<int32_t>(s));
        }
        begin.push_back(static_cast<int32_t>(blocks.size()));
        first_position.push_back(oldest / kBlockTokens * kBlockTokens);
      }
      const CacheTable table{kBlockTokens, blocks, begin, first_position};
      ops->begin({ids, positions, sequences, {&table, 1}, sampled});
      const std::vector<float> out = forward(*ops);
      for (size_t at = 0, s = 0; s < step.size(); ++s) {
        const size_t size = static_cast<size_t>(step[s]) * kVocab;
        rows[s].insert(rows[s].end(), out.begin() + static_cast<std::ptrdiff_t>(at),
                       out.begin() + static_cast<std::ptrdiff_t>(at + size));
        at += size;
      }
    }
    return rows;
  }

 private:
  std::vector<float> numbers(int64_t count) {
    std::normal_distribution<float> normal(0, 0.3f);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random_);
    return values;
  }
  std::shared_ptr<const PackedMatrix> packed(int64_t rows, int64_t cols = 0) {
    if (cols == 0) cols = shape_.hidden;
    const QTensor tensor = encode(codec(shape_.weights), rows, cols, numbers(rows * cols)).value();
    return backend_->pack({&tensor, 1}, PackUse::kLinear).value();
  }
  std::vector<float> forward(Ops& ops) {
    AttnLayer layer;
    layer.spec = shape_.spec;
    layer.sinks = sinks_;
    Value x = ops.embed(table_, 1);
    Partial attended = ops.linear(ops.attend(ops.linear(ops.rms_norm(x, norm_), qkv_), layer), output_);
    x = ops.reduce_add(std::move(attended), std::move(x));
    Partial gated = ops.linear(ops.gate(ops.linear(ops.rms_norm(x, norm_), gate_up_), {}), down_);
    x = ops.reduce_add(std::move(gated), std::move(x));
    return ops.read(ops.linear(ops.select_rows(ops.rms_norm(x, norm_)), head_)).value();
  }

  Shape shape_;
  std::mt19937 random_;
  std::unique_ptr<Backend> backend_;
  Weight<Split::kNone> table_, head_;
  Weight<Split::kColumns> qkv_, gate_up_;
  Weight<Split::kRows> down_, output_;
  Norm norm_;
  std::shared_ptr<const PackedVector> sinks_;
};

/// Steps that take the sequences to their lengths: prompts in random chunks, ends row by row.
Cut random_cut(const std::vector<std::vector<int32_t>>& tokens, std::mt19937& random) {
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::vector<int> left;
  for (const auto& sequence : tokens) left.push_back(static_cast<int>(sequence.size()));
  Cut cut;
  while (std::ranges::any_of(left, [](int rows) { return rows > 0; })) {
    std::vector<int> step;
    for (int& rows : left) {
      const int most[] = {0, 1, 3, 9, 40, 300};
      step.push_back(std::min(rows, pick(0, most[pick(0, 5)])));
      rows -= step.back();
    }
    if (std::ranges::any_of(step, [](int rows) { return rows > 0; })) cut.push_back(std::move(step));
  }
  return cut;
}

::testing::AssertionResult same_bits(const std::vector<float>& found, const std::vector<float>& expected) {
  if (found.size() != expected.size()) return ::testing::AssertionFailure() << found.size() << " numbers";
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::memcmp(&found[i], &expected[i], sizeof(float)) == 0) continue;
    return ::testing::AssertionFailure() << "position " << i / kVocab << ": " << found[i] << ", alone " << expected[i];
  }
  return ::testing::AssertionSuccess();
}

void expect_rows_as_alone(const Shape& shape, int rounds, uint32_t seed) {
  std::mt19937 random(seed);
  std::map<int, std::unique_ptr<Layer>> layers;
  for (int threads : {1, 2, 3}) layers[threads] = std::make_unique<Layer>(shape, threads);
  std::vector<std::vector<int32_t>> tokens;
  for (int length : {420, 37, 1, 270, 90}) {
    std::vector<int32_t> ids;
    for (int i = 0; i < length; ++i) ids.push_back(std::uniform_int_distribution<int32_t>(0, kVocab - 1)(random));
    tokens.push_back(std::move(ids));
  }
  std::vector<std::vector<float>> alone;
  for (const auto& sequence : tokens) {
    alone.push_back(layers[1]->run({sequence}, {{static_cast<int>(sequence.size())}}).front());
  }
  for (int round = 0; round < rounds; ++round) {
    const Rows found = layers[1 + round % 3]->run(tokens, random_cut(tokens, random));
    for (size_t s = 0; s < tokens.size(); ++s) {
      ASSERT_TRUE(same_bits(found[s], alone[s]))
          << "sequence " << s << ", round " << round << ", weights " << codec(shape.weights).name << ", numerics "
          << static_cast<int>(shape.numerics);
    }
  }
  // Row by row, as an answer is.
  const Rows single = layers[2]->run({tokens[3]}, Cut(tokens[3].size(), {1}));
  ASSERT_TRUE(same_bits(single[0], alone[3])) << codec(shape.weights).name;
}

TEST(CpuRowBits, OfEveryKindOfWeight) {
  for (Numerics numerics : {Numerics::kFast, Numerics::kExact}) {
    for (CodecId id :
         {CodecId::kF32, CodecId::kBF16, CodecId::kF16, CodecId::kQ4_1, CodecId::kQ8_0, CodecId::kQ6_K, CodecId::kNvfp4,
          CodecId::kMxfp4, CodecId::kMxfp8, CodecId::kE4M3Tensor, CodecId::kE5M2Channel}) {
      Shape shape;
      shape.weights = id;
      shape.numerics = numerics;
      shape.hidden = id == CodecId::kQ6_K ? 256 : 64;
      shape.spec.heads = 4;
      shape.spec.kv_heads = 1;
      shape.spec.head_dim = 64;
      shape.spec.scale = 0.125f;
      shape.spec.rope.dim = 64;
      expect_rows_as_alone(shape, 4, 1);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CpuRowBits, OfEveryKindOfAttention) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](std::initializer_list<int> values) {
      return values.begin()[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random)];
    };
    Shape shape;
    shape.weights = CodecId::kBF16;
    AttnSpec& spec = shape.spec;
    spec.kv_heads = pick({1, 2, 3});
    spec.heads = spec.kv_heads * pick({1, 2, 3, 4, 5, 8});
    spec.head_dim = pick({8, 10, 32, 64, 72, 144});
    if (pick({0, 1}) == 1) spec.window = pick({1, 2, 5, 64, 200, 257, 300});
    spec.scale = 1 / std::sqrt(static_cast<float>(spec.head_dim));
    spec.soft_cap = static_cast<float>(pick({0, 0, 20}));
    spec.sinks = pick({0, 0, 1}) == 1;
    spec.rope.dim = spec.head_dim;
    constexpr CodecId kStored[] = {CodecId::kF32, CodecId::kF16, CodecId::kBF16, CodecId::kE4M3Tensor,
                                   CodecId::kE5M2Tensor};
    shape.stored = kStored[pick({0, 1, 2, 3, 3, 4})];
    // A step's own rows may be met as they were computed only where the cache would not change them.
    const bool exact = shape.stored == CodecId::kF32;
    shape.fresh = pick({0, 1}) == 0 ? FreshRows::kStored : exact ? FreshRows::kComputed : FreshRows::kRoundTrip;
    expect_rows_as_alone(shape, 6, seed);
    if (HasFatalFailure())
      FAIL() << "heads " << spec.heads << '/' << spec.kv_heads << " dim " << spec.head_dim << " window "
             << spec.window.value_or(0) << " cap " << spec.soft_cap;
  }
}

}  // namespace
}  // namespace vernier
