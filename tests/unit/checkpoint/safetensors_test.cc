#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "testing/safetensors_writer.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::safetensors_file;
using testing::SafetensorsWriter;
using testing::TempFolder;

class SafetensorsTest : public ::testing::Test {
 protected:
  Result<std::shared_ptr<const Safetensors>> open(const std::string& bytes) {
    return Safetensors::open(folder_.write("model.safetensors", bytes));
  }
  std::string error_of(const std::string& bytes) {
    auto file = open(bytes);
    return file.ok() ? "no error" : file.error().to_string();
  }
  std::string error_of(std::string_view header, std::string_view data) {
    return error_of(safetensors_file(header, data));
  }

  TempFolder folder_;
};

std::string object(std::string_view fields) {
  return fmt::format("{{{}}}", fields);
}

std::string f32(std::string_view name, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"("{}":{{"dtype":"F32","shape":{},"data_offsets":{}}})", name, shape, offsets);
}

TEST_F(SafetensorsTest, TensorsAreFoundWhereTheHeaderSays) {
  SafetensorsWriter writer;
  writer.f32("b", {2, 3}, {1, 2, 3, 4, 5, 6}).tensor("a", {2}, "BF16", "wxyz").tensor("s", {}, "F8_E4M3", "q");
  writer.tensor("none", {0, 4}, "F16", "").tensor("p", {3, 2}, "F4", "abc");
  auto file = open(writer.bytes());
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  std::span<const SafetensorsTensor> tensors = (*file)->tensors();
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_EQ(tensors[0].name, "b");
  EXPECT_THAT(tensors[0].extents, ElementsAre(2, 3));
  EXPECT_EQ(tensors[0].bytes.size(), 24u);
  EXPECT_EQ(tensors[1].type->codec, CodecId::kBF16);
  EXPECT_EQ(static_cast<char>(tensors[1].bytes[3]), 'z');
}

// F07
TEST_F(SafetensorsTest, ATruncatedFileNamesExpectedAndActualSize) {
  SafetensorsWriter writer;
  writer.f32("w", {64, 64}, std::vector<float>(4096, 0.3f));
  std::string whole = writer.bytes();
  size_t header = whole.size() - 16384;
  for (size_t cut : {size_t{1}, size_t{4096}, size_t{16384}}) {
    EXPECT_THAT(error_of(whole.substr(0, whole.size() - cut)),
                AllOf(HasSubstr(fmt::format("{} bytes", whole.size())), HasSubstr(std::to_string(whole.size() - cut))));
  }
  for (size_t size = 0; size < header; ++size) EXPECT_FALSE(open(whole.substr(0, size)).ok()) << size;
}

// F10, CKPT-3
TEST_F(SafetensorsTest, ADuplicateTensorIsNamed) {
  EXPECT_THAT(error_of(object(f32("a", "[1]", "[0,4]") + "," + f32("a", "[1]", "[4,8]")), "01234567"),
              AllOf(HasSubstr("a"), HasSubstr("twice")));
  EXPECT_THAT(error_of(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "0123"),
              HasSubstr("twice"));
}

// F11
TEST_F(SafetensorsTest, MetadataIsNoTensorAndHoldsStringsOnly) {
  EXPECT_TRUE(open(safetensors_file(R"({"__metadata__":{}})", "")).ok());
  auto file = open(safetensors_file(R"({"__metadata__":{"format":"pt"}})", ""));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->tensors().empty());
  EXPECT_EQ((*file)->metadata().at("format"), "pt");
  EXPECT_THAT(error_of(R"({"__metadata__":{"n":1}})", ""), HasSubstr("__metadata__"));
  EXPECT_THAT(error_of(R"({"__metadata__":[]})", ""), HasSubstr("__metadata__"));
}

// F12, CKPT-4
TEST_F(SafetensorsTest, EveryByteBelongsToOneTensor) {
  std::string a = f32("a", "[2]", "[0,8]");
  EXPECT_TRUE(open(safetensors_file(object(a + "," + f32("b", "[1]", "[8,12]")), "0123456789ab")).ok());
  EXPECT_THAT(error_of(object(a + "," + f32("b", "[1]", "[7,11]")), "0123456789a"), HasSubstr("overlap"));
  EXPECT_THAT(error_of(object(a + "," + f32("b", "[1]", "[16,20]")), std::string(20, 'x')),
              AllOf(HasSubstr("8 bytes before tensor b"), HasSubstr("no tensor")));
  EXPECT_THAT(error_of(object(a), std::string(24, 'x')), HasSubstr("16 bytes after the last tensor"));
  EXPECT_THAT(error_of(object(f32("b", "[1]", "[4,8]")), "01234567"), HasSubstr("4 bytes before tensor b"));
}

// F12, CKPT-1
TEST_F(SafetensorsTest, HeaderLengthIsChecked) {
  auto with_length = [&](uint64_t length) {
    std::string bytes = safetensors_file("{}      ", "");
    std::memcpy(bytes.data(), &length, 8);
    return error_of(bytes);
  };
  EXPECT_EQ(with_length(8), "no error");
  EXPECT_THAT(with_length(0), HasSubstr("header length is 0"));
  EXPECT_THAT(with_length(9), HasSubstr("header length is 9"));
  EXPECT_THAT(with_length(uint64_t{1} << 63), HasSubstr("limit"));
  EXPECT_THAT(with_length(~uint64_t{0}), HasSubstr("limit"));
  EXPECT_THAT(error_of(object(std::string(120'000'000, ' ')), ""), HasSubstr("limit"));
  EXPECT_THAT(error_of(""), HasSubstr("0 bytes"));
  EXPECT_THAT(error_of(" {}", ""), HasSubstr("begin with"));
  EXPECT_THAT(error_of("[]", ""), HasSubstr("begin with"));
  EXPECT_THAT(error_of("{} {}", ""), HasSubstr("header is wrong"));
}

