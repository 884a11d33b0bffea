#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "tiny_model.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SafetensorsWriter;
using ::testing::SizeIs;
using testing::TempFolder;
using testing::TinyModel;

class HfFolderTest : public ::testing::Test {
 protected:
  std::unique_ptr<Checkpoint> open() {
    auto checkpoint = Checkpoint::open(folder_.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
    return checkpoint.ok() ? std::move(checkpoint).value() : nullptr;
  }
  std::string open_error() {
    auto checkpoint = Checkpoint::open(folder_.path());
    return checkpoint.ok() ? "no error" : checkpoint.error().to_string();
  }
  std::string config_error(const std::string& more_config) {
    model_.write_folder(folder_, more_config);
    auto checkpoint = Checkpoint::open(folder_.path());
    if (!checkpoint.ok()) return "open: " + checkpoint.error().to_string();
    auto config = (*checkpoint)->config();
    return config.ok() ? "no error" : config.error().to_string();
  }
  static std::string shard(int number) { return fmt::format("model-{:05}-of-00003.safetensors", number); }
  /// Three shards and their index; `extra` is added to the map.
  void write_shards(const std::string& extra = "") {
    std::vector<SafetensorsWriter> writers(3);
    std::string map;
    size_t next = 0;
    for (const auto& [name, tensor] : model_.tensors) {
      writers[next % 3].f32(name, tensor.extents, tensor.values);
      map += fmt::format(R"({}"{}":"{}")", map.empty() ? "" : ",", name, shard(static_cast<int>(next % 3) + 1));
      ++next;
    }
    for (int i = 0; i < 3; ++i) folder_.write(shard(i + 1), writers[static_cast<size_t>(i)].bytes());
    folder_.write("model.safetensors.index.json",
                  fmt::format(R"({{"metadata":{{}},"weight_map":{{{}{}}}}})", map, extra));
    folder_.write("config.json", TinyModel::config());
  }

  TempFolder folder_;
  TinyModel model_;
};

TEST_F(HfFolderTest, ASingleFileAndAShardedOneHoldTheSameTensors) {
  model_.write_folder(folder_);
  auto single = open();
  ASSERT_NE(single, nullptr);
  EXPECT_THAT(single->tensors(), SizeIs(model_.tensors.size()));
  EXPECT_THAT(single->warnings(), IsEmpty());
  std::filesystem::remove(folder_.path("model.safetensors"));
  write_shards();
  auto sharded = open();
  ASSERT_NE(sharded, nullptr);
  EXPECT_THAT(sharded->warnings(), IsEmpty());
  for (const StoredTensor& tensor : single->tensors()) {
    const StoredTensor* twin = sharded->find(tensor.name);
    ASSERT_NE(twin, nullptr) << tensor.name;
    EXPECT_EQ(twin->extents, tensor.extents);
    EXPECT_TRUE(std::equal(twin->bytes.begin(), twin->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
  }
}

// F08
TEST_F(HfFolderTest, AMissingShardIsNamed) {
  write_shards();
  std::filesystem::remove(folder_.path(shard(2)));
  EXPECT_THAT(open_error(), AllOf(HasSubstr(shard(2)), HasSubstr("incomplete download?")));
}

// F08, CKPT-7
TEST_F(HfFolderTest, ATensorThatNoShardHasIsNamed) {
  write_shards(R"(,"model.extra.weight":"model-00001-of-00003.safetensors")");
  EXPECT_THAT(open_error(), AllOf(HasSubstr("model.extra.weight"), HasSubstr(shard(1))));
}

// F09
TEST_F(HfFolderTest, AStrayWeightFileIsNotMergedIn) {
  write_shards();
  folder_.write("model.safetensors", SafetensorsWriter().f32("model.norm.weight", {8}, std::vector<float>(8)).bytes());
  auto checkpoint = open();
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_THAT(checkpoint->tensors(), SizeIs(model_.tensors.size()));
  EXPECT_THAT(checkpoint->warnings(), ElementsAre(AllOf(HasSubstr("model.safetensors"), HasSubstr("not part"))));
  float first = 0;
  std::memcpy(&first, checkpoint->find("model.norm.weight")->bytes.data(), 4);
  EXPECT_EQ(first, model_.tensors.at("model.norm.weight").values[0]);
}

// F09
TEST_F(HfFolderTest, AnIndexThatLacksTensorsIsAWarningWithTheCount) {
  write_shards();
  SafetensorsWriter writer;
  writer.f32("extra.a", {1}, {1}).f32("extra.b", {1}, {2});
  size_t next = 0;
  for (const auto& [name, tensor] : model_.tensors) {
    if (next++ % 3 == 2) writer.f32(name, tensor.extents, tensor.values);
  }
  folder_.write(shard(3), writer.bytes());
  auto checkpoint = open();
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_THAT(checkpoint->warnings(), Contains(HasSubstr("2 tensors")));
}

// F09
TEST_F(HfFolderTest, SeveralFilesWithoutAnIndexAreAmbiguous) {
  write_shards();
  std::filesystem::remove(folder_.path("model.safetensors.index.json"));
  EXPECT_THAT(open_error(), AllOf(HasSubstr(shard(1)), HasSubstr("no model.safetensors.index.json")));
  std::filesystem::remove(folder_.path(shard(1)));
  std::filesystem::remove(folder_.path(shard(2)));
  std::filesystem::remove(folder_.path(shard(3)));
  EXPECT_THAT(open_error(), HasSubstr("converted to safetensors"));
}

TEST_F(HfFolderTest, ATensorInTwoShardsIsAnError) {
  write_shards();
  folder_.write(shard(3), SafetensorsWriter().f32("lm_head.weight", {1}, {1}).bytes());
  EXPECT_THAT(open_error(), AllOf(HasSubstr("lm_head.weight"), HasSubstr("stands in")));
}

TEST_F(HfFolderTest, AnIndexMayNotPointOutOfItsFolder) {
  for (const char* file : {"../model.safetensors", "/etc/passwd", "", "..", "a\\\\b"}) {
    write_shards(fmt::format(R"(,"x":"{}")", file));
    EXPECT_THAT(open_error(), HasSubstr("no plain file name")) << file;
  }
  write_shards(R"(,"x":7)");
  EXPECT_THAT(open_error(), HasSubstr("weight_map"));
}

// F10
TEST_F(HfFolderTest, AKeyThatStandsTwiceIsNotDecidedByPosition) {
  EXPECT_THAT(config_error(R"(,"hidden_size":16)"), AllOf(HasSubstr("hidden_size"), HasSubstr("twice")));
}

TEST_F(HfFolderTest, BrokenJsonIsAnErrorThatNamesTheFile) {
  model_.write_folder(folder_);
  folder_.write("config.json", "{\"a\":");
  EXPECT_THAT(open_error(), AllOf(HasSubstr("config.json"), HasSubstr("not JSON")));
  folder_.write("config.json", "[1]");
  EXPECT_THAT(open_error(), HasSubstr("not a JSON object"));
  model_.write_folder(folder_);
  folder_.write("generation_config.json", "{\"eos_token_id\":" + std::string(2000, '[') + std::string(2000, ']') + "}");
  EXPECT_THAT(open_error(), AllOf(HasSubstr("generation_config.json"), HasSubstr("deeper")));
  folder_.write("generation_config.json", R"({"eos_token_id":"x"})");
  EXPECT_THAT(open_error(), HasSubstr("eos_token_id"));
}

// CKPT-8
TEST_F(HfFolderTest, QuantisationsWithoutAReaderAreRefusedByName) {
  auto refused = [&](const std::string& scheme) { return config_error(R"(,"quantization_config":)" + scheme); };
  EXPECT_THAT(refused(R"({"quant_method":"bitsandbytes"})"), HasSubstr("bitsandbytes"));
  EXPECT_THAT(refused("{}"), HasSubstr("with no quant_method"));
  EXPECT_THAT(refused("[]"), HasSubstr("quantization_config"));
  EXPECT_EQ(refused("null"), "no error");
  EXPECT_THAT(config_error(R"(,"text_config":{"quantization_config":{"quant_method":"quark"}})"), HasSubstr("quark"));
}

// The model's configuration is read without the keys that describe its storage.
TEST_F(HfFolderTest, AQuantisationIsReadFromEveryPlaceThatMayHoldIt) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    EXPECT_EQ(config_error(fmt::format(R"(,"{}":{{"quant_method":"fp8"}})", key)), "no error") << key;
    EXPECT_EQ(open()->plan().origin, key);
    EXPECT_FALSE(open()->config()->has(key));
  }
  model_.write_folder(folder_, R"(,"text_config":{"quantization_config":{"quant_method":"fp8"}})");
  EXPECT_EQ(open()->plan().origin, "text_config.quantization_config");
  model_.write_folder(folder_);
  folder_.write("hf_quant_config.json", R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"FP8"}})");
  EXPECT_EQ(open()->plan().origin, "hf_quant_config.json");
}

