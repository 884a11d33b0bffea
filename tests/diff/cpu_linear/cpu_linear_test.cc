#include "backends/cpu/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/linear_kernel_choice.h"
#include "diff/cpu_linear/random_matrix.h"
#include "tensor/scalar.h"

namespace vernier {
namespace {

using testing::random_matrix;
using testing::random_rows;

ThreadPool& pool() {
  static ThreadPool pool(2);
  return pool;
}

std::shared_ptr<const CpuMatrix> packed(std::span<const QTensor> parts, Isa isa, Numerics numerics) {
  auto matrix = pack_matrix(parts, PackUse::kLinear, isa, numerics, pool());
  CHECK(matrix.ok(), "{}", matrix.error().to_string());
  return std::move(matrix).value();
}

/// Extents that the codec takes, ragged against 8, 16 and 32 where it can be.
std::vector<int64_t> columns_of(const Codec& codec) {
  if (codec.packing == Packing::kGgufBlock) return {codec.group_cols, codec.group_cols == 256 ? 768 : 1088};
  if (codec.column_multiple() > 1) return {codec.column_multiple(), codec.column_multiple() * 35};
  return {1, 31, 333};
}

/// The int8 rows that a group of `group` columns makes, in the kernel's own float32 steps.
std::vector<float> rounded_rows(const std::vector<float>& x, int64_t cols, int group) {
  std::vector<float> rounded;
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(cols)) {
    for (int64_t begin = 0; begin < cols; begin += group) {
      const int64_t end = std::min(begin + group, cols);
      float most = 0;
      for (int64_t c = begin; c < end; ++c) most = std::max(most, std::abs(x[row + static_cast<size_t>(c)]));
      for (int64_t c = begin; c < end; ++c) {
        rounded.push_back(std::nearbyint(x[row + static_cast<size_t>(c)] * (127.0f / most)) * (most / 127.0f));
      }
    }
  }
  return rounded;
}

/// What the kernels for a step of `tokens` rows make of the input before they multiply.
std::vector<float> seen_rows(const CpuMatrix& matrix, const std::vector<float>& x, int64_t tokens) {
  const MatrixSegment& segment = matrix.segments()[0];
  switch (choose_linear(matrix, segment, tokens, nullptr)) {
    case LinearKernel::kIntStream:
    case LinearKernel::kIntTile:
      return rounded_rows(x, matrix.cols(), int_format(segment.layout.format).group);
    case LinearKernel::kBf16Tile:
    case LinearKernel::kFp8Bf16Tile: {
      std::vector<float> rounded = x;
      for (float& value : rounded) value = bf16_to_f32(f32_to_bf16(value));
      return rounded;
    }
    case LinearKernel::kDenseStream:
    case LinearKernel::kFp8Stream:
    case LinearKernel::kFp8Tile:
    case LinearKernel::kFloatTile:
      break;
  }
  return x;
}

struct Expected {
  std::vector<double> product;
  std::vector<double> tolerance;
};

/// Plain float64 loops. The tolerance is that of float32 sums whose terms are as large as the row's largest weight: the
/// kernels add codes before their zero point is taken off, so that a small weight has no smaller rounding.
Expected expect_product(const std::vector<float>& weights, const std::vector<float>& x, int64_t rows, int64_t cols,
                        int64_t tokens) {
  Expected expected;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0, largest = 0, magnitude = 0;
      for (int64_t c = 0; c < cols; ++c) {
        const double w = weights[static_cast<size_t>(r * cols + c)];
        const double v = x[static_cast<size_t>(t * cols + c)];
        sum += w * v;
        largest = std::max(largest, std::abs(w));
        magnitude += std::abs(v);
      }
      expected.product.push_back(sum);
      expected.tolerance.push_back(4 * std::numeric_limits<float>::epsilon() * largest * magnitude + 1e-30);
    }
  }
  return expected;
}

std::vector<float> run(const CpuMatrix& matrix, const std::vector<float>& x, int64_t tokens, int64_t gap) {
  LinearScratch scratch(pool().threads());
  const int64_t stride = matrix.rows() + gap;
  std::vector<float> out(static_cast<size_t>(tokens * stride), std::numeric_limits<float>::quiet_NaN());
  linear(pool(), scratch, matrix, {x.data(), tokens, matrix.cols(), matrix.cols(), {}},
         {out.data(), stride, nullptr, false});
  return out;
}

