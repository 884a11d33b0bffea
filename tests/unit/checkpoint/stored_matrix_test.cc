#include "checkpoint/stored_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/code_tables.h"
#include "tensor/scalar.h"
#include "tiny_model.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using testing::SafetensorsWriter;
using testing::TempFolder;
using testing::TinyModel;

constexpr int64_t kRows = 5, kCols = 64;

/// Codes that are all different from their neighbours and never NaN.
std::string bytes(int64_t count, int seed = 0) {
  std::string out;
  for (int64_t i = 0; i < count; ++i) {
    auto code = static_cast<uint8_t>(17 * i + 5 + seed);
    out += static_cast<char>((code & 0x7F) >= 0x7C ? code - 9 : code);
  }
  return out;
}

std::string f32(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string bf16(const std::vector<float>& values) {
  std::string out;
  for (float value : values) {
    uint16_t bits = f32_to_bf16(value);
    out += {static_cast<char>(bits & 0xFF), static_cast<char>(bits >> 8)};
  }
  return out;
}

/// 0.3, 1.7, 0.6 and their like: neither 1 nor powers of two, and all different.
std::vector<float> scales(int64_t count) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(0.3f + 0.37f * static_cast<float>(i % 7) + 0.011f * static_cast<float>(i));
  return out;
}

class StoredMatrixTest : public ::testing::Test {
 protected:
  Result<StoredMatrix> read(const SafetensorsWriter& tensors, const std::string& scheme, int64_t rows = kRows,
                            int64_t cols = kCols) {
    folder_.write("config.json", TinyModel::config(scheme.empty() ? "" : R"(,"quantization_config":)" + scheme));
    folder_.write("model.safetensors", tensors.bytes());
    TRY_BIND(checkpoint_, Checkpoint::open(folder_.path()));
    TRY_STATUS(checkpoint_->config());
    return read_matrix(*checkpoint_, "layers.0.up_proj", rows, cols);
  }
  std::string error(const SafetensorsWriter& tensors, const std::string& scheme, int64_t rows = kRows,
                    int64_t cols = kCols) {
    auto made = read(tensors, scheme, rows, cols);
    return made.ok() ? "no error" : made.error().to_string();
  }
  void expect(const SafetensorsWriter& tensors, const std::string& scheme, const std::vector<float>& expected,
              const std::string& codec) {
    auto made = read(tensors, scheme);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    EXPECT_EQ(made->matrix.decode(), expected);
    EXPECT_EQ(made->matrix.codec().name, codec);
  }

  TempFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

SafetensorsWriter& add(SafetensorsWriter& writer, const std::string& last, const std::vector<int64_t>& extents,
                       const std::string& type, const std::string& data) {
  return writer.tensor("layers.0.up_proj." + last, extents, type, data);
}

SafetensorsWriter fp8(const std::string& type = "F8_E4M3") {
  SafetensorsWriter writer;
  add(writer, "weight", {kRows, kCols}, type, bytes(kRows * kCols));
  return writer;
}

/// Code times scale by the plain definition; `scale_at` gives the scale of a row and column.
template <class ScaleAt>
std::vector<float> decoded(const std::array<float, 256>& values, ScaleAt scale_at) {
  std::string codes = bytes(kRows * kCols);
  std::vector<float> out;
  for (int64_t i = 0; i < kRows * kCols; ++i) {
    out.push_back(values[static_cast<uint8_t>(codes[static_cast<size_t>(i)])] * scale_at(i / kCols, i % kCols));
  }
  return out;
}

TEST_F(StoredMatrixTest, Fp8WithOneScale) {
  auto of = [](int64_t, int64_t) { return 0.37f; };
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{}, {1}, {1, 1}}) {
    SafetensorsWriter writer = fp8();
    add(writer, "weight_scale", extents, "F32", f32({0.37f}));
    expect(writer, R"({"quant_method":"fp8"})", decoded(kE4M3Values, of), "e4m3[tensor]");
    expect(writer, R"({"quant_method":"modelopt","quant_algo":"FP8"})", decoded(kE4M3Values, of), "e4m3[tensor]");
  }
  // Multiplies, in spite of its name.
  SafetensorsWriter inverse = fp8("F8_E5M2");
  add(inverse, "weight_scale_inv", {}, "F32", f32({0.37f}));
  expect(inverse, R"({"quant_method":"fp8"})", decoded(kE5M2Values, of), "e5m2[tensor]");
}

