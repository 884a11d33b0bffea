#include "ops/ref_ops.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tensor/scalar.h"
#include "tensor/tensor.h"
#include "testing/step_driver.h"

namespace vernier {
namespace {

using ::testing::Each;
using ::testing::FloatNear;
using ::testing::Pointwise;
using testing::StepDriver;

/// A backend, one layer's cache, and embeddings whose rows are the inputs of an op: token t brings row t of `table`.
class RefOpsTest : public ::testing::Test {
 protected:
  std::shared_ptr<const PackedMatrix> matrix(int64_t rows, int64_t cols, const std::vector<float>& values) {
    QTensor dense = QTensor::from_dense(Tensor::from_floats(Shape{rows, cols}, values), "test").value();
    return backend_.pack(std::span(&dense, 1), PackUse::kLinear).value();
  }
  Weight<Split::kNone> table(int64_t rows, int64_t cols, const std::vector<float>& values) {
    return {"table", matrix(rows, cols, values), nullptr, {}};
  }
  /// A matrix that passes its input on, as a Shard.
  Weight<Split::kColumns> identity(int64_t size) {
    std::vector<float> values(static_cast<size_t>(size * size));
    for (int64_t i = 0; i < size; ++i) values[static_cast<size_t>(i * size + i)] = 1;
    return {"identity", matrix(size, size, values), nullptr, {}};
  }
  Weight<Split::kRows> identity_rows(int64_t size) { return {"identity", identity(size).matrix, nullptr, {}}; }

  CacheSpec cache(const AttnSpec& spec, CodecId stored = CodecId::kF32) {
    CacheSpec result;
    result.kv_heads = spec.kv_heads;
    result.head_dim = spec.head_dim;
    result.window = spec.window;
    result.stored = stored;
    return result;
  }
  AttnSpec attn(int heads, int kv_heads, int head_dim) {
    AttnSpec spec;
    spec.heads = heads;
    spec.kv_heads = kv_heads;
    spec.head_dim = head_dim;
    spec.rope.dim = head_dim;
    return spec;
  }

  /// Attention over one sequence whose row t is q, k and v of `rows[t]`, fed `chunk` rows at a time.
  std::vector<float> attend(const AttnLayer& layer, const CacheSpec& spec, const std::vector<std::vector<float>>& rows,
                            size_t chunk) {
    std::vector<float> flat;
    for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
    const int64_t cols = static_cast<int64_t>(rows[0].size());
    Weight<Split::kNone> inputs = table(static_cast<int64_t>(rows.size()), cols, flat);
    StepDriver driver(backend_, {spec}, {});
    std::vector<float> out;
    for (size_t begin = 0; begin < rows.size(); begin += chunk) {
      std::vector<std::vector<int32_t>> step(1);
      for (size_t t = begin; t < std::min(rows.size(), begin + chunk); ++t) step[0].push_back(static_cast<int32_t>(t));
      driver.begin(step);
      {
        Ops& ops = driver.ops();
        Shard qkv = ops.linear(ops.embed(inputs, 1), identity(cols));
        Value result = ops.reduce(ops.linear(ops.attend(qkv, layer), identity_rows(layer.spec.q_cols())));
        std::vector<float> numbers = ops.read(result).value();
        out.insert(out.end(), numbers.begin(), numbers.end());
      }
      driver.commit(step);
    }
    return out;
  }

