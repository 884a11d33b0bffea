#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/integer_matrix.h"
#include "checkpoint/stored_matrix.h"
#include "tensor/code_tables.h"
#include "tensor/scalar.h"
#include "tiny_model.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SafetensorsWriter;
using testing::TempFolder;
using testing::TinyModel;

constexpr int64_t kRows = 16, kCols = 64, kGroup = 32, kGroups = kCols / kGroup;

/// An f16 number, so that a block format can hold it: 0.3, 1.7, 0.6 and their like.
float scale(int64_t row, int64_t group) {
  return f16_to_f32(f32_to_f16(0.3f + 0.013f * static_cast<float>(row) + 0.7f * static_cast<float>(group)));
}
int code(int64_t row, int64_t col, int bits) {
  return static_cast<int>((row * 7 + col * 5 + row * col) % (1 << bits));
}
int zero(int64_t row, int64_t group, int bits) {
  return static_cast<int>((3 + row * 5 + group * 3) % (1 << bits));
}

/// Words of 32 bits: `number(line, i)` is the i-th of `each` numbers of a line.
template <class Number>
std::string words(int64_t lines, int64_t each, int bits, Number number) {
  std::string out;
  for (int64_t line = 0; line < lines; ++line) {
    std::vector<uint8_t> bytes(static_cast<size_t>((each * bits + 31) / 32 * 4));
    for (int64_t i = 0; i < each * bits; ++i) {
      if (number(line, i / bits) >> (i % bits) & 1)
        bytes[static_cast<size_t>(i / 8)] |= static_cast<uint8_t>(1 << i % 8);
    }
    out.append(bytes.begin(), bytes.end());
  }
  return out;
}

template <class Number>
std::string halves(int64_t rows, int64_t cols, Number number) {
  std::string out;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      uint16_t bits = f32_to_f16(number(row, col));
      out += {static_cast<char>(bits & 0xFF), static_cast<char>(bits >> 8)};
    }
  }
  return out;
}

template <class Value>
std::vector<float> matrix(Value value) {
  std::vector<float> out;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t col = 0; col < kCols; ++col) out.push_back(value(row, col));
  }
  return out;
}

class IntegerDialectsTest : public ::testing::Test {
 protected:
  Result<StoredMatrix> read(const SafetensorsWriter& tensors, const std::string& key, const std::string& scheme) {
    folder_.write("config.json", TinyModel::config(",\"" + key + "\":" + scheme));
    folder_.write("model.safetensors", tensors.bytes());
    TRY_BIND(checkpoint_, Checkpoint::open(folder_.path()));
    TRY_STATUS(checkpoint_->config());
    return read_matrix(*checkpoint_, "m", kRows, kCols);
  }
  std::string error(const SafetensorsWriter& tensors, const std::string& scheme) {
    auto made = read(tensors, "quantization_config", scheme);
    return made.ok() ? "no error" : made.error().to_string();
  }
  void expect(const SafetensorsWriter& tensors, const std::string& scheme, const std::vector<float>& expected,
              const std::string& codec, const std::string& key = "quantization_config") {
    auto made = read(tensors, key, scheme);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    EXPECT_EQ(made->matrix.decode(), expected);
    EXPECT_EQ(made->matrix.codec().name, codec);
  }

  TempFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

constexpr const char* kAwq =
    R"({"quant_method":"awq","bits":4,"group_size":32,"zero_point":true,"version":"gemm","modules_to_not_convert":null})";

/// Which of eight neighbouring outputs the nibble holds.
int64_t awq_output(int64_t nibble) {
  constexpr int64_t kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  return nibble / 8 * 8 + kOrder[nibble % 8];
}

SafetensorsWriter awq(const std::vector<int64_t>& scale_extents = {kGroups, kRows}) {
  SafetensorsWriter writer;
  writer.tensor("m.qweight", {kCols, kRows / 8}, "I32",
                words(kCols, kRows, 4, [](int64_t col, int64_t i) { return code(awq_output(i), col, 4); }));
  writer.tensor("m.qzeros", {kGroups, kRows / 8}, "I32",
                words(kGroups, kRows, 4, [](int64_t group, int64_t i) { return zero(awq_output(i), group, 4); }));
  writer.tensor("m.scales", scale_extents, "F16",
                halves(kGroups, kRows, [](int64_t group, int64_t row) { return scale(row, group); }));
  return writer;
}

// Codes less zeros need five bits: the block format of five holds them exactly.
TEST_F(IntegerDialectsTest, Awq) {
  expect(awq(), kAwq, matrix([](int64_t row, int64_t col) {
           return static_cast<float>(code(row, col, 4) - zero(row, col / kGroup, 4)) * scale(row, col / kGroup);
         }),
         "q5_0");
  EXPECT_THAT(error(awq({kRows, kGroups}), kAwq), AllOf(HasSubstr("m.scales"), HasSubstr("[2, 16]")));
  EXPECT_THAT(error(awq(), R"({"quant_method":"awq","bits":4,"group_size":32,"version":"gemv"})"), HasSubstr("gemv"));
  EXPECT_THAT(error(awq(), R"({"quant_method":"awq","bits":3,"group_size":32})"), HasSubstr("bits"));
}

/// `group_of` gives each column's group.
template <class GroupOf>
SafetensorsWriter gptq(int bits, int less, GroupOf group_of, bool with_order) {
  const int64_t each = 32 / bits;
  SafetensorsWriter writer;
  std::string codes;
  for (int64_t line = 0; line < kCols / each; ++line) {
    codes += words(kRows, each, bits, [&](int64_t row, int64_t i) { return code(row, line * each + i, bits); });
  }
  writer.tensor("m.qweight", {kCols / each, kRows}, "I32", codes);
  writer.tensor("m.qzeros", {kGroups, kRows / each}, "I32",
                words(kGroups, kRows, bits,
                      [&](int64_t group, int64_t row) { return (zero(row, group, bits) - less) & ((1 << bits) - 1); }));
  writer.tensor("m.scales", {kGroups, kRows}, "F16",
                halves(kGroups, kRows, [](int64_t group, int64_t row) { return scale(row, group); }));
  if (with_order) {
    writer.tensor("m.g_idx", {kCols}, "I32", words(kCols, 1, 32, [&](int64_t col, int64_t) { return group_of(col); }));
  }
  return writer;
}

// The first format stores a zero less one.
TEST_F(IntegerDialectsTest, GptqOfBothFormats) {
  auto group_of = [](int64_t col) { return col / kGroup; };
  for (int bits : {2, 4}) {
    const std::vector<float> expected = matrix([&](int64_t row, int64_t col) {
      return static_cast<float>(code(row, col, bits) - zero(row, col / kGroup, bits)) * scale(row, col / kGroup);
    });
    const std::string scheme =
        fmt::format(R"({{"quant_method":"gptq","bits":{},"group_size":32,"desc_act":false,"sym":false)", bits);
    expect(gptq(bits, 1, group_of, true), scheme + "}", expected, bits == 2 ? "q4_0" : "q5_0");
    expect(gptq(bits, 1, group_of, false), scheme + R"(,"checkpoint_format":"gptq"})", expected,
           bits == 2 ? "q4_0" : "q5_0");
    expect(gptq(bits, 0, group_of, true), scheme + R"(,"checkpoint_format":"gptq_v2"})", expected,
           bits == 2 ? "q4_0" : "q5_0");
  }
  EXPECT_THAT(
      error(gptq(4, 1, group_of, true), R"({"quant_method":"gptq","bits":4,"group_size":32,"dynamic":{"a":{}}})"),
      HasSubstr("dynamic"));
  EXPECT_THAT(error(gptq(4, 1, group_of, true), R"({"quant_method":"gptq","bits":3,"group_size":32})"),
              HasSubstr("bits"));
}

// Columns that were quantised in another order have their scales in that order.
TEST_F(IntegerDialectsTest, GptqWithColumnsInAnotherOrder) {
  auto group_of = [](int64_t col) { return col * 7 % kCols / kGroup; };
  const std::string scheme =
      R"({"quant_method":"gptq","bits":4,"group_size":32,"desc_act":true,"checkpoint_format":"gptq_v2"})";
  expect(gptq(4, 0, group_of, true), scheme, matrix([&](int64_t row, int64_t col) {
           return static_cast<float>(code(row, col, 4) - zero(row, group_of(col), 4)) * scale(row, group_of(col));
         }),
         "f32");
  EXPECT_THAT(error(gptq(
                        4, 0, [](int64_t) { return kGroups; }, true),
                    scheme),
              AllOf(HasSubstr("m.g_idx"), HasSubstr("group 2")));
}

std::string compressed(const std::string& format, int bits, const std::string& more) {
  return fmt::format(
      R"({{"quant_method":"compressed-tensors","format":"{}","config_groups":{{"g":{{"targets":["Linear"],)"
      R"("weights":{{"num_bits":{},"type":"int",{}}}}}}}}})",
      format, bits, more);
}

TEST_F(IntegerDialectsTest, CompressedTensorsPacked) {
  auto writer = [](bool zeros) {
    SafetensorsWriter out;
    out.tensor("m.weight_packed", {kRows, kCols / 8}, "I32",
               words(kRows, kCols, 4, [](int64_t row, int64_t col) { return code(row, col, 4); }));
    out.tensor("m.weight_scale", {kRows, kGroups}, "F16", halves(kRows, kGroups, scale));
    const int64_t extents[] = {kRows, kCols};
    out.tensor("m.weight_shape", {2}, "I64", {reinterpret_cast<const char*>(extents), sizeof(extents)});
    if (zeros) {
      std::string packed;
      for (int64_t line = 0; line < kRows / 8; ++line) {
        packed += words(kGroups, 8, 4, [&](int64_t group, int64_t i) { return zero(line * 8 + i, group, 4); });
      }
      out.tensor("m.weight_zero_point", {kRows / 8, kGroups}, "I32", packed);
    }
    return out;
  };
  expect(writer(false), compressed("pack-quantized", 4, R"("strategy":"group","group_size":32,"symmetric":true)"),
         matrix([](int64_t row, int64_t col) {
           return static_cast<float>(code(row, col, 4) - 8) * scale(row, col / kGroup);
         }),
         "q4_0");
  const std::string asymmetric =
      compressed("pack-quantized", 4, R"("strategy":"group","group_size":32,"symmetric":false)");
  expect(writer(true), asymmetric, matrix([](int64_t row, int64_t col) {
           return static_cast<float>(code(row, col, 4) - zero(row, col / kGroup, 4)) * scale(row, col / kGroup);
         }),
         "q5_0");
  EXPECT_THAT(error(writer(false), asymmetric), HasSubstr("weight_zero_point"));
}

TEST_F(IntegerDialectsTest, CompressedTensorsBytes) {
  SafetensorsWriter writer;
  std::string codes;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t col = 0; col < kCols; ++col) codes += static_cast<char>(code(row, col, 8) - 128);
  }
  writer.tensor("m.weight", {kRows, kCols}, "I8", codes);
  writer.tensor("m.weight_scale", {kRows, 1}, "F16", halves(kRows, 1, scale));
  expect(writer, compressed("int-quantized", 8, R"("strategy":"channel")"),
         matrix([](int64_t row, int64_t col) { return static_cast<float>(code(row, col, 8) - 128) * scale(row, 0); }),
         "q8_0");
}