TEST_F(StoredMatrixTest, Fp8WithAScaleARow) {
  const std::vector<float> own = scales(kRows);
  auto of = [&](int64_t row, int64_t) { return own[static_cast<size_t>(row)]; };
  const std::string scheme =
      R"({"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"g":{"targets":["Linear"],)"
      R"("weights":{"num_bits":8,"type":"float","strategy":"channel"}}}})";
  SafetensorsWriter column = fp8();
  add(column, "weight_scale", {kRows, 1}, "F32", f32(own));
  expect(column, scheme, decoded(kE4M3Values, of), "e4m3[channel]");
  SafetensorsWriter flat = fp8();
  add(flat, "weight_scale", {kRows}, "F32", f32(own));
  expect(flat, R"({"quant_method":"modelopt","quant_algo":"FP8_PER_CHANNEL_PER_TOKEN"})", decoded(kE4M3Values, of),
         "e4m3[channel]");
  SafetensorsWriter half = fp8();
  add(half, "weight_scale", {kRows, 1}, "BF16", bf16(own));
  expect(half, scheme,
         decoded(kE4M3Values,
                 [&](int64_t row, int64_t) { return bf16_to_f32(f32_to_bf16(own[static_cast<size_t>(row)])); }),
         "e4m3[channel]");
}

// The last block is ragged in both directions.
TEST_F(StoredMatrixTest, Fp8InBlocksOfAnySize) {
  for (auto [down, across] : {std::pair<int64_t, int64_t>{2, 24}, {3, 64}, {128, 128}, {1, 48}}) {
    const int64_t rows = (kRows + down - 1) / down, cols = (kCols + across - 1) / across;
    const std::vector<float> own = scales(rows * cols);
    SafetensorsWriter writer = fp8();
    add(writer, "weight_scale_inv", {rows, cols}, "F32", f32(own));
    expect(writer, fmt::format(R"({{"quant_method":"fp8","weight_block_size":[{},{}]}})", down, across),
           decoded(kE4M3Values,
                   [&, down = down, across = across](int64_t row, int64_t col) {
                     return own[static_cast<size_t>(row / down * cols + col / across)];
                   }),
           fmt::format("e4m3[{}x{}]", down, across));
  }
}

// ModelOpt keeps the extents of its blocks: [rows / 128, 1, columns / 128, 1].
TEST_F(StoredMatrixTest, ExtentsOfOneDoNotMatter) {
  SafetensorsWriter writer = fp8();
  add(writer, "weight_scale", {1, 1, 1, 1}, "F32", f32({0.6f}));
  expect(writer, R"({"quant_method":"modelopt","quant_algo":"FP8_PB_WO"})",
         decoded(kE4M3Values, [](int64_t, int64_t) { return 0.6f; }), "e4m3[128x128]");
}

const std::string kExponents = {'\x79', '\x7f', '\x81', '\x7c', '\x83', '\x7e'};  // [3, 2]

float exponent_at(int64_t row, int64_t col) {
  return e8m0_to_f32(static_cast<uint8_t>(kExponents[static_cast<size_t>(row / 2 * 2 + col / 32)]));
}