  RefBackend backend_;
};

TEST_F(RefOpsTest, EmbedLinearAndSelect) {
  Weight<Split::kNone> inputs = table(3, 2, {1, 2, 3, 4, 5, 6});
  Weight<Split::kNone> weight = table(3, 2, {1, 0, 0, 1, 2, -1});
  weight.bias = backend_.upload(std::vector<float>{0.5f, 0, -1}).value();
  StepDriver driver(backend_, {cache(attn(1, 1, 2))}, {});
  driver.begin({{2, 0}});
  Ops& ops = driver.ops();
  Value x = ops.embed(inputs, 0.5f);
  EXPECT_THAT(*ops.read(x), ::testing::ElementsAre(2.5f, 3, 0.5f, 1));
  Value y = ops.linear(ops.select_rows(x), weight);
  EXPECT_THAT(*ops.read(y), ::testing::ElementsAre(3, 3, 1, 1, 1, -1));
}

TEST_F(RefOpsTest, NormGateAddAndCap) {
  Weight<Split::kNone> inputs = table(1, 4, {1, -2, 3, 4});
  StepDriver driver(backend_, {cache(attn(1, 1, 2))}, {});
  driver.begin({{0}});
  Ops& ops = driver.ops();
  Value x = ops.embed(inputs, 1);
  Norm norm{"norm", backend_.upload(std::vector<float>{1, 2, 1, 0.5f}).value(), 0.5f};
  const double inverse = 1 / std::sqrt(30.0 / 4 + 0.5);
  EXPECT_THAT(*ops.read(ops.rms_norm(x, norm)),
              Pointwise(FloatNear(1e-6f), {inverse, -4 * inverse, 3 * inverse, 2 * inverse}));
  auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  auto gelu = [](double v) { return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))); };
  auto gated = [&](Act act) {
    return *ops.read(ops.reduce(ops.linear(ops.gate(ops.linear(x, identity(4)), GateSpec{act}), identity_rows(2))));
  };
  EXPECT_THAT(gated(Act::kSilu), Pointwise(FloatNear(1e-6f), {silu(1) * 3, silu(-2) * 4}));
  EXPECT_THAT(gated(Act::kGeluTanh), Pointwise(FloatNear(1e-6f), {gelu(1) * 3, gelu(-2) * 4}));
  Value sum = ops.add(ops.embed(inputs, 2), ops.embed(inputs, 1));
  EXPECT_THAT(*ops.read(sum), ::testing::ElementsAre(3, -6, 9, 12));
  EXPECT_THAT(
      *ops.read(ops.soft_cap(std::move(sum), 5)),
      Pointwise(FloatNear(1e-6f), {5 * std::tanh(0.6), 5 * std::tanh(-1.2), 5 * std::tanh(1.8), 5 * std::tanh(2.4)}));
}

TEST_F(RefOpsTest, LayerNormActivationsAndLookUp) {
  Weight<Split::kNone> inputs = table(2, 4, {1, -2, 3, 4, 0, 1, 0, 2});
  StepDriver driver(backend_, {cache(attn(1, 1, 2))}, {});
  driver.begin({{0, 1, 0}});
  Ops& ops = driver.ops();
  Value x = ops.embed(inputs, 1);
  LayerNorm norm{"norm", backend_.upload(std::vector<float>{1, 2, 1, 0.5f}).value(),
                 backend_.upload(std::vector<float>{0, 0.25f, -1, 3}).value(), 0.75f};
  // Row 0: mean 1.5, variance 5.25; row 1: mean 0.75, variance 0.6875.
  const double a = 1 / std::sqrt(6.0), b = 1 / std::sqrt(1.4375);
  EXPECT_THAT(
      *ops.read(ops.layer_norm(x, norm)),
      Pointwise(FloatNear(1e-6f), {-0.5 * a, -7 * a + 0.25, 1.5 * a - 1, 1.25 * a + 3, -0.75 * b, 0.5 * b + 0.25,
                                   -0.75 * b - 1, 0.625 * b + 3, -0.5 * a, -7 * a + 0.25, 1.5 * a - 1, 1.25 * a + 3}));
  auto activated = [&](Act act) {
    Shard some = ops.linear(ops.select_rows(x), identity(4));
    std::vector<float> all = *ops.read(ops.reduce(ops.linear(ops.activate(some, act), identity_rows(4))));
    return std::vector<float>(all.begin(), all.begin() + 4);
  };
  // x times the normal distribution's integral, from its tables.
  EXPECT_THAT(activated(Act::kGelu),
              Pointwise(FloatNear(1e-6f), {0.8413447, -2 * 0.0227501, 3 * 0.9986501, 3.9998733}));
  EXPECT_NEAR(activated(Act::kGeluTanh)[1], -0.0454023, 1e-6);
  EXPECT_NEAR(activated(Act::kSilu)[2], 3 / (1 + std::exp(-3.0)), 1e-6);
  Weight<Split::kNone> other = table(3, 1, {5, 7, 9});
  EXPECT_THAT(*ops.read(ops.look_up(other, LookUp::kPosition)), ::testing::ElementsAre(5, 7, 9));
  EXPECT_THAT(*ops.read(ops.look_up(other, LookUp::kFirst)), ::testing::ElementsAre(5, 5, 5));
}

