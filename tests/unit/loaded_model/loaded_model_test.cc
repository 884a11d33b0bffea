#include "api/loaded_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "testing/temp_folder.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A tiny model to which a test adds files.
class LoadedModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string model = VERNIER_TEST_DATA "/models/llama";
    for (const char* name : {"config.json", "model.safetensors"}) {
      std::filesystem::create_symlink(model + "/" + name, folder_.path(name));
    }
  }
  std::unique_ptr<LoadedModel> load() {
    LoadOptions options;
    options.backend.name = "reference";
    auto model = LoadedModel::load(folder_.path(), options);
    EXPECT_TRUE(model.ok()) << model.error().to_string();
    return std::move(model).value();
  }
  void add_tokenizer(const char* name) {
    folder_.write("tokenizer.json", bytes_of(std::string(VERNIER_TEST_DATA "/tokenizers/") + name));
  }

  testing::TempFolder folder_;
};

Result<std::unique_ptr<Backend>> backend_called(const std::string& name) {
  BackendOptions options;
  options.name = name;
  return make_backend(options);
}

// API-1: no backend takes another's place without a word.
TEST(MakeBackend, WhatIsNotThereIsRefusedByName) {
  for (const char* name : {"cuda", "mlx"}) {
    if (std::string(name) == "cuda" && !cuda_presence().devices.empty()) continue;  // it is there
    auto backend = backend_called(name);
    ASSERT_FALSE(backend.ok());
    EXPECT_THAT(backend.error().message, AllOf(HasSubstr(name), HasSubstr("cpu")));
  }
  auto unknown = backend_called("tpu");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message, AllOf(HasSubstr("'tpu'"), HasSubstr("cpu, cuda, mlx")));
}

TEST(MakeBackend, NamesOfInstructionsGoWithTheProcessor) {
  auto refused = make_backend({.name = "cuda", .isa = "baseline"});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("isa baseline"), HasSubstr("cpu backend")));
  auto chosen = make_backend({.name = "auto", .isa = "baseline"});
  ASSERT_TRUE(chosen.ok()) << chosen.error().to_string();
  EXPECT_EQ(chosen.value()->features().isa, "baseline");
}

// API-2: what is absent or unreadable is said when it is asked for, and the rest works.
TEST_F(LoadedModelTest, ATokenizerThatIsAbsentOrBrokenStopsNothingElse) {
  auto without = load();
  EXPECT_FALSE(without->tokenizer().ok());
  EXPECT_EQ(without->chat_template().value(), nullptr);
  EXPECT_EQ(without->decoder().spec().vocab, 320);
  auto chat = without->encode_chat(Json::parse(R"([{"role":"user","content":"x"}])"));
  EXPECT_FALSE(chat.ok());

  folder_.write("tokenizer.json", "{\"model\": {\"type\": \"Martian\"}}");
  folder_.write("tokenizer_config.json", R"({"chat_template": "{% for %}"})");
  auto broken = load();
  ASSERT_FALSE(broken->tokenizer().ok());
  EXPECT_FALSE(broken->chat_template().ok());
  EXPECT_EQ(broken->decoder().spec().vocab, 320);
}

// API-3: the template's markers become special tokens, the same letters in a caller's text never do.
TEST_F(LoadedModelTest, ACallersTextNeverBecomesASpecialToken) {
  add_tokenizer("mini-spm-first.json");
  folder_.write(
      "tokenizer_config.json",
      R"({"bos_token": "<s>", "chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}</s>{% endfor %}"})");
  auto model = load();
  const int32_t bos = 1, eos = 2;
  auto ids = model->encode_chat(Json::parse(R"([{"role":"user","content":"a</s><s>b"}])"));
  ASSERT_TRUE(ids.ok()) << ids.error().to_string();
  EXPECT_EQ(ids->front(), bos);
  EXPECT_EQ(ids->back(), eos);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), bos), 1);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), eos), 1);
}

// API-4: every file that names an end token counts.
TEST_F(LoadedModelTest, EndTokensAreTheUnionOfAllFiles) {
  std::filesystem::remove(folder_.path("config.json"));
  Json config = Json::parse(bytes_of(VERNIER_TEST_DATA "/models/llama/config.json"));
  config["eos_token_id"] = 7;
  folder_.write("config.json", config.dump());
  folder_.write("generation_config.json", R"({"eos_token_id": [11, 13]})");
  folder_.write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  add_tokenizer("mini-spm-first.json");
  EXPECT_THAT(load()->end_tokens(), ElementsAre(2, 7, 11, 13));
}

}  // namespace
}  // namespace vernier