TEST_F(StoredMatrixTest, BlockScalesMayBePowersOfTwo) {
  const std::string scheme = R"({"quant_method":"fp8","weight_block_size":[2,32],"scale_fmt":"ue8m0"})";
  for (const char* type : {"U8", "F8_E8M0"}) {
    SafetensorsWriter writer = fp8();
    add(writer, "weight_scale_inv", {3, 2}, type, kExponents);
    expect(writer, scheme, decoded(kE4M3Values, exponent_at), "e4m3[2x32,e8m0]");
  }
  std::vector<float> floats;
  for (char exponent : kExponents) floats.push_back(e8m0_to_f32(static_cast<uint8_t>(exponent)));
  SafetensorsWriter writer = fp8();
  add(writer, "weight_scale_inv", {3, 2}, "F32", f32(floats));
  expect(writer, scheme, decoded(kE4M3Values, exponent_at), "e4m3[2x32]");
  floats[4] = 0.3f;
  SafetensorsWriter other = fp8();
  add(other, "weight_scale_inv", {3, 2}, "F32", f32(floats));
  EXPECT_THAT(error(other, scheme), AllOf(HasSubstr("weight_scale_inv"), HasSubstr("power of two")));
}

TEST_F(StoredMatrixTest, PackedWordsHoldFourPowersOfTwo) {
  const std::string scheme = R"({"quant_method":"fp8","weight_block_size":[2,32],"scale_fmt":"ue8m0"})";
  auto word = [](int64_t row) { return kExponents.substr(static_cast<size_t>(row) * 2, 2) + std::string(2, '\0'); };
  SafetensorsWriter one = fp8();
  add(one, "weight_scale_inv", {3, 1}, "I32", word(0) + word(1) + word(2));
  expect(one, scheme, decoded(kE4M3Values, exponent_at), "e4m3[2x32,e8m0]");
  SafetensorsWriter repeated = fp8();
  add(repeated, "weight_scale_inv", {5, 1}, "I32", word(0) + word(0) + word(1) + word(1) + word(2));
  expect(repeated, scheme, decoded(kE4M3Values, exponent_at), "e4m3[2x32,e8m0]");
  SafetensorsWriter torn = fp8();
  add(torn, "weight_scale_inv", {5, 1}, "I32", word(0) + word(1) + word(1) + word(1) + word(2));
  EXPECT_THAT(error(torn, scheme), HasSubstr("other scales than the rows of its block"));
  SafetensorsWriter wrong = fp8();
  add(wrong, "weight_scale_inv", {4, 1}, "I32", word(0) + word(0) + word(1) + word(1));
  EXPECT_THAT(error(wrong, scheme), HasSubstr("[4, 1]"));
}

TEST_F(StoredMatrixTest, Mxfp8) {
  const std::string exponents = {'\x79', '\x7f', '\x81', '\x7c', '\x83', '\x7e', '\x7d', '\x80', '\x78', '\x7b'};
  auto of = [&](int64_t row, int64_t col) {
    return e8m0_to_f32(static_cast<uint8_t>(exponents[static_cast<size_t>(row * 2 + col / 32)]));
  };
  SafetensorsWriter modelopt = fp8();
  add(modelopt, "weight_scale", {kRows, 2}, "U8", exponents);
  expect(modelopt, R"({"quant_method":"modelopt","quant_algo":"MXFP8"})", decoded(kE4M3Values, of), "mxfp8");
  SafetensorsWriter plain = fp8();
  add(plain, "weight_scale_inv", {kRows, 2}, "F8_E8M0", exponents);
  expect(plain, R"({"quant_method":"mxfp8","weight_block_size":[1,32]})", decoded(kE4M3Values, of), "mxfp8");
}

SafetensorsWriter fp4(const std::string& last = "weight", const std::string& type = "U8") {
  SafetensorsWriter writer;
  add(writer, last, {kRows, kCols / 2}, type, bytes(kRows * kCols / 2));
  return writer;
}