// CKPT-7
TEST_F(HfFolderTest, TwoDescriptionsOfOneQuantisationMustAgree) {
  folder_.write("hf_quant_config.json", R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"FP8"}})");
  EXPECT_EQ(config_error(R"(,"quantization_config":{"quant_method":"modelopt","quant_algo":"FP8"})"), "no error");
  EXPECT_THAT(config_error(R"(,"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"})"),
              AllOf(HasSubstr("disagree"), HasSubstr("hf_quant_config.json"), HasSubstr("lm_head")));
  folder_.write("hf_quant_config.json", "[]");
  EXPECT_THAT(config_error(""), HasSubstr("hf_quant_config.json"));
}

// Of the kind of DeepSeek-V4: the type of the experts stands beside the quantisation of the other layers.
TEST_F(HfFolderTest, TheTypeOfExpertsIsARuleOfItsOwn) {
  const std::string fp8 = R"(,"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]})";
  const auto form = [&](const char* module) { return open()->plan().decide(module).scheme.form; };
  EXPECT_EQ(config_error(fp8 + R"(,"expert_dtype":"fp4")"), "no error");
  EXPECT_EQ(form("model.layers.0.mlp.experts.3.up_proj"), WeightForm::kMxfp4);
  EXPECT_EQ(form("model.layers.0.mlp.shared_experts.up_proj"), WeightForm::kFp8Block);
  EXPECT_FALSE(open()->config()->has("expert_dtype"));
  EXPECT_EQ(config_error(fp8 + R"(,"expert_dtype":"fp8")"), "no error");
  EXPECT_EQ(form("model.layers.0.mlp.experts.3.up_proj"), WeightForm::kFp8Block);
  EXPECT_THAT(config_error(fp8 + R"(,"expert_dtype":"fp3")"), AllOf(HasSubstr("expert_dtype"), HasSubstr("fp3")));
}

