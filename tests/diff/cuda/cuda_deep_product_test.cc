#include <gtest/gtest.h>

#include "backends/cuda/kernels/fast.h"
#include "ops/tolerance.h"
#include "tensor/scalar.h"
#include "testing/cuda_case.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::OpBench;
using testing::random_numbers;

constexpr int32_t kMostRows = 300;

class CudaDeepProduct : public testing::CudaCase {
 protected:
  CudaDeepProduct() : CudaCase(Numerics::kFast) {}
};

struct DeepCase {
  Codec codec;
  const char* kernel;
};
std::vector<DeepCase> deep_cases() {
  return {{block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32), "deep_tiles_e4m3"},
          {block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kE8M0), "deep_tiles_e4m3"},
          {codec(CodecId::kE4M3Channel), "deep_tiles_e4m3"},
          {codec(CodecId::kE4M3Tensor), "deep_tiles_e4m3"},
          {codec(CodecId::kBF16), "deep_tiles_bf16"}};
}

/// Rows as `dynamic` activations are: a scale for 128 numbers, the largest / 448.
std::vector<float> in_e4m3(std::span<const float> x, int64_t cols) {
  std::vector<float> rounded(x.begin(), x.end());
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(cols)) {
    for (size_t begin = 0; begin < static_cast<size_t>(cols); begin += cuda::kUnitColumns) {
      const size_t end = std::min(begin + cuda::kUnitColumns, static_cast<size_t>(cols));
      float largest = cuda::kLeastLargest;
      for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(x[row + i]));
      const float scale = largest / cuda::kLargestE4M3;
      for (size_t i = begin; i < end; ++i) rounded[row + i] = e4m3_to_f32(f32_to_e4m3(x[row + i] / scale)) * scale;
    }
  }
  return rounded;
}

/// One step of `rows` rows, each after its own number of inputs.
std::vector<std::vector<int32_t>> step_of(int32_t rows) {
  std::vector<std::vector<int32_t>> step(1);
  for (int32_t row = 0; row < rows; ++row) step[0].push_back(row);
  return step;
}

CacheSpec some_cache() {
  CacheSpec cache;
  cache.kv_heads = 1;
  cache.head_dim = 2;
  return cache;
}

/// The numbers of some rows against float64 sums of what the kernel was given, `before` added; and against
/// what was asked for.
void check_rows(const std::vector<float>& found, const std::vector<QTensor>& parts, const std::vector<float>& x,
                const std::vector<float>& before, bool bytes) {
  const int64_t cols = parts.front().cols();
  const std::vector<float> given = bytes ? in_e4m3(x, cols) : x;
  const size_t outputs = found.size() / (x.size() / static_cast<size_t>(cols));
  std::vector<float> weights(static_cast<size_t>(cols));
  size_t output = 0;
  for (const QTensor& part : parts) {
    for (int64_t of = 0; of < part.rows(); ++of, ++output) {
      part.decode_row(of, weights);
      for (size_t row = 0; row * weights.size() < x.size(); row += row < 21 ? 7 : 37) {
        const std::span<const float> in(x.data() + row * weights.size(), weights.size());
        double asked = before[row * outputs + output], exact = asked, products = 0;
        for (size_t i = 0; i < weights.size(); ++i) {
          const double product = double{given[row * weights.size() + i]} * weights[i];
          asked += double{in[i]} * weights[i];
          exact += product;
          products += std::abs(product);
        }
        const double is = found[row * outputs + output], last = std::ldexp(std::abs(exact), -23);
        const double sum = bytes ? std::ldexp(products, -kE4M3SumBits)
                                 : product_tolerance(in, weights, Numerics::kExact) + std::ldexp(products, -8);
        ASSERT_LE(std::abs(is - exact), sum + last) << "row " << row << " output " << output;
        ASSERT_LE(std::abs(is - asked),
                  (bytes ? e4m3_rows_tolerance(in, weights) : product_tolerance(in, weights, Numerics::kFast)) + last)
            << "row " << row << " output " << output;
      }
    }
  }
}