/// The even element lies in the low nibble.
template <class ScaleAt>
std::vector<float> decoded_fp4(ScaleAt scale_at) {
  std::string codes = bytes(kRows * kCols / 2);
  std::vector<float> out;
  for (int64_t i = 0; i < kRows * kCols; ++i) {
    const auto pair = static_cast<uint8_t>(codes[static_cast<size_t>(i / 2)]);
    out.push_back(scale_at(i / kCols, i % kCols, kE2M1Values[i % 2 == 0 ? pair & 15 : pair >> 4]));
  }
  return out;
}

const std::string kE4M3Scales = bytes(kRows * kCols / 16, 40);

std::string positive(std::string codes) {
  for (char& code : codes) code = static_cast<char>(code & 0x7F);
  return codes;
}

TEST_F(StoredMatrixTest, Nvfp4MultipliesOrDividesByItsGlobalScale) {
  const std::string inner = positive(kE4M3Scales);
  auto of = [&](int64_t row, int64_t col, float code) {
    return code * e4m3_to_f32(static_cast<uint8_t>(inner[static_cast<size_t>(row * 4 + col / 16)])) * 0.007f;
  };
  for (const char* algorithm : {"NVFP4", "W4A16_NVFP4"}) {
    SafetensorsWriter modelopt = fp4();
    add(modelopt, "weight_scale", {kRows, 4}, "F8_E4M3", inner);
    add(modelopt, "weight_scale_2", {}, "F32", f32({0.007f}));
    expect(modelopt, fmt::format(R"({{"quant_method":"modelopt","quant_algo":"{}"}})", algorithm), decoded_fp4(of),
           "nvfp4");
  }
  SafetensorsWriter compressed = fp4("weight_packed");
  add(compressed, "weight_scale", {kRows, 4}, "F8_E4M3", inner);
  add(compressed, "weight_global_scale", {1}, "F32", f32({1 / 0.007f}));
  auto made =
      read(compressed, R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","config_groups":)"
                       R"({"g":{"targets":["Linear"],"weights":{"num_bits":4,"type":"float",)"
                       R"("strategy":"tensor_group","group_size":16}}}})");
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_THAT(made->matrix.decode(), Pointwise(FloatNear(1e-6f), decoded_fp4(of)));
  EXPECT_THAT(made->matrix.origin(), HasSubstr("x weight_scale x 1/weight_global_scale"));
}

// Experts of 4 bits inside an FP8 checkpoint: two codes a byte, scales of powers of two however they are stored.
TEST_F(StoredMatrixTest, Fp4InsideAnFp8Checkpoint) {
  const std::string exponents = {'\x79', '\x7f', '\x81', '\x7c', '\x83', '\x7e', '\x7d', '\x80', '\x78', '\x7b'};
  auto of = [&](int64_t row, int64_t col, float code) {
    return code * e8m0_to_f32(static_cast<uint8_t>(exponents[static_cast<size_t>(row * 2 + col / 32)]));
  };
  const std::string scheme = R"({"quant_method":"fp8","weight_block_size":[128,128],"scale_fmt":"ue8m0"})";
  SafetensorsWriter bytes_of_scales = fp4("weight", "I8");
  add(bytes_of_scales, "scale", {kRows, 2}, "F8_E8M0", exponents);
  expect(bytes_of_scales, scheme, decoded_fp4(of), "mxfp4");
  std::vector<float> floats;
  for (char exponent : exponents) floats.push_back(e8m0_to_f32(static_cast<uint8_t>(exponent)));
  SafetensorsWriter floating = fp4("weight", "I8");
  add(floating, "weight_scale_inv", {kRows, 2}, "F32", f32(floats));
  expect(floating, scheme, decoded_fp4(of), "mxfp4");
  floats[3] = 0.6f;
  SafetensorsWriter rounded = fp4("weight", "I8");
  add(rounded, "weight_scale_inv", {kRows, 2}, "F32", f32(floats));
  EXPECT_THAT(error(rounded, scheme), AllOf(HasSubstr("scale 3"), HasSubstr("power of two")));
}

