#include <gtest/gtest.h>

#include "ops/tolerance.h"
#include "testing/cuda_case.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::OpBench;
using testing::random_numbers;

/// Past the last number of rows of each kernel: parts of 4, a strip of 8, one of 16, one of 32, a tile of 64, one of
/// 128.
constexpr int32_t kRowCounts[] = {1, 4, 8, 9, 16, 17, 32, 33, 64, 65, 150};
constexpr int32_t kMostRows = 150;

struct FastCase {
  Codec codec;
  int64_t outputs, cols;
};

/// Parts that end within a tile; columns that end within a unit and leave quarters of different lengths.
std::vector<FastCase> fast_cases() {
  return {{codec(CodecId::kBF16), 70, 712},
          {codec(CodecId::kF16), 37, 292},
          {codec(CodecId::kE4M3Tensor), 150, 208},
          {codec(CodecId::kE4M3Channel), 37, 1040},
          {block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32), 300, 720},
          {block_codec(CodecId::kE4M3Block, 5, 256, ScaleType::kE8M0), 37, 528},
          {codec(CodecId::kE5M2Channel), 37, 400},
          {codec(CodecId::kMxfp8), 70, 288},
          {codec(CodecId::kMxfp4), 70, 352},
          {codec(CodecId::kNvfp4), 37, 608},
          {codec(CodecId::kQ4_0), 37, 288},
          {codec(CodecId::kQ4_1), 150, 544},
          {codec(CodecId::kQ8_0), 37, 288},
          {codec(CodecId::kQ4_K), 37, 512},
          {codec(CodecId::kQ6_K), 37, 768}};
}

class CudaFastProduct : public testing::CudaCase {
 protected:
  CudaFastProduct() : CudaCase(Numerics::kFast) {}
};

/// The first `rows` rows of x times the parts, plus a bias.
std::vector<float> product(Backend& backend, const std::vector<QTensor>& parts, const std::vector<float>& x,
                           int32_t rows, const std::vector<float>& bias) {
  CacheSpec cache;
  cache.kv_heads = 1;
  cache.head_dim = 2;
  OpBench bench(backend, cache, {.context_tokens = kMostRows, .max_rows = kMostRows});
  bench.set_inputs(kMostRows, parts.front().cols(), x);
  std::vector<std::vector<int32_t>> step(1);
  for (int32_t row = 0; row < rows; ++row) step[0].push_back(row);
  bench.driver().begin(step);
  return bench.read(bench.ops().linear(bench.input(), bench.weight<Split::kNone>(parts, bias)));
}

// CUDA-3, CUDA-5: every kernel agrees with float64 as far as rounding activations to bf16 allows, and all of them with
// each other to the bit.
TEST_F(CudaFastProduct, EveryKernelAddsInOneOrder) {
  std::mt19937 random(11);
  for (const FastCase& of : fast_cases()) {
    SCOPED_TRACE(of.codec.name);
    std::vector<QTensor> parts;
    for (float spread : {0.3f, 1.7f}) {
      parts.push_back(
          encode(of.codec, of.outputs, of.cols, random_numbers(random, of.outputs * of.cols, spread, 0.04f)).value());
    }
    const std::vector<float> x = random_numbers(random, kMostRows * of.cols, 1.3f, 0.2f);
    const std::vector<float> bias = random_numbers(random, 2 * of.outputs, 0.5f);
    const std::vector<float> most = product(backend(), parts, x, kMostRows, bias);
    for (int32_t rows : kRowCounts) {
      const std::vector<float> found = product(backend(), parts, x, rows, bias);
      ASSERT_TRUE(std::equal(found.begin(), found.end(), most.begin())) << rows << " rows";
    }
    std::vector<float> weights(static_cast<size_t>(of.cols));
    for (int64_t output = 0; output < 2 * of.outputs; ++output) {
      parts[static_cast<size_t>(output / of.outputs)].decode_row(output % of.outputs, weights);
      for (int64_t row = 0; row < kMostRows; row += 7) {
        const std::span<const float> in(x.data() + row * of.cols, weights.size());
        double exact = bias[static_cast<size_t>(output)], products = 0;
        for (size_t i = 0; i < weights.size(); ++i) {
          exact += double{in[i]} * weights[i];
          products += std::abs(double{in[i]} * weights[i]);
        }
        const double found = most[static_cast<size_t>(row * 2 * of.outputs + output)];
        ASSERT_LE(std::abs(found - exact),
                  product_tolerance(in, weights, Numerics::kExact) + rounding_step(CodecId::kBF16) * products)
            << "row " << row << " output " << output;
        ASSERT_LE(std::abs(found - exact),
                  product_tolerance(in, weights, Numerics::kFast) + std::ldexp(std::abs(exact), -23))
            << "row " << row << " output " << output;
      }
    }
  }
}

