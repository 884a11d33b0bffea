#include "checkpoint/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>

#include "testing/gguf_writer.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::TempFolder;

class GgufTest : public ::testing::Test {
 protected:
  Result<std::shared_ptr<const Gguf>> open(const std::string& bytes) {
    return Gguf::open(folder_.write("model.gguf", bytes));
  }
  std::string error_of(const std::string& bytes) {
    auto gguf = open(bytes);
    return gguf.ok() ? "no error" : gguf.error().to_string();
  }
  std::string error_of(const GgufWriter& writer) { return error_of(writer.bytes()); }

  TempFolder folder_;
};

std::string zeros(size_t size) {
  return std::string(size, '\0');
}

TEST_F(GgufTest, ReadsEveryMetadataType) {
  GgufWriter writer;
  writer.raw("u8", 0, "\xff").raw("i8", 1, "\xff").u16("u16", 65535).raw("i16", 3, "\xfe\xff").u32("u32", 4000000000u);
  writer.i32("i32", -5).u64("u64", uint64_t{1} << 40).raw("i64", 11, GgufWriter::le<int64_t>(-7)).f32("f32", 0.3f);
  writer.raw("f64", 12, GgufWriter::le(1.7))
      .boolean("bool", true)
      .text("text", "sea")
      .strings("texts", {"a", "", "bc"});
  writer.f32s("f32s", {0.5f, -1.5f}).i32s("i32s", {3, -4});
  auto gguf = open(writer.bytes());
  ASSERT_TRUE(gguf.ok()) << gguf.error().to_string();
  const Gguf& file = **gguf;
  EXPECT_EQ(file.integer("u8").value(), 255);
  EXPECT_EQ(file.integer("i8").value(), -1);
  EXPECT_EQ(file.integer("u16").value(), 65535);
  EXPECT_EQ(file.integer("i16").value(), -2);
  EXPECT_EQ(file.integer("u32").value(), 4000000000);
  EXPECT_EQ(file.integer("i32").value(), -5);
  EXPECT_EQ(file.integer("u64").value(), int64_t{1} << 40);
  EXPECT_EQ(file.integer("i64").value(), -7);
  EXPECT_EQ(file.number("f32").value(), static_cast<double>(0.3f));
  EXPECT_EQ(file.number("f64").value(), 1.7);
  EXPECT_EQ(file.boolean("bool").value(), true);
  EXPECT_EQ(file.text("text").value(), "sea");
  EXPECT_THAT(*file.find("texts")->as_strings(), ElementsAre("a", "", "bc"));
  EXPECT_THAT(*file.find("f32s")->as_numbers(), ElementsAre(0.5, -1.5));
  EXPECT_THAT(*file.find("i32s")->as_integers(), ElementsAre(3, -4));
  EXPECT_EQ(file.integer("absent").value(), std::nullopt);
}

// CKPT-2
TEST_F(GgufTest, StringsStayInTheFile) {
  auto gguf = open(GgufWriter().strings("tokens", {"first", "second"}).bytes());
  ASSERT_TRUE(gguf.ok());
  std::span<const std::byte> map = (*gguf)->file()->bytes();
  std::vector<std::string_view> tokens = (*gguf)->find("tokens")->as_strings().value();
  for (std::string_view text : tokens) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    EXPECT_TRUE(begin >= map.data() && begin + text.size() <= map.data() + map.size());
  }
}

// CKPT-5
TEST_F(GgufTest, WrongTypeOfAKeyIsAnErrorThatNamesIt) {
  auto gguf = open(GgufWriter().text("llama.block_count", "two").f32("eps", 1).bytes());
  ASSERT_TRUE(gguf.ok());
  EXPECT_THAT((*gguf)->integer("llama.block_count").error().to_string(),
              AllOf(HasSubstr("llama.block_count"), HasSubstr("integer"), HasSubstr("string")));
  EXPECT_FALSE((*gguf)->text("eps").ok());
  EXPECT_FALSE((*gguf)->boolean("eps").ok());
  EXPECT_FALSE((*gguf)->integer("eps").ok());
}

TEST_F(GgufTest, VersionsTwoAndThreeAreReadOthersNamed) {
  GgufWriter writer;
  writer.u32("a", 1);
  writer.version = 2;
  EXPECT_TRUE(open(writer.bytes()).ok());
  for (uint32_t version : {0u, 1u, 4u}) {
    writer.version = version;
    EXPECT_THAT(error_of(writer), HasSubstr(fmt::format("version {}", version)));
  }
  writer.version = 0x03000000;
  EXPECT_THAT(error_of(writer), HasSubstr("big-endian"));
  EXPECT_THAT(error_of("GGML"), HasSubstr("not a GGUF file"));
  EXPECT_THAT(error_of(""), HasSubstr("not a GGUF file"));
}