// FN and FNUZ are different types: the same bits are other numbers, and other codes are NaN.
TEST_F(StoredMatrixTest, FnuzCodesKeepTheirValues) {
  SafetensorsWriter writer = fp8("F8_E4M3FNUZ");
  add(writer, "weight_scale", {}, "F32", f32({0.37f}));
  auto made = read(writer, R"({"quant_method":"fp8"})");
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  const std::vector<float> expected = decoded(kE4M3FnuzValues, [](int64_t, int64_t) { return 0.37f; });
  const std::vector<float> found = made->matrix.decode();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))) << i;
  }
  EXPECT_EQ(made->matrix.codec().name, "e4m3[tensor]");
  // 240 has no code of FN under half the scale: the matrix is kept as plain numbers.
  SafetensorsWriter wide;
  std::string codes = bytes(kRows * kCols);
  codes[5] = '\x7F';
  add(wide, "weight", {kRows, kCols}, "F8_E4M3FNUZ", codes);
  add(wide, "weight_scale", {}, "F32", f32({0.37f}));
  const StoredMatrix kept = read(wide, R"({"quant_method":"fp8"})").value();
  EXPECT_EQ(kept.matrix.codec().name, "f32");
  EXPECT_EQ(kept.matrix.decode()[5], 240.0f * 0.37f);
  EXPECT_TRUE(std::isnan(kE4M3FnuzValues[0x80]));
  EXPECT_EQ(kE4M3FnuzValues[0x38], 0.5f);
  EXPECT_EQ(kE4M3Values[0x38], 1.0f);
  EXPECT_EQ(kE5M2FnuzValues[0x7F], 57344.0f);
}

TEST_F(StoredMatrixTest, AMissingScaleIsNamed) {
  EXPECT_THAT(error(fp8(), R"({"quant_method":"fp8"})"),
              AllOf(HasSubstr("layers.0.up_proj.weight"), HasSubstr("missing"), HasSubstr("weight_scale")));
  EXPECT_THAT(error(fp4(), R"({"quant_method":"modelopt","quant_algo":"NVFP4"})"), HasSubstr("missing"));
  SafetensorsWriter half = fp4();
  add(half, "weight_scale", {kRows, 4}, "F8_E4M3", positive(kE4M3Scales));
  EXPECT_THAT(error(half, R"({"quant_method":"modelopt","quant_algo":"NVFP4"})"),
              AllOf(HasSubstr("global scale"), HasSubstr("weight_scale_2")));
  SafetensorsWriter input = fp8();
  add(input, "weight_scale", {}, "F32", f32({0.37f}));
  EXPECT_THAT(error(input, R"({"quant_method":"fp8","activation_scheme":"static"})"), HasSubstr("input_scale"));
}

// F22
// CKPT-12
TEST_F(StoredMatrixTest, NumbersThatARuleCallsQuantisedAreNotTakenAsTheyAre) {
  SafetensorsWriter writer;
  add(writer, "weight", {kRows, kCols}, "BF16", std::string(kRows * kCols * 2, '\x3f'));
  EXPECT_THAT(error(writer, R"({"quant_method":"fp8"})"), AllOf(HasSubstr("BF16"), HasSubstr("list of those")));
  EXPECT_EQ(error(writer, R"({"quant_method":"fp8","ignored_layers":["model.language_model.layers.0"]})"), "no error");
  SafetensorsWriter codes = fp8();
  add(codes, "weight_scale", {}, "F32", f32({0.37f}));
  EXPECT_THAT(error(codes, R"({"quant_method":"fp8","ignored_layers":["up_proj"]})"),
              AllOf(HasSubstr("F8_E4M3"), HasSubstr("'up_proj' of ignored_layers")));
  EXPECT_THAT(error(codes, ""), HasSubstr("nothing says which scale"));
}