void compare(const std::vector<float>& out, const Expected& expected, int64_t rows, int64_t tokens, int64_t gap) {
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t r = 0; r < rows; ++r) {
      const auto i = static_cast<size_t>(t * rows + r);
      ASSERT_NEAR(out[static_cast<size_t>(t * (rows + gap) + r)], expected.product[i], expected.tolerance[i])
          << "token " << t << " row " << r;
    }
    for (int64_t g = 0; g < gap; ++g) {
      ASSERT_TRUE(std::isnan(out[static_cast<size_t>(t * (rows + gap) + rows + g)])) << "wrote past row " << t;
    }
  }
}

class CpuLinear : public ::testing::TestWithParam<int> {
 protected:
  const Codec& codec() const { return all_codecs()[static_cast<size_t>(GetParam())]; }
};

// CPU-11: a packed matrix decodes to the bits of its QTensor.
TEST_P(CpuLinear, PackedRowsDecodeToTheBitsOfTheTensor) {
  for (Isa isa : machine_isas()) {
    for (int64_t cols : columns_of(codec())) {
      const QTensor tensor = random_matrix(codec(), 37, cols, 11);
      const auto matrix = packed({&tensor, 1}, isa, Numerics::kExact);
      std::vector<float> want(static_cast<size_t>(cols));
      std::vector<float> got(static_cast<size_t>(cols), std::numeric_limits<float>::quiet_NaN());
      for (int64_t row = 0; row < tensor.rows(); ++row) {
        tensor.decode_row(row, want);
        decode_packed_row(*matrix, row, got.data());
        for (int64_t c = 0; c < cols; ++c) {
          ASSERT_EQ(want[static_cast<size_t>(c)], got[static_cast<size_t>(c)])
              << name(isa) << " cols " << cols << " row " << row << " col " << c;
        }
      }
    }
  }
}