TEST_F(GgufTest, TensorsAreFoundWhereTheTableSays) {
  GgufWriter writer;
  writer.f32_tensor("a", {3, 2}, {1, 2, 3, 4, 5, 6}).tensor("b", {32, 1, 2}, 8, zeros(68)).tensor("c", {4}, 24, "abcd");
  auto gguf = open(writer.bytes());
  ASSERT_TRUE(gguf.ok()) << gguf.error().to_string();
  std::span<const GgufTensor> tensors = (*gguf)->tensors();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].rank, 2);
  EXPECT_EQ(tensors[0].elements(), 6u);
  float third = 0;
  std::memcpy(&third, tensors[0].bytes.data() + 8, 4);
  EXPECT_EQ(third, 3);
  EXPECT_EQ(tensors[1].type->name, "Q8_0");
  EXPECT_EQ(tensors[1].bytes.size(), 68u);
  EXPECT_EQ(static_cast<char>(tensors[2].bytes[3]), 'd');
  EXPECT_FALSE(tensors[2].type->codec.has_value());
}

// F01, CKPT-1
TEST_F(GgufTest, SizesThatWrapAreRefused) {
  std::vector<std::vector<uint64_t>> shapes = {{uint64_t{1} << 32, uint64_t{1} << 32},
                                               {(uint64_t{1} << 42) + 1, uint64_t{1} << 22},
                                               {0, 4},
                                               {~uint64_t{0}},
                                               {uint64_t{1} << 63},
                                               {uint64_t{1} << 31, uint64_t{1} << 31, uint64_t{1} << 31}};
  for (const auto& shape : shapes) {
    EXPECT_THAT(error_of(GgufWriter().tensor("tensor.x", shape, 0, zeros(32))),
                AllOf(HasSubstr("tensor.x"), HasSubstr("dimension")));
  }
  // Fits as a count of elements, not as a count of bytes.
  EXPECT_THAT(error_of(GgufWriter().tensor("tensor.x", {uint64_t{1} << 62}, 0, zeros(32))), HasSubstr("64 bits"));
}

// F02
TEST_F(GgufTest, DimensionCountAndTypeCodeAreChecked) {
  EXPECT_THAT(error_of(GgufWriter().tensor("t", {1, 1, 1, 1, 1}, 0, zeros(4))), HasSubstr("5 dimensions"));
  EXPECT_THAT(error_of(GgufWriter().tensor("t", {}, 0, zeros(4))), HasSubstr("0 dimensions"));
  std::string many = GgufWriter().tensor("name", {1}, 0, zeros(4)).bytes();
  many.replace(24 + 12, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(error_of(many), AllOf(HasSubstr("name"), HasSubstr("4294967295 dimensions")));
  for (uint32_t type : {255u, 4u, 5u, 31u, 36u, 0xffffffffu}) {
    EXPECT_THAT(error_of(GgufWriter().tensor("t.w", {32}, type, zeros(64))),
                AllOf(HasSubstr("t.w"), HasSubstr(std::to_string(type))));
  }
}

/// Makes the process's peak of resident memory its present size; false where the system does not let it.
bool restart_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

size_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6)) << 10;
  }
  return 0;
}

// F03, CKPT-1
TEST_F(GgufTest, CountsAreBoundedByTheBytesLeft) {
  const bool measured = restart_peak_memory();
  const size_t before = peak_memory_bytes();
  for (uint64_t count : {uint64_t{1} << 58, ~uint64_t{0}, uint64_t{1} << 20}) {
    GgufWriter tensors;
    tensors.tensor_count = count;
    GgufWriter metadata;
    metadata.metadata_count = count;
    auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(error_of(tensors), HasSubstr("tensors"));
    EXPECT_THAT(error_of(metadata), HasSubstr("metadata"));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(200));
  }
  if (measured) {
    EXPECT_LT(peak_memory_bytes(), before + (10 << 20));
  }
}

// F04
TEST_F(GgufTest, AlignmentIsTypeCheckedAndAPowerOfTwo) {
  EXPECT_THAT(error_of(GgufWriter().i32("general.alignment", 32)), HasSubstr("must be a u32"));
  EXPECT_THAT(error_of(GgufWriter().text("general.alignment", "32")), HasSubstr("must be a u32"));
  for (uint32_t alignment : {0u, 3u, 1u << 31, 0xffffffffu}) {
    EXPECT_THAT(error_of(GgufWriter().u32("general.alignment", alignment)), HasSubstr("power of two"));
  }
  GgufWriter writer;
  writer.alignment = 64;
  writer.u32("general.alignment", 64).f32_tensor("a", {1}, {1.5f}).f32_tensor("b", {1}, {2.5f});
  auto gguf = open(writer.bytes());
  ASSERT_TRUE(gguf.ok()) << gguf.error().to_string();
  EXPECT_EQ((*gguf)->tensors()[1].bytes.data() - (*gguf)->tensors()[0].bytes.data(), 64);
  EXPECT_THAT(error_of(GgufWriter().tensor("t", {1}, 0, zeros(64), 4)), HasSubstr("alignment"));
}