TEST_F(StoredMatrixTest, ScalesOfAnotherShapeAreRefused) {
  const std::string block = R"({"quant_method":"fp8","weight_block_size":[2,32]})";
  SafetensorsWriter transposed = fp8();
  add(transposed, "weight_scale_inv", {2, 3}, "F32", f32(scales(6)));
  EXPECT_THAT(error(transposed, block), AllOf(HasSubstr("[2, 3]"), HasSubstr("[3, 2]")));
  SafetensorsWriter channel = fp8();
  add(channel, "weight_scale", {kRows, 1}, "F32", f32(scales(kRows)));
  EXPECT_THAT(error(channel, R"({"quant_method":"fp8"})"), HasSubstr("[5, 1]"));
  SafetensorsWriter nvfp4 = fp4();
  add(nvfp4, "weight_scale", {kRows, 2}, "F8_E4M3", positive(bytes(10)));
  add(nvfp4, "weight_scale_2", {}, "F32", f32({0.3f}));
  EXPECT_THAT(error(nvfp4, R"({"quant_method":"modelopt","quant_algo":"NVFP4"})"), HasSubstr("[5, 4]"));
  SafetensorsWriter tensor = fp8();
  add(tensor, "weight_scale", {}, "F32", f32({0.37f}));
  EXPECT_THAT(error(tensor, R"({"quant_method":"fp8"})", kRows + 1), HasSubstr("[6, 64]"));
  EXPECT_THAT(error(tensor, R"({"quant_method":"modelopt","quant_algo":"MXFP8"})"), HasSubstr("[5, 2]"));
}

// A15
TEST_F(StoredMatrixTest, ScalesThatAreNoPositiveNumbersAreRefusedByName) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 0.0f, -1.0f}) {
    SafetensorsWriter tensor = fp8();
    add(tensor, "weight_scale", {}, "F32", f32({bad}));
    EXPECT_THAT(error(tensor, R"({"quant_method":"fp8"})"), HasSubstr("weight_scale")) << bad;
    std::vector<float> own = scales(6);
    own[4] = bad;
    SafetensorsWriter block = fp8();
    add(block, "weight_scale_inv", {3, 2}, "F32", f32(own));
    EXPECT_THAT(error(block, R"({"quant_method":"fp8","weight_block_size":[2,32]})"),
                AllOf(HasSubstr("weight_scale_inv"), HasSubstr("[2, 0]")))
        << bad;
    SafetensorsWriter input = fp8();
    add(input, "weight_scale", {}, "F32", f32({0.3f}));
    add(input, "input_scale", {}, "F32", f32({bad}));
    EXPECT_THAT(error(input, R"({"quant_method":"fp8","activation_scheme":"static"})"), HasSubstr("input_scale"))
        << bad;
    SafetensorsWriter global = fp4();
    add(global, "weight_scale", {kRows, 4}, "F8_E4M3", positive(kE4M3Scales));
    add(global, "weight_scale_2", {}, "F32", f32({bad}));
    EXPECT_THAT(error(global, R"({"quant_method":"modelopt","quant_algo":"NVFP4"})"), HasSubstr("weight_scale_2"));
  }
  for (char bad : {'\x7f', '\xff'}) {
    std::string inner = positive(kE4M3Scales);
    inner[6] = bad;
    SafetensorsWriter nvfp4 = fp4();
    add(nvfp4, "weight_scale", {kRows, 4}, "F8_E4M3", inner);
    add(nvfp4, "weight_scale_2", {}, "F32", f32({0.3f}));
    EXPECT_THAT(error(nvfp4, R"({"quant_method":"modelopt","quant_algo":"NVFP4"})"),
                AllOf(HasSubstr("weight_scale"), HasSubstr("[1, 2]"), HasSubstr("NaN")));
  }
  std::string exponents(10, '\x7e');
  exponents[3] = '\xff';
  SafetensorsWriter mxfp8 = fp8();
  add(mxfp8, "weight_scale", {kRows, 2}, "U8", exponents);
  EXPECT_THAT(error(mxfp8, R"({"quant_method":"modelopt","quant_algo":"MXFP8"})"), HasSubstr("[1, 1]"));
}