// Equal scores make attention the mean of what is visible: without `causal`, of the whole sequence.
TEST_F(RefOpsTest, AnEncodersRowsSeeAllOfTheirSequence) {
  Weight<Split::kNone> inputs = table(4, 6, {0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 3, 6, 0, 0, 0, 0, 8, 1, 0, 0, 0, 0, 5, 9});
  AttnLayer layer;
  layer.spec = attn(1, 1, 2);
  layer.spec.causal = false;
  layer.spec.rope.dim = 0;
  StepDriver driver(backend_, {cache(layer.spec)}, {.sequences = 2});
  driver.begin({{0, 1, 2}, {3}});
  Ops& ops = driver.ops();
  Shard qkv = ops.linear(ops.embed(inputs, 1), identity(6));
  EXPECT_THAT(*ops.read(ops.reduce(ops.linear(ops.attend(qkv, layer), identity_rows(2)))),
              ::testing::ElementsAre(4, 3, 4, 3, 4, 3, 5, 9));
}

// OPS-4: key k is visible to query q when k <= q and q - k < window. Equal scores make attention the mean of what is
// visible.
TEST_F(RefOpsTest, WindowInAbsolutePositions) {
  std::vector<std::vector<float>> rows;  // q = k = 0, v = (2^t, t)
  for (int t = 0; t < 12; ++t) rows.push_back({0, 0, 0, 0, std::ldexp(1.0f, t), static_cast<float>(t)});
  for (int window : {1, 3, 4, 5, 20}) {
    AttnLayer layer;
    layer.spec = attn(1, 1, 2);
    layer.spec.window = window;
    for (size_t chunk : {1, 3, 12}) {
      std::vector<float> out = attend(layer, cache(layer.spec), rows, chunk);
      for (int t = 0; t < 12; ++t) {
        double sum = 0, count = 0;
        for (int k = std::max(0, t - window + 1); k <= t; ++k, ++count) sum += std::ldexp(1.0, k);
        EXPECT_FLOAT_EQ(out[static_cast<size_t>(2 * t)], static_cast<float>(sum / count))
            << "window " << window << " chunk " << chunk << " row " << t;
      }
    }
  }
}

TEST_F(RefOpsTest, ScoresAreScaledCappedAndRotatedByDistance) {
  AttnLayer layer;
  layer.spec = attn(2, 1, 2);  // one kv head for both
  layer.spec.scale = 0.7f;
  layer.spec.soft_cap = 1.5f;
  // q of head 0, q of head 1, k, v
  std::vector<std::vector<float>> rows = {{0, 0, 0, 0, 1, 2, 1, 0}, {3, 1, -1, 2, 2, -1, 0, 1}};
  std::vector<float> out = attend(layer, cache(layer.spec), rows, 2);
  for (int head = 0; head < 2; ++head) {
    const double q0 = head == 0 ? 3 : -1, q1 = head == 0 ? 1 : 2;
    // Key 0 stands one position before the query: turning the query by one radian gives their product.
    const double r0 = q0 * std::cos(1.0) - q1 * std::sin(1.0), r1 = q1 * std::cos(1.0) + q0 * std::sin(1.0);
    auto cap = [](double score) { return 1.5 * std::tanh(0.7f * score / 1.5); };
    const double far = std::exp(cap(r0 * 1 + r1 * 2)), near = std::exp(cap(q0 * 2 - q1));
    EXPECT_NEAR(out[static_cast<size_t>(4 + 2 * head)], far / (far + near), 1e-6);
    EXPECT_NEAR(out[static_cast<size_t>(5 + 2 * head)], near / (far + near), 1e-6);
  }
}

TEST_F(RefOpsTest, SinkJoinsTheDenominatorOnce) {
  AttnLayer layer;
  layer.spec = attn(2, 1, 2);
  layer.spec.sinks = true;
  layer.sinks = backend_.upload(std::vector<float>{std::log(3.0f), -INFINITY}).value();
  std::vector<std::vector<float>> rows(2, {0, 0, 0, 0, 0, 0, 5, 10});
  std::vector<float> out = attend(layer, cache(layer.spec), rows, 1);
  EXPECT_THAT(out, Pointwise(FloatNear(1e-5f), std::vector<float>{1.25f, 2.5f, 5, 10, 2, 4, 5, 10}));
}