// F06
TEST_F(GgufTest, StringsAndArraysAreBoundedByTheBytesLeft) {
  using W = GgufWriter;
  EXPECT_THAT(error_of(GgufWriter().raw("key", 8, W::le(uint64_t{1} << 62))), HasSubstr("string runs past"));
  EXPECT_THAT(error_of(GgufWriter().raw("key", 8, W::le(~uint64_t{0}))), HasSubstr("string runs past"));
  std::string strings = W::le<uint32_t>(8) + W::le(uint64_t{1} << 60);
  EXPECT_THAT(error_of(GgufWriter().raw("key", 9, strings)), HasSubstr("array of 1152921504606846976 strings"));
  std::string floats = W::le<uint32_t>(6) + W::le(uint64_t{1} << 62);
  EXPECT_THAT(error_of(GgufWriter().raw("key", 9, floats)), HasSubstr("array of 4611686018427387904 f32"));
  std::string nested = W::le<uint32_t>(9) + W::le<uint64_t>(1) + W::le<uint32_t>(4) + W::le<uint64_t>(0);
  EXPECT_THAT(error_of(GgufWriter().raw("key", 9, nested)), HasSubstr("array of arrays"));
  EXPECT_THAT(error_of(GgufWriter().raw("key", 13, zeros(8))), HasSubstr("unknown value type 13"));
  EXPECT_THAT(error_of(GgufWriter().raw("key", 7, "\x02")), HasSubstr("0 or 1"));
}

// CKPT-2
TEST_F(GgufTest, LargeVocabulariesOpenInLinearTime) {
  std::vector<std::string> tokens(500'000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = "token" + std::to_string(i);
  std::string path = folder_.write("vocabulary.gguf", GgufWriter().strings("tokenizer.ggml.tokens", tokens).bytes());
  auto begin = std::chrono::steady_clock::now();
  auto gguf = Gguf::open(path);
  auto elapsed = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(gguf.ok());
  EXPECT_LT(elapsed, std::chrono::milliseconds(500));
  EXPECT_EQ((*gguf)->find("tokenizer.ggml.tokens")->as_strings()->back(), "token499999");
}

// CKPT-3
TEST_F(GgufTest, DuplicateKeysAndTensorsAreRefused) {
  EXPECT_THAT(error_of(GgufWriter().u32("a.b", 1).u32("a.b", 2)), AllOf(HasSubstr("a.b"), HasSubstr("twice")));
  EXPECT_THAT(error_of(GgufWriter().f32_tensor("w", {1}, {1}).f32_tensor("w", {1}, {2})),
              HasSubstr("w stands there twice"));
}

// CKPT-4
TEST_F(GgufTest, TensorsNeitherOverlapNorLeaveHoles) {
  std::string data = zeros(64);
  EXPECT_THAT(error_of(GgufWriter().tensor("a", {16}, 0, data).tensor("b", {16}, 0, data, 32)), HasSubstr("overlap"));
  EXPECT_THAT(error_of(GgufWriter().tensor("a", {8}, 0, zeros(32)).tensor("b", {8}, 0, data, 64)),
              HasSubstr("belong to no tensor"));
  EXPECT_THAT(error_of(GgufWriter().tensor("a", {8}, 0, zeros(32), uint64_t{1} << 40)),
              HasSubstr("offset 1099511627776"));
  EXPECT_THAT(error_of(GgufWriter().tensor("a", {8}, 0, zeros(32), ~uint64_t{31})), HasSubstr("offset"));
  // The order of the table is free.
  EXPECT_TRUE(open(GgufWriter().tensor("a", {8}, 0, zeros(32), 32).tensor("b", {8}, 0, zeros(32), 0).bytes()).ok());
}

TEST_F(GgufTest, RowsThatCutABlockAreRefused) {
  EXPECT_THAT(error_of(GgufWriter().tensor("w", {48, 2}, 2, zeros(64))), AllOf(HasSubstr("w"), HasSubstr("Q4_0")));
}

TEST_F(GgufTest, EveryTruncationIsAnErrorAndNoCrash) {
  GgufWriter writer;
  writer.text("general.architecture", "llama").strings("tokens", {"a", "bb"}).f32s("scores", {1, 2}).boolean("b", true);
  writer.f32_tensor("a.weight", {4, 2}, std::vector<float>(8, 0.3f)).tensor("q", {32}, 2, zeros(18));
  std::string whole = writer.bytes();
  size_t needed = whole.size() - 14;  // the padding of the last tensor may be missing
  ASSERT_TRUE(open(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(open(whole.substr(0, size)).ok(), size >= needed) << size;
  }
}

TEST_F(GgufTest, HostileNamesArePrintedHarmlessly) {
  std::string message = error_of(GgufWriter().u32("a\x1b[31m\"", 1).u32("a\x1b[31m\"", 1));
  EXPECT_THAT(message, HasSubstr("a\\x1b[31m\""));
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(error_of(GgufWriter().tensor(std::string(100'000, 'x'), {0}, 0, "")).size(), 1000u);
}

}  // namespace
}  // namespace vernier