// CKPT-7
TEST_F(StoredMatrixTest, TwoSpellingsOfOneScaleStopTheLoad) {
  SafetensorsWriter writer = fp8();
  add(writer, "weight_scale", {}, "F32", f32({0.3f}));
  add(writer, "weight_scale_inv", {}, "F32", f32({1.7f}));
  EXPECT_THAT(error(writer, R"({"quant_method":"fp8"})"), AllOf(HasSubstr("weight_scale_inv"), HasSubstr("beside")));
}

TEST_F(StoredMatrixTest, InputScalesAreReadInBothDirections) {
  SafetensorsWriter plain = fp8();
  add(plain, "weight_scale", {}, "F32", f32({0.3f}));
  add(plain, "input_scale", {1}, "F32", f32({0.6f}));
  EXPECT_EQ(read(plain, R"({"quant_method":"fp8","activation_scheme":"static"})")->input_scale, 0.6f);
  SafetensorsWriter inverse = fp8();
  add(inverse, "weight_scale", {}, "F32", f32({0.3f}));
  add(inverse, "input_global_scale", {1}, "F32", f32({4.0f}));
  EXPECT_EQ(read(inverse, R"({"quant_method":"fp8"})")->input_scale, 0.25f);
}

TEST_F(StoredMatrixTest, AHeadThatIsNotListedIsTakenAsItIsStored) {
  SafetensorsWriter writer;
  writer.f32("lm_head.weight", {2, 2}, {0.3f, 1.7f, 0.6f, 2.3f});
  EXPECT_THAT(error(writer, R"({"quant_method":"fp8"})"), HasSubstr("missing"));
  auto head = read_matrix(*checkpoint_, "lm_head", 2, 2);
  ASSERT_TRUE(head.ok()) << head.error().to_string();
  EXPECT_EQ(head->matrix.decode(), (std::vector{0.3f, 1.7f, 0.6f, 2.3f}));
}

// gpt-oss: [rows, columns / 32, 16] codes beside their scales.
TEST_F(StoredMatrixTest, Mxfp4OfAnExpert) {
  const std::string exponents = {'\x79', '\x7f', '\x81', '\x7c', '\x83', '\x7e', '\x7d', '\x80', '\x78', '\x7b'};
  const std::vector<float> expected = decoded_fp4([&](int64_t row, int64_t col, float code) {
    return code * e8m0_to_f32(static_cast<uint8_t>(exponents[static_cast<size_t>(row * 2 + col / 32)]));
  });
  const std::string scheme = R"({"quant_method":"mxfp4","modules_to_not_convert":["lm_head"]})";
  const std::string stem = "model.layers.0.mlp.experts.3.gate_up_proj";
  SafetensorsWriter writer;
  writer.tensor(stem + "_blocks", {kRows, 2, 16}, "U8", bytes(kRows * kCols / 2));
  writer.tensor(stem + "_scales", {kRows, 2}, "U8", exponents);
  EXPECT_THAT(error(writer, scheme), HasSubstr("missing"));
  auto made = read_matrix(*checkpoint_, stem, kRows, kCols);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(made->matrix.decode(), expected);
  EXPECT_EQ(made->matrix.codec().name, "mxfp4");
  EXPECT_THAT(made->sources, ::testing::SizeIs(2));
  SafetensorsWriter alone;
  alone.tensor("model.layers.0.mlp.experts.3.gate_up_proj_blocks", {kRows, 2, 16}, "U8", bytes(kRows * kCols / 2));
  EXPECT_THAT(error(alone, scheme), HasSubstr("missing"));
  EXPECT_THAT(read_matrix(*checkpoint_, "model.layers.0.mlp.experts.3.gate_up_proj", kRows, kCols).error().to_string(),
              AllOf(HasSubstr("gate_up_proj_blocks"), HasSubstr("scale is missing")));
}

}  // namespace
}  // namespace vernier