std::string mlx(int bits) {
  return fmt::format(
      R"({{"group_size":32,"bits":{},"mode":"affine","other":{{"bits":8,"group_size":64}},"kept":false}})", bits);
}

/// Scales may be negative.
float mlx_scale(int64_t row, int64_t group) {
  return row % 3 == 0 ? -scale(row, group) : scale(row, group);
}
float mlx_minimum(int64_t row, int64_t group) {
  return f16_to_f32(f32_to_f16(-1.7f + 0.3f * static_cast<float>(row - group)));
}

TEST_F(IntegerDialectsTest, MlxOfEveryWidth) {
  for (auto [bits, codec] : {std::pair{2, "q4_1"}, {3, "q4_1"}, {4, "q4_1"}, {5, "q5_1"}, {6, "f32"}, {8, "f32"}}) {
    SafetensorsWriter writer;
    writer.tensor("m.weight", {kRows, kCols * bits / 32}, "U32",
                  words(kRows, kCols, bits, [bits = bits](int64_t row, int64_t col) { return code(row, col, bits); }));
    writer.tensor("m.scales", {kRows, kGroups}, "F16", halves(kRows, kGroups, mlx_scale));
    writer.tensor("m.biases", {kRows, kGroups}, "F16", halves(kRows, kGroups, mlx_minimum));
    expect(writer, mlx(bits), matrix([bits = bits](int64_t row, int64_t col) {
             return static_cast<float>(code(row, col, bits)) * mlx_scale(row, col / kGroup) +
                    mlx_minimum(row, col / kGroup);
           }),
           codec, "quantization");
  }
}

