#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "backends/cpu/cpu_backend.h"
#include "testing/isa.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::OpBench;
using testing::random_numbers;

constexpr int kExperts = 6, kChosen = 3;
constexpr int64_t kHidden = 96, kWidth = 64, kRows = 90;

class ExpertBench {
 public:
  ExpertBench(CodecId weights, Numerics numerics, int threads)
      : backend_(CpuBackend::make({.threads = threads, .isa = testing::requested_isa(), .numerics = numerics}).value()),
        bench_(*backend_, one_cache(), {.context_tokens = 1024, .max_rows = 128}) {
    std::mt19937 random(5);
    auto matrix = [&](int64_t rows, int64_t cols, CodecId id) {
      const float spread = 1.2f / std::sqrt(static_cast<float>(cols));
      return encode(codec(id), rows, cols, random_numbers(random, rows * cols, spread)).value();
    };
    bench_.set_inputs(kRows, kHidden, random_numbers(random, kRows * kHidden, 1.0f, 0.1f));
    layer_.spec.experts = kExperts;
    layer_.spec.chosen = kChosen;
    layer_.spec.width = kWidth;
    layer_.spec.normalize = true;
    layer_.router = bench_.weight<Split::kNone>({matrix(kExperts, kHidden, CodecId::kBF16)}, {}, PackUse::kRouter);
    for (int expert = 0; expert < kExperts; ++expert) {
      layer_.gate_up.push_back(bench_.weight<Split::kColumns>({matrix(2 * kWidth, kHidden, weights)}));
      layer_.down.push_back(bench_.weight<Split::kRows>({matrix(kHidden, kWidth, weights)}));
    }
  }

  std::vector<float> run(const std::vector<int32_t>& rows) {
    bench_.driver().begin({rows});
    Value x = bench_.input();
    return bench_.read(bench_.ops().reduce(bench_.ops().experts(x, layer_)));
  }

 private:
  static CacheSpec one_cache() {
    CacheSpec cache;
    cache.kv_heads = 1;
    cache.head_dim = 2;
    return cache;
  }

  std::unique_ptr<Backend> backend_;
  OpBench bench_;
  ExpertsLayer layer_;
};

struct BitsCase {
  const char* name;
  CodecId weights;
  Numerics numerics;
};

void PrintTo(const BitsCase& of, std::ostream* out) {
  *out << of.name;
}

class CpuExpertBits : public ::testing::TestWithParam<BitsCase> {};

// CPU-13: a row's answer is the same to the bit alone and in a crowd, whoever else chose its experts.
TEST_P(CpuExpertBits, ARowIsTheSameAloneAndInACrowd) {
  ExpertBench one(GetParam().weights, GetParam().numerics, 1), two(GetParam().weights, GetParam().numerics, 2);
  std::vector<int32_t> all(kRows);
  for (int32_t row = 0; row < kRows; ++row) all[static_cast<size_t>(row)] = (row * 37) % static_cast<int32_t>(kRows);
  const std::vector<float> crowd = two.run(all);
  EXPECT_EQ(one.run(all), crowd);
  for (size_t at = 0; at < all.size(); ++at) {
    const auto begin = crowd.begin() + static_cast<std::ptrdiff_t>(at) * kHidden;
    const std::vector<float> expected(begin, begin + kHidden);
    EXPECT_EQ(one.run({all[at]}), expected) << "row " << all[at];
    if (at % 8 == 0) {
      EXPECT_EQ(two.run({all[at]}), expected) << "row " << all[at];
    }
  }
  for (size_t size : {2, 5, 9, 17}) {
    for (size_t first = 0; first + size <= all.size(); first += 21) {
      const auto at = static_cast<std::ptrdiff_t>(first), count = static_cast<std::ptrdiff_t>(size);
      const std::vector<int32_t> some(all.begin() + at, all.begin() + at + count);
      const std::vector<float> expected(crowd.begin() + at * kHidden, crowd.begin() + (at + count) * kHidden);
      EXPECT_EQ(two.run(some), expected) << size << " rows from " << first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, CpuExpertBits,
                         ::testing::Values(BitsCase{"bf16_exact", CodecId::kBF16, Numerics::kExact},
                                           BitsCase{"bf16_fast", CodecId::kBF16, Numerics::kFast},
                                           BitsCase{"q4_1_fast", CodecId::kQ4_1, Numerics::kFast},
                                           BitsCase{"mxfp4_exact", CodecId::kMxfp4, Numerics::kExact},
                                           BitsCase{"mxfp4_fast", CodecId::kMxfp4, Numerics::kFast},
                                           BitsCase{"nvfp4_fast", CodecId::kNvfp4, Numerics::kFast},
                                           BitsCase{"mxfp8_exact", CodecId::kMxfp8, Numerics::kExact},
                                           BitsCase{"mxfp8_fast", CodecId::kMxfp8, Numerics::kFast},
                                           BitsCase{"e4m3_exact", CodecId::kE4M3Channel, Numerics::kExact},
                                           BitsCase{"e5m2_fast", CodecId::kE5M2Tensor, Numerics::kFast}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace vernier