TEST_F(RefOpsTest, NormsOfHeadsComeBeforeRope) {
  AttnLayer layer;
  layer.spec = attn(1, 1, 2);
  layer.spec.qk_norm = true;
  layer.q_norm = backend_.upload(std::vector<float>{2, 1}).value();
  layer.k_norm = backend_.upload(std::vector<float>{1, 3}).value();
  std::vector<std::vector<float>> rows = {{0, 0, 1, 2, 1, 0}, {3, 4, -2, 1, 0, 1}};
  std::vector<float> out = attend(layer, cache(layer.spec), rows, 2);
  const double q = 1 / std::sqrt(12.5), k = 1 / std::sqrt(2.5);
  const double q0 = 6 * q, q1 = 4 * q;
  const double r0 = q0 * std::cos(1.0) - q1 * std::sin(1.0), r1 = q1 * std::cos(1.0) + q0 * std::sin(1.0);
  const double far = std::exp(r0 * k + r1 * 6 * k), near = std::exp(q0 * -2 * k + q1 * 3 * k);
  EXPECT_NEAR(out[2], far / (far + near), 1e-6);
}

// OPS-5: what is read back is what the stored type holds, under each role's own scale; a missing scale is 1.
TEST_F(RefOpsTest, CacheKeepsItsStoredTypeAndScales) {
  AttnLayer layer;
  layer.spec = attn(1, 1, 2);
  layer.spec.window = 1;  // a row sees itself alone: the output is its own value, as stored
  std::vector<std::vector<float>> rows = {{0, 0, 0, 0, 0.123456f, -3.3333f}};
  for (auto [k_scale, v_scale] : {std::pair<std::optional<float>, std::optional<float>>{0.3f, 1.7f}, {0.3f, {}}}) {
    CacheSpec spec = cache(layer.spec, CodecId::kE4M3Tensor);
    spec.k_scale = k_scale;
    spec.v_scale = v_scale;
    const float scale = v_scale.value_or(1);
    auto stored = [&](float value) { return e4m3_to_f32(f32_to_e4m3(value / scale)) * scale; };
    EXPECT_THAT(attend(layer, spec, rows, 1), Pointwise(FloatNear(1e-6f), {stored(0.123456f), stored(-3.3333f)}));
  }
  EXPECT_THAT(attend(layer, cache(layer.spec, CodecId::kBF16), rows, 1),
              ::testing::ElementsAre(bf16_to_f32(f32_to_bf16(0.123456f)), bf16_to_f32(f32_to_bf16(-3.3333f))));
}

TEST_F(RefOpsTest, UnwrittenSlotsAreNaN) {
  RefKvStore store(KvLayout{{cache(attn(1, 1, 2), CodecId::kF16)}, {1}, 4});
  std::vector<float> out(2);
  store.reader<KvRole::kKey>(0).read(3, 0, out);
  EXPECT_THAT(out, Each(::testing::IsNan()));
}

TEST_F(RefOpsTest, LayoutsThatCannotBeAreErrors) {
  CacheSpec spec = cache(attn(1, 1, 2));
  EXPECT_FALSE(backend_.make_kv(KvLayout{{spec}, {}, 4}).ok());
  EXPECT_FALSE(backend_.make_kv(KvLayout{{spec}, {4}, 0}).ok());
  spec.stored = CodecId::kQ8_0;
  EXPECT_EQ(backend_.make_kv(KvLayout{{spec}, {4}, 4}).error().code, ErrorCode::kUnsupported);
}

TEST_F(RefOpsTest, SamplesEachRowUnderItsOwnSpec) {
  StepDriver driver(backend_, {cache(attn(1, 1, 2))}, {});
  driver.begin({{0, 1}});
  Value logits = driver.ops().embed(table(2, 3, {0, 2, 1, 5, 0, 0}), 1);
  SampleSpec greedy;
  greedy.temperature = 0;
  SampleSpec biased = greedy;
  biased.edits = {LogitEdit{2, 10, 1, 0}};
  auto tokens = driver.ops().sample(logits, std::vector<SampleSpec>{greedy, biased});
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ((*tokens)[0]->token, 1);
  EXPECT_EQ((*tokens)[1]->token, 2);
}

}  // namespace
}  // namespace vernier
