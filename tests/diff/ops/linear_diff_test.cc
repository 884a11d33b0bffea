#include <gtest/gtest.h>

#include <algorithm>

#include "ops/tolerance.h"
#include "testing/backends.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::BackendCase;
using testing::OpBench;
using testing::random_numbers;

struct Extents {
  int64_t rows, outputs, inputs;
};

/// Ragged against every tile: one row and several, one output, no multiple of 4, 8 or 16.
const Extents kExtents[] = {{1, 1, 256}, {1, 67, 256}, {2, 64, 512}, {5, 35, 256}, {19, 96, 768}, {33, 40, 256}};

class LinearDiff : public ::testing::TestWithParam<std::tuple<BackendCase, CodecId>> {};

/// Fused parts of one codec, each encoded apart, so that each has scales of its own.
std::vector<QTensor> parts(std::mt19937& random, const Codec& codec, int64_t outputs, int64_t inputs) {
  std::vector<QTensor> segments;
  const int64_t first = outputs > 4 ? outputs / 3 : outputs;
  for (int64_t rows : {first, outputs - first}) {
    if (rows == 0) continue;
    const float spread = segments.empty() ? 0.3f : 1.7f;
    segments.push_back(encode(codec, rows, inputs, random_numbers(random, rows * inputs, spread, 0.05f)).value());
  }
  return segments;
}

TEST_P(LinearDiff, AgainstTheReference) {
  const auto& [candidate, id] = GetParam();
  auto backend = candidate.make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  std::mt19937 random(7);
  for (const Extents& extents : kExtents) {
    std::vector<QTensor> segments = parts(random, codec(id), extents.outputs, extents.inputs);
    std::vector<float> x = random_numbers(random, extents.rows * extents.inputs, 1.3f, 0.2f);
    std::vector<float> bias = random_numbers(random, extents.outputs, 0.5f);
    std::vector<std::vector<int32_t>> step(1);
    for (int64_t row = 0; row < extents.rows; ++row) step[0].push_back(static_cast<int32_t>(row));
    auto product = [&](Backend& of) {
      OpBench bench(of);
      bench.set_inputs(extents.rows, extents.inputs, x);
      bench.driver().begin(step);
      return bench.read(bench.ops().linear(bench.input(), bench.weight<Split::kNone>(segments, bias)));
    };
    RefBackend reference;
    std::vector<float> expected = product(reference), found = product(**backend);
    ASSERT_EQ(found.size(), expected.size());
    int64_t output = 0;
    for (const QTensor& segment : segments) {
      std::vector<float> decoded(static_cast<size_t>(extents.inputs));
      for (int64_t i = 0; i < segment.rows(); ++i, ++output) {
        segment.decode_row(i, decoded);
        // AUDIT-5: the bound that `verify numerics` judges by.
        for (int64_t row = 0; row < extents.rows; ++row) {
          std::span<const float> in(x.data() + row * extents.inputs, decoded.size());
          const size_t at = static_cast<size_t>(row * extents.outputs + output);
          const double limit =
              product_tolerance(in, decoded, candidate.numerics) + std::ldexp(std::abs(expected[at]), -23);
          ASSERT_LE(std::abs(double{found[at]} - expected[at]), limit)
              << extents.rows << " x " << extents.outputs << " x " << extents.inputs << ", row " << row << " output "
              << output << ": " << found[at] << ", expected " << expected[at];
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, LinearDiff,
    ::testing::Combine(::testing::ValuesIn(testing::backend_cases()),
                       ::testing::Values(CodecId::kF32, CodecId::kF16, CodecId::kBF16, CodecId::kQ4_0, CodecId::kQ4_1,
                                         CodecId::kQ5_0, CodecId::kQ5_1, CodecId::kQ8_0, CodecId::kQ4_K, CodecId::kQ5_K,
                                         CodecId::kQ6_K, CodecId::kMxfp4, CodecId::kNvfp4, CodecId::kMxfp8,
                                         CodecId::kE4M3Tensor, CodecId::kE4M3Channel, CodecId::kE5M2Channel)),
    [](const auto& info) {
      std::string name = std::get<0>(info.param).name + "_" + std::string(codec(std::get<1>(info.param)).name);
      std::replace_if(
          name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
      return name;
    });

}  // namespace
}  // namespace vernier