TEST_F(IntegerDialectsTest, MlxDecidesModuleByModule) {
  SafetensorsWriter writer;
  writer.f32("m.weight", {kRows, kCols}, std::vector<float>(kRows * kCols, 0.3f));
  EXPECT_EQ(read(writer, "quantization", mlx(4))->matrix.codec().name, "f32");
  EXPECT_EQ(checkpoint_->plan().decide("other").scheme.bits, 8);
  EXPECT_EQ(checkpoint_->plan().decide("kept").scheme.form, WeightForm::kDense);
  EXPECT_TRUE(checkpoint_->plan().parts_may_differ);
}

TEST_F(IntegerDialectsTest, MlxFloats) {
  const std::string codes = words(kRows, kCols, 4, [](int64_t row, int64_t col) { return code(row, col, 4); });
  SafetensorsWriter mxfp4;
  std::string exponents;
  for (int64_t i = 0; i < kRows * kCols / 32; ++i) exponents += static_cast<char>(120 + i % 11);
  mxfp4.tensor("m.weight", {kRows, kCols / 8}, "U32", codes);
  mxfp4.tensor("m.scales", {kRows, kCols / 32}, "U8", exponents);
  expect(mxfp4, R"({"group_size":32,"bits":4,"mode":"mxfp4"})", matrix([&](int64_t row, int64_t col) {
           return kE2M1Values[static_cast<size_t>(code(row, col, 4))] *
                  e8m0_to_f32(static_cast<uint8_t>(exponents[static_cast<size_t>(row * 2 + col / 32)]));
         }),
         "mxfp4", "quantization");
  SafetensorsWriter nvfp4;
  std::string small;
  for (int64_t i = 0; i < kRows * kCols / 16; ++i) small += static_cast<char>(0x21 + i % 61);
  nvfp4.tensor("m.weight", {kRows, kCols / 8}, "U32", codes);
  nvfp4.tensor("m.scales", {kRows, kCols / 16}, "U8", small);
  expect(nvfp4, R"({"group_size":16,"bits":4,"mode":"nvfp4"})", matrix([&](int64_t row, int64_t col) {
           return kE2M1Values[static_cast<size_t>(code(row, col, 4))] *
                  e4m3_to_f32(static_cast<uint8_t>(small[static_cast<size_t>(row * 4 + col / 16)]));
         }),
         "nvfp4", "quantization");
}

TEST_F(IntegerDialectsTest, ScalesThatAreNoNumbersAreRefusedByName) {
  for (float bad : {std::nanf(""), 0.0f, -0.3f}) {
    SafetensorsWriter writer;
    writer.tensor("m.weight_packed", {kRows, kCols / 8}, "I32", std::string(kRows * kCols / 2, 'x'));
    writer.tensor("m.weight_scale", {kRows, kGroups}, "F16", halves(kRows, kGroups, [&](int64_t row, int64_t group) {
                    return row == 3 ? bad : scale(row, group);
                  }));
    EXPECT_THAT(error(writer, compressed("pack-quantized", 4, R"("strategy":"group","group_size":32)")),
                AllOf(HasSubstr("m.weight_scale"), HasSubstr("number 6")))
        << bad;
  }
}

// A scale that f16 does not hold is not rounded: the matrix is kept as float32.
TEST(IntegerMatrix, NothingIsRoundedToFitABlockFormat) {
  IntegerMatrix wide{1, 32, 32, std::vector<int16_t>(32, 3), {0.3f}, {}, {}, "w"};
  auto made = to_exact_codec(wide);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->codec().name, "f32");
  EXPECT_EQ(made->decode(), std::vector<float>(32, 3 * 0.3f));
  wide.scales = {0.5f};
  EXPECT_EQ(to_exact_codec(wide)->codec().name, "q4_0");
  wide.codes[5] = -9;
  EXPECT_EQ(to_exact_codec(wide)->codec().name, "q5_0");
  wide.codes[5] = -17;
  EXPECT_EQ(to_exact_codec(wide)->codec().name, "q8_0");
  wide.codes[5] = -129;
  EXPECT_EQ(to_exact_codec(wide)->codec().name, "f32");
  EXPECT_EQ(to_exact_codec(wide)->decode()[5], -129 * 0.5f);
}

}  // namespace
}  // namespace vernier
