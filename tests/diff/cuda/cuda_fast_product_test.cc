#include <gtest/gtest.h>

#include "ops/tolerance.h"
#include "testing/cuda_case.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::OpBench;
using testing::random_numbers;

/// Past the last number of rows of each kernel: a strip of 8, one of 16, a tile of 64, one of 128.
constexpr int32_t kRowCounts[] = {1, 8, 9, 16, 17, 64, 65, 150};
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

}  // namespace
}  // namespace vernier
