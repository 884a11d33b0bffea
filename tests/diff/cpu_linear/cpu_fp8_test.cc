#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/linear.h"
#include "backends/cpu/linear_kernel_choice.h"
#include "diff/cpu_linear/random_matrix.h"
#include "tensor/scalar.h"
#include "tune/fallback.h"

// FP8 weights stay codes beside their scales: CPU-11, CPU-12 and CPU-13 for every size of scale block, and the reason
// where they cannot stay codes.

namespace vernier {
namespace {

using testing::random_matrix;
using testing::random_rows;

ThreadPool& pool() {
  static ThreadPool pool(2);
  return pool;
}

std::shared_ptr<const CpuMatrix> packed(const QTensor& tensor, Isa isa, Numerics numerics) {
  auto matrix = pack_matrix({&tensor, 1}, PackUse::kLinear, isa, numerics, pool());
  CHECK(matrix.ok(), "{}", matrix.error().to_string());
  return std::move(matrix).value();
}

std::vector<float> product(const CpuMatrix& matrix, const float* x, int64_t tokens) {
  LinearScratch scratch(pool().threads());
  std::vector<float> out(static_cast<size_t>(tokens * matrix.rows()), std::numeric_limits<float>::quiet_NaN());
  linear(pool(), scratch, matrix, {x, tokens, matrix.cols(), matrix.cols(), {}},
         {out.data(), matrix.rows(), nullptr, false});
  return out;
}

struct Block {
  int rows, cols;
};

/// Blocks that kernels keep: square and not, ragged against every tile, a scale a row, wider than a tile.
constexpr Block kKept[] = {{128, 128}, {64, 32}, {1, 128}, {3, 4}, {7, 100}, {5, 12}, {16, 512}, {2, 384}, {9, 2048}};
/// Blocks that are decoded to float32.
constexpr Block kDecoded[] = {{128, 6}, {1, 1}, {4, 31}, {2, 260}};

struct Fp8Case {
  Codec codec;
  int64_t rows, cols;
};

std::vector<Fp8Case> cases() {
  std::vector<Fp8Case> all;
  for (CodecId id : {CodecId::kE4M3Block, CodecId::kE5M2Block}) {
    for (ScaleType inner : {ScaleType::kF32, ScaleType::kE8M0}) {
      for (const auto& blocks : {std::span<const Block>(kKept), std::span<const Block>(kDecoded)}) {
        for (const Block& block : blocks) all.push_back({block_codec(id, block.rows, block.cols, inner), 21, 1091});
      }
      all.push_back({block_codec(id, 128, 128, inner), 200, 576});
      all.push_back({block_codec(id, 128, 128, inner), 3, 129});
    }
  }
  for (CodecId id : {CodecId::kE4M3Tensor, CodecId::kE4M3Channel, CodecId::kE5M2Tensor, CodecId::kE5M2Channel}) {
    for (int64_t cols : {1, 5, 31, 576, 1091}) all.push_back({codec(id), 19, cols});
  }
  for (int64_t cols : {32, 1120}) all.push_back({codec(CodecId::kMxfp8), 19, cols});
  return all;
}

std::string label(const Fp8Case& of, Isa isa) {
  return fmt::format("{} [{}, {}] {}", of.codec.name, of.rows, of.cols, name(isa));
}

/// Whatever rows a kernel sees: those of fast numerics may be rounded to bf16.
std::vector<float> seen_rows(const CpuMatrix& matrix, std::vector<float> x) {
  if (!takes_bf16_rows(choose_linear(matrix, matrix.segments()[0], 1, nullptr))) return x;
  for (float& value : x) value = bf16_to_f32(f32_to_bf16(value));
  return x;
}

// CPU-12: within the rounding of float32 sums, of a row's products, in groups.
TEST(CpuFp8, ProductsEqualPlainLoops) {
  constexpr int64_t kTokens = 23;
  for (const Fp8Case& of : cases()) {
    const QTensor tensor = random_matrix(of.codec, of.rows, of.cols, static_cast<uint32_t>(of.cols));
    const std::vector<float> weights = tensor.decode();
    const std::vector<float> x = random_rows(kTokens, of.cols, 5);
    for (Isa isa : machine_isas()) {
      for (Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
        const auto matrix = packed(tensor, isa, numerics);
        const std::vector<float> seen = seen_rows(*matrix, x);
        for (int64_t tokens : {int64_t{1}, int64_t{7}, kTokens}) {
          const std::vector<float> out = product(*matrix, x.data(), tokens);
          for (int64_t i = 0; i < tokens * of.rows; ++i) {
            double sum = 0, magnitude = 0;
            for (int64_t c = 0; c < of.cols; ++c) {
              const double term = double{weights[static_cast<size_t>(i % of.rows * of.cols + c)]} *
                                  seen[static_cast<size_t>(i / of.rows * of.cols + c)];
              sum += term;
              magnitude += std::abs(term);
            }
            // Half a unit in the last place for each of the sums that a term goes through, as their signs vary.
            const double limit = std::ldexp(8 + 2 * std::sqrt(static_cast<double>(of.cols)), -24) * magnitude;
            ASSERT_NEAR(out[static_cast<size_t>(i)], sum, limit) << label(of, isa) << " of " << tokens << " at " << i;
          }
        }
      }
    }
  }
}

// CPU-13: which kernel serves a step of so many rows changes no bit.
TEST(CpuFp8, ARowIsTheSameAloneAndInACrowd) {
  constexpr int64_t kTokens = 140;
  for (const Fp8Case& of : cases()) {
    const QTensor tensor = random_matrix(of.codec, of.rows, of.cols, 4);
    std::vector<float> x = random_rows(kTokens, of.cols, 2);
    // Rows whose products are subnormal, or nearly.
    for (int64_t c = 0; c < of.cols; ++c) x[static_cast<size_t>(3 * of.cols + c)] *= 0x1p-126f;
    for (int64_t c = 0; c < of.cols; ++c) x[static_cast<size_t>(4 * of.cols + c)] *= 0x1p-100f;
    for (Isa isa : machine_isas()) {
      for (Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
        const auto matrix = packed(tensor, isa, numerics);
        const std::vector<float> crowd = product(*matrix, x.data(), kTokens);
        for (int64_t tokens : {1, 3, 8, 9, 131}) {
          for (int64_t first : {0, 3, 4}) {
            const std::vector<float> few = product(*matrix, x.data() + first * of.cols, tokens);
            ASSERT_EQ(std::memcmp(few.data(), crowd.data() + first * of.rows, few.size() * sizeof(float)), 0)
                << label(of, isa) << ", rows " << first << " to " << first + tokens;
          }
        }
      }
    }
  }
}

/// Codes 0 to 255 in every lane and place of a vector, scales of every size.
QTensor every_code(const Codec& codec, bool numbers_only) {
  const int64_t rows = 21, cols = 516;
  std::vector<std::byte> codes;
  for (int64_t i = 0; i < rows * cols; ++i) {
    auto code = static_cast<uint8_t>(i * 7 + i / cols);
    const float value = codec.element == Element::kE4M3 ? e4m3_to_f32(code) : e5m2_to_f32(code);
    if (numbers_only && !std::isfinite(value)) code = 0x81;
    codes.push_back(std::byte{code});
  }
  const auto groups = static_cast<size_t>(codec.groups_down(rows) * codec.groups_across(cols));
  std::vector<std::byte> scales;
  for (size_t i = 0; i < groups; ++i) {
    if (codec.inner == ScaleType::kE8M0) {
      // 2^-127 to 2^63, the smallest a subnormal.
      scales.push_back(std::byte{static_cast<uint8_t>(i % 5 == 0 ? i % 2 : i * 37 % 191)});
      continue;
    }
    const float scale = std::ldexp(0.3f + static_cast<float>(i % 13) * 0.17f, static_cast<int>(i % 40) - 20);
    const auto* from = reinterpret_cast<const std::byte*>(&scale);
    scales.insert(scales.end(), from, from + 4);
  }
  return QTensor::make({codec, rows, cols, Bytes(std::move(codes)), Bytes(std::move(scales)), {}, {}, "w"}).value();
}

std::vector<Codec> block_codecs() {
  std::vector<Codec> all = {codec(CodecId::kE4M3Tensor), codec(CodecId::kE4M3Channel), codec(CodecId::kE5M2Tensor),
                            codec(CodecId::kE5M2Channel)};
  for (CodecId id : {CodecId::kE4M3Block, CodecId::kE5M2Block}) {
    for (ScaleType inner : {ScaleType::kF32, ScaleType::kE8M0}) {
      for (const Block& block : kKept) all.push_back(block_codec(id, block.rows, block.cols, inner));
      all.push_back(block_codec(id, 128, 6, inner));
    }
  }
  return all;
}

// CPU-11, TENSOR-2: minus zero, subnormals, and, where a matrix has them, NaN and infinities.
TEST(CpuFp8, EveryCodeDecodesToItsBits) {
  for (const Codec& codec : block_codecs()) {
    for (bool numbers_only : {true, false}) {
      const QTensor tensor = every_code(codec, numbers_only);
      std::vector<float> want(static_cast<size_t>(tensor.cols())), got(want.size());
      for (Isa isa : machine_isas()) {
        const auto matrix = packed(tensor, isa, Numerics::kExact);
        const bool codes = is_fp8(matrix->segments()[0].layout.format);
        EXPECT_EQ(codes, numbers_only && codec.group_cols != 6) << codec.name;
        for (int64_t row = 0; row < tensor.rows(); ++row) {
          tensor.decode_row(row, want);
          decode_packed_row(*matrix, row, got.data());
          for (size_t c = 0; c < want.size(); ++c) {
            if (std::isnan(want[c]) && std::isnan(got[c])) continue;
            ASSERT_EQ(std::memcmp(&want[c], &got[c], 4), 0) << codec.name << " " << name(isa) << " row " << row
                                                            << " col " << c << ": " << got[c] << ", not " << want[c];
          }
        }
      }
    }
  }
}

// CPU-11, CPU-12: whatever numbers a kernel makes of codes on its way, bf16 or float32, each is the code's own. A row
// that is 1 in one column and 0 in all others takes that column out, however small its numbers are beside others.
TEST(CpuFp8, EveryCodeIsItsNumberInEveryProduct) {
  const std::vector<Codec> codecs = {codec(CodecId::kE4M3Tensor),
                                     codec(CodecId::kE4M3Channel),
                                     codec(CodecId::kE5M2Tensor),
                                     codec(CodecId::kE5M2Channel),
                                     block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32),
                                     block_codec(CodecId::kE5M2Block, 7, 100, ScaleType::kF32)};
  for (const Codec& codec : codecs) {
    const QTensor tensor = every_code(codec, true);
    const std::vector<float> weights = tensor.decode();
    const int64_t rows = tensor.rows(), cols = tensor.cols();
    std::vector<float> ones(static_cast<size_t>(cols * cols));
    for (int64_t c = 0; c < cols; ++c) ones[static_cast<size_t>(c * cols + c)] = 1;
    for (Isa isa : machine_isas()) {
      for (Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
        const auto matrix = packed(tensor, isa, numerics);
        for (int64_t tokens : {int64_t{1}, cols}) {
          const int64_t last = tokens == 1 ? 48 : cols;
          for (int64_t first = 0; first < last; first += tokens) {
            const std::vector<float> out = product(*matrix, ones.data() + first * cols, tokens);
            for (int64_t i = 0; i < tokens * rows; ++i) {
              const int64_t row = i % rows, col = first + i / rows;
              ASSERT_EQ(out[static_cast<size_t>(i)], weights[static_cast<size_t>(row * cols + col)])
                  << codec.name << " " << name(isa) << " " << static_cast<int>(numerics) << " of " << tokens << ": row "
                  << row << " col " << col;
            }
          }
        }
      }
    }
  }
}

Reason reason_of(const Choice& choice, std::string_view kernel) {
  const auto found = std::ranges::find(choice.candidates, kernel, &Candidate::kernel);
  return found == choice.candidates.end() ? Reason{} : found->reason;
}

// CPU-10: what is taken, and why a faster one was not.
TEST(CpuFp8Choice, EveryRefusalHasItsReason) {
  const auto explained = [](const QTensor& tensor, int64_t rows) {
    return explain_linear(*packed(tensor, Isa::kBaseline, Numerics::kExact), rows).at(0);
  };
  const QTensor block = random_matrix(block_codec(CodecId::kE4M3Block, 64, 32, ScaleType::kF32), 130, 96, 1);
  EXPECT_EQ(explained(block, 1).chosen().kernel, "fp8_stream_baseline");
  EXPECT_EQ(explained(block, 100).chosen().kernel, "fp8_tile_baseline");
  EXPECT_EQ(reason_of(explained(block, 100), "fp8_stream_baseline").code, ReasonCode::kRows);
  EXPECT_EQ(reason_of(explained(block, 1), "int8_stream_baseline").code, ReasonCode::kCodec);
  EXPECT_NE(explained(block, 1).layout.find("e4m3 + f32 scale for 32 columns"), std::string::npos)
      << explained(block, 1).layout;

  const QTensor odd = random_matrix(block_codec(CodecId::kE4M3Block, 64, 6, ScaleType::kF32), 130, 96, 1);
  EXPECT_EQ(explained(odd, 1).chosen().kernel, "float_stream_baseline");
  EXPECT_EQ(reason_of(explained(odd, 1), "fp8_stream_baseline").code, ReasonCode::kShape);
  EXPECT_NE(reason_of(explained(odd, 1), "fp8_tile_baseline").detail.find("scales of 6 columns"), std::string::npos);

  const QTensor broken = every_code(codec(CodecId::kE4M3Channel), false);
  EXPECT_EQ(explained(broken, 1).chosen().kernel, "float_stream_baseline");
  EXPECT_EQ(reason_of(explained(broken, 1), "fp8_stream_baseline").code, ReasonCode::kValues);
  EXPECT_NE(reason_of(explained(broken, 1), "fp8_stream_baseline").detail.find("NaN"), std::string::npos);
}

/// CPU-10: a kernel stands in for another where no panel holds the codes, whatever the level of instructions, and
/// nowhere else: a level that the machine lacks is no fallback.
TEST(CpuFp8Choice, OnlyWhatNoPanelHoldsFallsBack) {
  const auto check = [](const QTensor& tensor, std::string_view why) {
    for (Isa isa : machine_isas()) {
      for (Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
        for (int64_t rows : {1, 512}) {
          const Choice choice = explain_linear(*packed(tensor, isa, numerics), rows).at(0);
          const Candidate* better = stood_in_for(choice);
          const std::string what = fmt::format("{} {} {} rows", choice.problem.to_string(), name(isa), rows);
          EXPECT_EQ(better != nullptr ? name(better->reason.code) : "", why) << what;
          if (better == nullptr) continue;
          EXPECT_TRUE(better->kernel.starts_with(rows > 1 ? "fp8_tile" : "fp8_stream") ||
                      better->kernel.starts_with("fp8_bf16_tile"))
              << what << ": " << better->kernel;
          EXPECT_TRUE(choice.chosen().kernel.starts_with("float_")) << what << ": " << choice.chosen().kernel;
        }
      }
    }
  };
  for (const Codec& each : all_codecs()) check(random_matrix(each, 24, 512, 3), "");
  for (const Codec& each : block_codecs()) {
    check(every_code(each, true), each.group_cols == 6 ? "shape" : "");
    check(every_code(each, false), each.group_cols == 6 ? "shape" : "values");
  }
}

// A byte a weight and its scales, once.
TEST(CpuFp8Pack, BytesStayNearTheFile) {
  struct Expected {
    Codec codec;
    double bits;
  };
  const Expected all[] = {{codec(CodecId::kE4M3Channel), 8},
                          {codec(CodecId::kE5M2Tensor), 8},
                          {codec(CodecId::kMxfp8), 8.25},
                          {block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32), 8.25},
                          {block_codec(CodecId::kE4M3Block, 64, 32, ScaleType::kE8M0), 8.25},
                          {codec(CodecId::kMxfp4), 4.25},
                          {codec(CodecId::kNvfp4), 4.5}};
  for (const auto& [codec, bits] : all) {
    const QTensor tensor = random_matrix(codec, 128, 1024, 4);
    for (Isa isa : machine_isas()) {
      const int64_t bytes = packed(tensor, isa, Numerics::kFast)->info().bytes;
      EXPECT_EQ(bytes, static_cast<int64_t>(128 * 1024 * bits / 8)) << codec.name << " " << name(isa);
    }
  }
}

}  // namespace
}  // namespace vernier