TEST_F(HfFolderTest, ListedModulesThatAreNotThereAreSaid) {
  model_.write_folder(folder_,
                      R"(,"quantization_config":{"quant_method":"fp8","ignored_layers":["lm_head","mlp.dwn"]})");
  EXPECT_THAT(open()->warnings(), ElementsAre(HasSubstr("mlp.dwn")));
}

// F25
TEST_F(HfFolderTest, EndTokensAreTheUnionOfAllFiles) {
  model_.write_folder(folder_, R"(,"eos_token_id":5)");
  folder_.write("generation_config.json", R"({"eos_token_id":[5,9],"temperature":0.7,"top_k":40,"top_p":0.9})");
  folder_.write("tokenizer_config.json", R"({"eos_token":{"content":"<|end|>"}})");
  auto checkpoint = open();
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_THAT(checkpoint->generation().eos_ids, ElementsAre(5, 9));
  EXPECT_THAT(checkpoint->generation().eos_tokens, ElementsAre("<|end|>"));
  EXPECT_EQ(checkpoint->generation().temperature, 0.7);
  EXPECT_EQ(checkpoint->generation().top_k, 40);
  EXPECT_EQ(checkpoint->generation().top_p, 0.9);
  EXPECT_EQ(checkpoint->generation().min_p, std::nullopt);
}

// F29
TEST_F(HfFolderTest, TheChatTemplateComesFromTheFirstSource) {
  model_.write_folder(folder_);
  folder_.write("tokenizer_config.json",
                R"({"chat_template":[{"name":"default","template":"T"},{"name":"rag","template":"R"}]})");
  EXPECT_EQ(open()->chat_template()->text, "T");
  folder_.write("chat_template.json", R"({"chat_template":"J"})");
  EXPECT_EQ(open()->chat_template()->text, "J");
  folder_.write("additional_chat_templates/tool_use.jinja", "A");
  folder_.write("chat_template.jinja", "F");
  auto checkpoint = open();
  EXPECT_EQ(checkpoint->chat_template()->text, "F");
  EXPECT_EQ(checkpoint->chat_template()->origin, "chat_template.jinja");
  EXPECT_EQ(checkpoint->chat_template("tool_use")->text, "A");
  EXPECT_EQ(checkpoint->chat_template("rag")->text, "R");
  EXPECT_THAT(checkpoint->warnings(), Contains(AllOf(HasSubstr("chat_template.jinja"), HasSubstr("tokenizer_config"))));
}

TEST_F(HfFolderTest, ATokenizerIsFoundWithoutWeights) {
  folder_.write("tokenizer.json", "{}");
  folder_.write("tokenizer_config.json", R"({"add_bos_token":true})");
  for (const std::string& path : {folder_.path(), folder_.path("tokenizer.json")}) {
    auto source = find_tokenizer(path);
    ASSERT_TRUE(source.ok()) << source.error().to_string();
    EXPECT_EQ(source->tokenizer_json, folder_.path("tokenizer.json"));
    EXPECT_TRUE(source->tokenizer_config["add_bos_token"].get<bool>());
  }
  TempFolder other;
  EXPECT_THAT(find_tokenizer(other.path()).error().to_string(), HasSubstr("no tokenizer.json"));
  EXPECT_THAT(find_tokenizer(other.path("x")).error().to_string(), HasSubstr("no such file"));
  other.write("v.gguf", testing::GgufWriter().text("tokenizer.ggml.model", "gpt2").bytes());
  for (const std::string& path : {other.path(), other.path("v.gguf")}) {
    auto source = find_tokenizer(path);
    ASSERT_TRUE(source.ok()) << source.error().to_string();
    EXPECT_NE(source->gguf, nullptr);
  }
}

}  // namespace
}  // namespace vernier