// F12
TEST_F(SafetensorsTest, EntriesAreTypeChecked) {
  auto entry = [&](std::string_view dtype, std::string_view shape, std::string_view offsets, std::string_view data) {
    return error_of(fmt::format(R"({{"t":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape, offsets), data);
  };
  EXPECT_EQ(entry(R"("F16")", "[3]", "[0,6]", "123456"), "no error");
  EXPECT_THAT(entry(R"("F16")", "[3]", "[0,5]", "12345"), AllOf(HasSubstr("t: F16"), HasSubstr("5 bytes")));
  EXPECT_THAT(entry(R"("F7")", "[3]", "[0,3]", "123"), HasSubstr("unknown dtype \"F7\""));
  EXPECT_THAT(entry("7", "[3]", "[0,3]", "123"), HasSubstr("dtype"));
  EXPECT_THAT(entry(R"("U8")", "[3]", "[0.0,3.0]", "123"), HasSubstr("data_offsets"));
  EXPECT_THAT(entry(R"("U8")", "[3]", "[3,0]", "123"), HasSubstr("ends before"));
  EXPECT_THAT(entry(R"("U8")", "[3]", "[0,3,6]", "123"), HasSubstr("data_offsets"));
  EXPECT_THAT(entry(R"("U8")", "[-3]", "[0,3]", "123"), HasSubstr("shape"));
  EXPECT_THAT(entry(R"("U8")", "[3.0]", "[0,3]", "123"), HasSubstr("shape"));
  EXPECT_THAT(entry(R"("U8")", "{}", "[0,3]", "123"), HasSubstr("shape"));
  EXPECT_THAT(entry(R"("F32")", "[4611686018427387904,4]", "[0,0]", ""), HasSubstr("64 bits"));
  EXPECT_THAT(entry(R"("F4")", "[3]", "[0,1]", "1"), HasSubstr("12 bits"));
  EXPECT_THAT(error_of(R"({"t":[]})", ""), HasSubstr("not an object"));
  EXPECT_THAT(error_of(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"scale":2}})", ""), HasSubstr("scale"));
}

TEST_F(SafetensorsTest, DeepNestingIsRefusedOnAFlatStack) {
  std::string deep = fmt::format(R"({{"t":{}{}}})", std::string(1'000'000, '['), std::string(1'000'000, ']'));
  EXPECT_THAT(error_of(deep, ""), HasSubstr("deeper"));
  EXPECT_FALSE(open(safetensors_file(fmt::format(R"({{"t":{})", std::string(1'000'000, '[')), "")).ok());
}

TEST_F(SafetensorsTest, WhatIsWrittenIsReadBack) {
  const std::vector<float> values = {0.3f, -1.7f, 0.f, 6e8f, 5.f, 0.6f};
  const std::vector<int32_t> choices = {7};
  std::string path = folder_.path("out.safetensors");
  std::vector<NamedNumbers> tensors = {{"logits.0", {2, 3}, std::span(values)}, {"greedy.0", {1}, std::span(choices)}};
  ASSERT_TRUE(write_safetensors(path, tensors).ok());
  auto file = Safetensors::open(path);
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  ASSERT_EQ((*file)->tensors().size(), 2u);
  const SafetensorsTensor& first = (*file)->tensors()[0];
  EXPECT_EQ(first.name, "logits.0");
  EXPECT_EQ(first.type->name, "F32");
  EXPECT_EQ((*file)->tensors()[1].type->name, "I32");
  EXPECT_THAT(first.extents, ElementsAre(2, 3));
  EXPECT_EQ(std::memcmp(first.bytes.data(), values.data(), first.bytes.size()), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.bytes.data()) % 8, 0u);
}

// Renaming over a device or a link put a file in its place.
TEST_F(SafetensorsTest, WritingKeepsLinksAndDevices) {
  const std::vector<float> values(4);
  const std::vector<NamedNumbers> tensors = {{"a", {4}, std::span(values)}};
  const std::string target = folder_.write("target", "old"), link = folder_.path("link"), device = folder_.path("null");
  std::filesystem::create_symlink(target, link);
  ASSERT_TRUE(write_safetensors(link, tensors).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(Safetensors::open(target).ok());
  std::filesystem::create_symlink("/dev/null", device);
  ASSERT_TRUE(write_safetensors(device, tensors).ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  std::filesystem::remove(device);
  std::filesystem::create_symlink("/dev/full", device);
  EXPECT_FALSE(write_safetensors(device, tensors).ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(SafetensorsTest, WritingRefusesWhatNoReaderWouldTake) {
  const std::vector<float> values(4);
  std::string path = folder_.path("out.safetensors");
  EXPECT_FALSE(write_safetensors(path, std::vector<NamedNumbers>{{"a", {5}, std::span(values)}}).ok());
  EXPECT_FALSE(
      write_safetensors(path, std::vector<NamedNumbers>{{"a", {4}, std::span(values)}, {"a", {4}, std::span(values)}})
          .ok());
  EXPECT_FALSE(write_safetensors(path, std::vector<NamedNumbers>{{"\xff", {4}, std::span(values)}}).ok());
  EXPECT_FALSE(write_safetensors("/nowhere/at/all", std::vector<NamedNumbers>{{"a", {4}, std::span(values)}}).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace vernier