// CUDA-3: parts that end within tiles, columns within a unit, rows within a tile; with a bias.
TEST_F(CudaDeepProduct, AgreesWithWhatItIsGiven) {
  constexpr int64_t kCols = 1712;
  std::mt19937 random(21);
  const std::vector<float> x = random_numbers(random, kMostRows * kCols, 1.3f, 0.2f);
  for (const DeepCase& of : deep_cases()) {
    SCOPED_TRACE(std::string(of.codec.name) + (of.codec.inner == ScaleType::kE8M0 ? " e8m0" : ""));
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1290, 1231, 6}, std::vector<int64_t>{2544, 72}}) {
      std::vector<QTensor> parts;
      int64_t outputs = 0;
      for (int64_t size : sizes) {
        outputs += size;
        const float spread = 0.3f + 0.4f * static_cast<float>(parts.size());
        parts.push_back(encode(of.codec, size, kCols, random_numbers(random, size * kCols, spread, 0.04f)).value());
      }
      const std::vector<float> bias = random_numbers(random, outputs, 20.0f);
      OpBench bench(backend(), some_cache(), {.context_tokens = kMostRows, .max_rows = kMostRows});
      const auto weight = bench.weight<Split::kNone>(parts, bias);
      bench.set_inputs(kMostRows, kCols, x);
      for (int32_t rows : {131, kMostRows}) {
        const Choice choice = backend().explain_linear(*weight.matrix, rows).front();
        if (choice.candidates.front().reason.code == ReasonCode::kNeedsFeature)
          GTEST_SKIP() << choice.candidates.front().reason.detail;
        ASSERT_EQ(choice.chosen().kernel, of.kernel);
        bench.driver().begin(step_of(rows));
        const std::vector<float> found = bench.read(bench.ops().linear(bench.input(), weight));
        std::vector<float> before;
        for (int32_t row = 0; row < rows; ++row) before.insert(before.end(), bias.begin(), bias.end());
        check_rows(found, parts, std::vector<float>(x.begin(), x.begin() + rows * kCols), before,
                   of.codec.element == Element::kE4M3);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A sum that is added to what stood there, and rows of zeros, of tiny numbers and of one large one.
TEST_F(CudaDeepProduct, AddsToAResidualAndTakesRowsOfZeros) {
  constexpr int64_t kCols = 1344;
  std::mt19937 random(22);
  std::vector<float> x = random_numbers(random, kMostRows * kCols, 0.7f, 0.1f);
  const auto row_of = [&](int64_t row) { return std::span(x).subspan(static_cast<size_t>(row * kCols), kCols); };
  std::ranges::fill(row_of(7), 0.0f);
  for (float& number : row_of(14)) number *= 1e-30f;
  row_of(21)[200] = 3e4f;
  for (const DeepCase& of : deep_cases()) {
    SCOPED_TRACE(of.codec.name);
    const std::vector<QTensor> parts = {
        encode(of.codec, kCols, kCols, random_numbers(random, kCols * kCols, 0.5f)).value()};
    OpBench bench(backend(), some_cache(), {.context_tokens = kMostRows, .max_rows = kMostRows});
    const auto weight = bench.weight<Split::kRows>(parts);
    bench.set_inputs(kMostRows, kCols, x);
    const Choice choice = backend().explain_linear(*weight.matrix, kMostRows).front();
    if (choice.candidates.front().reason.code == ReasonCode::kNeedsFeature)
      GTEST_SKIP() << choice.candidates.front().reason.detail;
    ASSERT_EQ(choice.chosen().kernel, of.kernel);
    bench.driver().begin(step_of(kMostRows));
    Value residual = bench.input();
    Partial sum = bench.ops().linear(bench.input_shard(), weight);
    const std::vector<float> found = bench.read(bench.ops().reduce_add(std::move(sum), std::move(residual)));
    check_rows(found, parts, x, x, of.codec.element == Element::kE4M3);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace vernier