/// Rows normed, multiplied, and gated: a product takes its neighbours in where there are few rows.
std::vector<float> feed(Backend& backend, const std::vector<QTensor>& parts, const std::vector<float>& x, int32_t rows,
                        bool normed) {
  CacheSpec cache;
  cache.kv_heads = 1;
  cache.head_dim = 2;
  std::mt19937 random(5);
  OpBench bench(backend, cache, {.context_tokens = kMostRows, .max_rows = kMostRows});
  const int64_t cols = parts.front().cols();
  int64_t outputs = 0;
  for (const QTensor& part : parts) outputs += part.rows();
  bench.set_inputs(kMostRows, cols, x);
  std::vector<std::vector<int32_t>> step(1);
  for (int32_t row = 0; row < rows; ++row) step[0].push_back(row);
  bench.driver().begin(step);
  const Norm norm{"norm", bench.vector(random_numbers(random, cols, 0.3f, 1.0f)), 1e-5f};
  const auto weight = bench.weight<Split::kColumns>(parts, random_numbers(random, outputs, 0.4f));
  const Value in = normed ? bench.ops().rms_norm(bench.input(), norm) : bench.input();
  const Shard both = bench.ops().linear(in, weight);
  return bench.read(bench.ops().gate(both, {Act::kSilu, 0.9f, 1.702f, 1}));
}

// CUDA-5: what a product takes with it changes no bit, nor how many rows there are.
TEST_F(CudaFastProduct, NeighboursWithinAProductChangeNoBit) {
  std::mt19937 random(12);
  for (const FastCase& of : fast_cases()) {
    for (int64_t outputs : {of.outputs / 16 * 16, of.outputs}) {
      SCOPED_TRACE(std::string(of.codec.name) + " " + std::to_string(outputs));
      std::vector<QTensor> parts;
      for (float spread : {0.3f, 0.7f}) {
        parts.push_back(
            encode(of.codec, outputs, of.cols, random_numbers(random, outputs * of.cols, spread, 0.04f)).value());
      }
      const std::vector<float> x = random_numbers(random, kMostRows * of.cols, 1.3f, 0.2f);
      for (bool normed : {true, false}) {
        const std::vector<float> most = feed(backend(), parts, x, kMostRows, normed);
        for (int32_t rows : {1, 3, 8, 9}) {
          const std::vector<float> found = feed(backend(), parts, x, rows, normed);
          ASSERT_TRUE(std::equal(found.begin(), found.end(), most.begin())) << rows << " rows";
        }
      }
    }
  }
}

// CUDA-5: experts in two launches, each by launches of its own, and by tiles, and more rows of one expert than a block
// takes at once; with a norm and the router's product in the launch that chooses, and as launches of their own.
TEST_F(CudaFastProduct, ExpertsAnswerARowAlikeInAnyCrowd) {
  constexpr int kExperts = 8;
  constexpr int64_t kHidden = 352, kWidth = 288;
  const auto answers = [&](const Codec& codec, const Codec& router, int32_t rows) {
    std::mt19937 random(6);
    CacheSpec cache;
    cache.kv_heads = 1;
    cache.head_dim = 2;
    OpBench bench(backend(), cache, {.context_tokens = kMostRows, .max_rows = kMostRows});
    bench.set_inputs(kMostRows, kHidden, random_numbers(random, kMostRows * kHidden, 1.0f, 0.1f));
    const auto matrix = [&](int64_t outputs, int64_t cols) {
      return encode(codec, outputs, cols, random_numbers(random, outputs * cols, 0.1f)).value();
    };
    ExpertsLayer layer;
    layer.name = "experts";
    layer.spec.experts = kExperts, layer.spec.chosen = 2, layer.spec.width = kWidth;
    layer.spec.gate = {Act::kSilu, 0.9f, 1.702f, 1};
    std::vector<float> bias(kExperts, 0.0f);
    bias[3] = 50;  // every row's
    layer.router = bench.weight<Split::kNone>(
        {encode(router, kExperts, kHidden, random_numbers(random, kExperts * kHidden, 0.2f)).value()}, bias,
        PackUse::kRouter);
    const Norm norm{"norm", bench.vector(random_numbers(random, kHidden, 0.3f, 1.0f)), 1e-5f};
    for (int i = 0; i < kExperts; ++i) {
      layer.gate_up.push_back(bench.weight<Split::kColumns>({matrix(kWidth, kHidden), matrix(kWidth, kHidden)},
                                                            random_numbers(random, 2 * kWidth, 0.3f)));
      layer.down.push_back(
          bench.weight<Split::kRows>({matrix(kHidden, kWidth)}, random_numbers(random, kHidden, 0.3f)));
    }
    std::vector<std::vector<int32_t>> step(1);
    for (int32_t row = 0; row < rows; ++row) step[0].push_back(row);
    bench.driver().begin(step);
    return bench.read(bench.ops().reduce(bench.ops().experts(bench.ops().rms_norm(bench.input(), norm), layer)));
  };
  for (const Codec& of :
       {codec(CodecId::kMxfp4), codec(CodecId::kBF16), codec(CodecId::kE4M3Channel), codec(CodecId::kQ8_0)}) {
    SCOPED_TRACE(of.name);
    for (const Codec& router : {codec(CodecId::kF32), codec(CodecId::kBF16), codec(CodecId::kF16)}) {
      const std::vector<float> most = answers(of, router, kMostRows);
      for (int32_t rows : {1, 2, 8, 9, 40, 64, 65}) {
        const std::vector<float> found = answers(of, router, rows);
        ASSERT_TRUE(std::equal(found.begin(), found.end(), most.begin())) << router.name << ", " << rows << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace vernier