// CPU-12: exact products are those of the decoded weights; fast ones those of the decoded weights and the rounded
// rows.
TEST_P(CpuLinear, ProductsEqualPlainLoops) {
  for (int64_t rows : {1, 8, 45}) {
    for (int64_t cols : columns_of(codec())) {
      const QTensor tensor = random_matrix(codec(), rows, cols, static_cast<uint32_t>(rows + cols));
      const std::vector<float> weights = tensor.decode();
      const std::vector<float> x = random_rows(33, cols, 5);
      for (Isa isa : machine_isas()) {
        for (Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
          const auto matrix = packed({&tensor, 1}, isa, numerics);
          for (int64_t tokens : {1, 2, 3, 5, 16, 33}) {
            SCOPED_TRACE(fmt::format("{} {} rows {} cols {} tokens {}", name(isa), static_cast<int>(numerics), rows,
                                     cols, tokens));
            const std::vector<float> seen = seen_rows(*matrix, x, tokens);
            compare(run(*matrix, x, tokens, 3), expect_product(weights, seen, rows, cols, tokens), rows, tokens, 3);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryCodec, CpuLinear, ::testing::Range(0, static_cast<int>(all_codecs().size())),
                         [](const auto& info) {
                           std::string text(all_codecs()[static_cast<size_t>(info.param)].name);
                           for (char& c : text) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return text;
                         });

// The error that int8 rows add has the size that rounding predicts: each product is off by a twelfth of a step squared.
TEST(CpuLinearFast, StaysWithinTheRoundingOfTheRows) {
  const int64_t rows = 64, cols = 1024;
  const QTensor tensor = random_matrix(codec(CodecId::kQ4_1), rows, cols, 3);
  const std::vector<float> weights = tensor.decode();
  const std::vector<float> x = random_rows(4, cols, 9);
  const Expected expected = expect_product(weights, x, rows, cols, 4);
  for (Isa isa : machine_isas()) {
    const std::vector<float> out = run(*packed({&tensor, 1}, isa, Numerics::kFast), x, 4, 0);
    for (size_t i = 0; i < out.size(); ++i) {
      double variance = 0;
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t token = static_cast<int64_t>(i) / rows;
        float most = 0;
        for (int64_t k = c / 32 * 32; k < c / 32 * 32 + 32; ++k) {
          most = std::max(most, std::abs(x[static_cast<size_t>(token * cols + k)]));
        }
        const double step = weights[i % static_cast<size_t>(rows) * cols + static_cast<size_t>(c)] * most / 127;
        variance += step * step / 12;
      }
      ASSERT_NEAR(out[i], expected.product[i], 6 * std::sqrt(variance)) << name(isa);
    }
  }
}

// CPU-13: which kernel serves a step of so many rows changes no bit of an int8 product.
TEST(CpuLinearFast, ARowIsTheSameAloneAndInACrowd) {
  for (CodecId id :
       {CodecId::kQ4_1, CodecId::kQ5_0, CodecId::kQ8_0, CodecId::kQ6_K, CodecId::kNvfp4, CodecId::kMxfp4}) {
    const QTensor tensor = random_matrix(codec(id), 45, 1024, 4);
    const std::vector<float> x = random_rows(200, 1024, 2);
    for (Isa isa : machine_isas()) {
      const auto matrix = packed({&tensor, 1}, isa, Numerics::kFast);
      const std::vector<float> crowd = run(*matrix, x, 200, 0);
      for (size_t t : {0, 1, 130, 199}) {
        const std::vector<float> row(x.begin() + static_cast<std::ptrdiff_t>(t * 1024),
                                     x.begin() + static_cast<std::ptrdiff_t>((t + 1) * 1024));
        const std::vector<float> alone = run(*matrix, row, 1, 0);
        for (size_t r = 0; r < 45; ++r) ASSERT_EQ(alone[r], crowd[t * 45 + r]) << name(isa) << " token " << t;
      }
    }
  }
}

TEST(CpuLinearFused, PartsKeepTheirOwnCodecsAndScales) {
  const int64_t cols = 256;
  std::vector<QTensor> parts;
  int64_t rows = 0;
  std::vector<float> weights;
  std::vector<int64_t> sizes = {17, 5, 40, 9, 33, 16};
  std::vector<CodecId> ids = {CodecId::kQ4_K, CodecId::kQ6_K,  CodecId::kQ8_0,
                              CodecId::kBF16, CodecId::kNvfp4, CodecId::kE4M3Channel};
  for (size_t i = 0; i < ids.size(); ++i) {
    parts.push_back(random_matrix(codec(ids[i]), sizes[i], cols, static_cast<uint32_t>(20 + i)));
    const std::vector<float> decoded = parts.back().decode();
    weights.insert(weights.end(), decoded.begin(), decoded.end());
    rows += sizes[i];
  }
  const std::vector<float> x = random_rows(21, cols, 8);
  const Expected expected = expect_product(weights, x, rows, cols, 21);
  for (Isa isa : machine_isas()) {
    for (int64_t tokens : {1, 4, 21}) {
      compare(run(*packed(parts, isa, Numerics::kExact), x, tokens, 0), expected, rows, tokens, 0);
      const std::vector<float> fast = run(*packed(parts, isa, Numerics::kFast), x, tokens, 0);
      for (size_t i = 0; i < fast.size(); ++i) {
        ASSERT_NEAR(fast[i], expected.product[i], expected.tolerance[i] * 5e3) << name(isa) << " " << i;
      }
    }
  }
}

TEST(CpuLinearOutput, BiasAndResidualAreAdded) {
  const QTensor tensor = random_matrix(codec(CodecId::kQ5_0), 21, 96, 4);
  const std::vector<float> x = random_rows(7, 96, 2);
  const std::vector<float> bias = random_rows(1, 21, 1);
  for (Isa isa : machine_isas()) {
    for (int64_t tokens : {1, 7}) {
      const auto matrix = packed({&tensor, 1}, isa, Numerics::kFast);
      const std::vector<float> plain = run(*matrix, x, tokens, 0);
      std::vector<float> out(plain.size(), 0.7f);
      LinearScratch scratch(pool().threads());
      linear(pool(), scratch, *matrix, {x.data(), tokens, 96, 96, {}}, {out.data(), 21, bias.data(), true});
      for (size_t i = 0; i < out.size(); ++i) ASSERT_FLOAT_EQ(out[i], 0.7f + (plain[i] + bias[i % 21]));
    }
  }
}

void halve_sum(const void* context, const float* row, float* out, int64_t cols) {
  const float factor = *static_cast<const float*>(context);
  for (int64_t c = 0; c < cols; ++c) out[c] = (row[c] + row[cols + c]) * factor;
}

TEST(CpuLinearInput, APrologueRunsOnceForEachRow) {
  for (CodecId id : {CodecId::kQ4_0, CodecId::kF32, CodecId::kBF16}) {
    const int64_t cols = id == CodecId::kQ4_0 ? 64 : 33;
    const QTensor tensor = random_matrix(codec(id), 9, cols, 4);
    const std::vector<float> wide = random_rows(6, 2 * cols, 2);
    std::vector<float> narrow;
    const float factor = 0.3f;
    for (int64_t t = 0; t < 6; ++t) {
      narrow.resize(static_cast<size_t>((t + 1) * cols));
      halve_sum(&factor, wide.data() + t * 2 * cols, narrow.data() + t * cols, cols);
    }
    for (Isa isa : machine_isas()) {
      for (Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
        for (int64_t tokens : {1, 6}) {
          const auto matrix = packed({&tensor, 1}, isa, numerics);
          std::vector<float> out(static_cast<size_t>(tokens * 9));
          LinearScratch scratch(pool().threads());
          linear(pool(), scratch, *matrix, {wide.data(), tokens, cols, 2 * cols, {halve_sum, &factor}},
                 {out.data(), 9, nullptr, false});
          ASSERT_EQ(out, run(*matrix, narrow, tokens, 0)) << name(isa) << " " << tokens;
        }
      }
    }
  }
}

TEST(CpuLinearInput, NanIsNotLostByRounding) {
  const QTensor tensor = random_matrix(codec(CodecId::kQ4_1), 16, 64, 4);
  for (Isa isa : machine_isas()) {
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x = random_rows(1, 64, 2);
      x[37] = bad;
      for (float value : run(*packed({&tensor, 1}, isa, Numerics::kFast), x, 1, 0)) {
        ASSERT_FALSE(std::isfinite(value)) << name(isa);
      }
    }
  }
}

TEST(CpuLinearInput, RowsOfZerosGiveZeros) {
  const QTensor tensor = random_matrix(codec(CodecId::kQ6_K), 16, 256, 4);
  for (Isa isa : machine_isas()) {
    for (float value : run(*packed({&tensor, 1}, isa, Numerics::kFast), std::vector<float>(256), 1, 0))
      ASSERT_EQ(value, 0);
  }
}

TEST(CpuLinearEmbed, RowsAreLookedUpExactly) {
  const QTensor tensor = random_matrix(codec(CodecId::kQ8_0), 50, 96, 4);
  const std::vector<int32_t> tokens = {49, 0, 7, 7, 48, 3, 12};
  std::vector<float> want(96);
  for (Isa isa : machine_isas()) {
    const auto matrix = packed({&tensor, 1}, isa, Numerics::kFast);
    std::vector<float> out(tokens.size() * 100, -1.0f);
    embed_rows(pool(), *matrix, tokens, 1.7f, out.data(), 100);
    for (size_t t = 0; t < tokens.size(); ++t) {
      tensor.decode_row(tokens[t], want);
      for (size_t c = 0; c < 96; ++c) ASSERT_EQ(out[t * 100 + c], want[c] * 1.7f);
      ASSERT_EQ(out[t * 100 + 96], -1.0f);
    }
  }
}

// CPU-10
TEST(CpuLinearChoice, EveryCandidateHasItsReason) {
  const QTensor tensor = random_matrix(codec(CodecId::kQ4_1), 16, 64, 4);
  const auto matrix = packed({&tensor, 1}, Isa::kBaseline, Numerics::kFast);
  const Choice few = explain_linear(*matrix, 1).at(0);
  EXPECT_EQ(few.chosen().kernel, "int8_stream_baseline");
  EXPECT_EQ(few.candidates[0].kernel, "int8_stream_avx512");
  EXPECT_EQ(few.candidates[0].reason.code, ReasonCode::kNeedsIsa);
  EXPECT_EQ(explain_linear(*matrix, 100).at(0).chosen().kernel, "int8_tile_baseline");
  const auto exact = packed({&tensor, 1}, Isa::kBaseline, Numerics::kExact);
  const Choice alone = explain_linear(*exact, 1).at(0);
  EXPECT_EQ(alone.chosen().kernel, "float_tile_baseline");
  for (const Candidate& candidate : alone.candidates) {
    if (candidate.kernel != "int8_stream_baseline") continue;
    EXPECT_EQ(candidate.reason.code, ReasonCode::kNumerics);
  }
}

/// CPU-10: a fused weight is one product; where its parts are stored in different codecs, each codec has its kernel.
TEST(CpuLinearChoice, AFusedWeightIsExplainedWhole) {
  auto rows_of = [](const Choice& choice) {
    return std::ranges::find(choice.problem.facts, "rows", &Problem::Fact::name)->value;
  };
  const QTensor q = random_matrix(codec(CodecId::kQ4_1), 24, 64, 5);
  const QTensor k = random_matrix(codec(CodecId::kQ4_1), 8, 64, 6);
  const QTensor v = random_matrix(codec(CodecId::kBF16), 8, 64, 7);
  const QTensor alike[] = {q, k, k};
  const auto same = explain_linear(*packed(alike, Isa::kBaseline, Numerics::kFast), 1);
  ASSERT_EQ(same.size(), 1u);
  EXPECT_EQ(rows_of(same[0]), "40");
  const QTensor mixed[] = {q, v, k};
  const auto each = explain_linear(*packed(mixed, Isa::kBaseline, Numerics::kFast), 1);
  ASSERT_EQ(each.size(), 2u);
  EXPECT_EQ(rows_of(each[0]), "32");
  EXPECT_EQ(each[0].chosen().kernel, "int8_stream_baseline");
  EXPECT_EQ(rows_of(each[1]), "8");
  EXPECT_EQ(each[1].chosen().kernel, "float_stream_baseline");
}

/// TENSOR-5: a scale that is no finite number is refused by its place, before it makes every product NaN.
TEST(CpuLinearPack, ADamagedBlockScaleIsRefusedByItsPlace) {
  const Codec& q8_0 = codec(CodecId::kQ8_0);
  std::vector<std::byte> codes(static_cast<size_t>(q8_0.code_bytes(300, 64).value()));
  QTensor sound = QTensor::make({q8_0, 300, 64, Bytes(codes), std::nullopt, {}, {}, "w"}).value();
  EXPECT_TRUE(pack_matrix({&sound, 1}, PackUse::kLinear, Isa::kBaseline, Numerics::kFast, pool()).ok());
  // The high byte of the scale of the second block of row 257: an infinity.
  codes[(257 * 2 + 1) * 34 + 1] = std::byte{0x7C};
  QTensor damaged = QTensor::make({q8_0, 300, 64, Bytes(codes), std::nullopt, {}, {}, "w"}).value();
  auto packed = pack_matrix({&damaged, 1}, PackUse::kLinear, Isa::kBaseline, Numerics::kFast, pool());
  ASSERT_FALSE(packed.ok());
  EXPECT_EQ(packed.error().where, "w");
  EXPECT_NE(packed.error().message.find("[257, 1]"), std::string::npos) << packed.error().message;
}

TEST(CpuLinearPack, BytesStayNearTheFile) {
  for (const Codec& codec : all_codecs()) {
    if (codec.packing != Packing::kGgufBlock) continue;
    const QTensor tensor = random_matrix(codec, 64, 1024, 4);
    const PackedInfo info = packed({&tensor, 1}, Isa::kBaseline, Numerics::kFast)->info();
    // Q2_K keeps the nibbles of its scales and minimums as bytes.
    const int64_t percent = codec.id == CodecId::kQ2_K ? 120 : 107;
    EXPECT_LE(info.bytes, static_cast<int64_t>(tensor.stored_bytes()) * percent / 100) << codec.name;
  }
  const QTensor ragged = random_matrix(codec(CodecId::kF32), 9, 3, 4);
  const PackedInfo info = packed({&ragged, 1}, Isa::kBaseline, Numerics::kFast)->info();
  EXPECT_EQ(info.bytes, 16 * 4 * 4);
  EXPECT_EQ(info.padding_bytes, 16 * 4 * 4 - 9 * 3 * 4);
}

}  // namespace
}  // namespace vernier
