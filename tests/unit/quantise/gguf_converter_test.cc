#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "audit/json_vocabulary.h"
#include "engine/sequence_runner.h"
#include "ops/ref_backend.h"
#include "quantised_model.h"
#include "testing/golden_model.h"
#include "testing/temp_folder.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::error_of;
using testing::expect_same_numbers;
using ::testing::HasSubstr;
using testing::job_for;
using testing::kData;
using testing::quantise_model;
using testing::TempFolder;

std::vector<float> logits_of(const std::string& model) {
  RefBackend backend;
  auto decoder = testing::load_decoder(model, backend);
  CHECK(decoder.ok(), "{}: {}", model, decoder.error().to_string());
  auto runner = SequenceRunner::make(backend, *decoder, {.kv_type = CodecId::kF32, .context_tokens = 64}).value();
  const std::vector<int32_t> tokens = {1, 40, 7, 311, 90, 90, 5, 18, 200, 33, 64, 2};
  std::vector<float> all;
  CHECK(
      runner->feed_for_logits(tokens, [&](std::span<const float> rows) { all.assign(rows.begin(), rows.end()); }).ok(),
      "{} does not run", model);
  return all;
}

/// A copy of a tiny model, all of whose layers see everything if it is of Qwen2.
std::string without_windows(const std::string& model, const TempFolder& folder) {
  fs::create_directory(folder.path("source"));
  fs::copy_file(kData + model + "/model.safetensors", folder.path("source/model.safetensors"));
  std::ifstream in(kData + model + "/config.json");
  Json config = Json::parse(in);
  if (config["model_type"] == "qwen2") {
    config["use_sliding_window"] = false;
    config.erase("layer_types");
  }
  folder.write("source/config.json", config.dump());
  return folder.path("source");
}

class FolderToGguf : public ::testing::TestWithParam<const char*> {};

// AUDIT-6: rotary rows, biases, norms, windows and the head of a folder are those of the file, whatever the format.
TEST_P(FolderToGguf, HoldsTheSameModel) {
  for (const char* format : {"bf16", "q8_0", "mxfp4", "q4_k"}) {
    TempFolder folder;
    const std::string source = without_windows(GetParam(), folder);
    QuantiseJob job = job_for(format, folder.path("out.gguf"));
    // Widths that no group divides.
    const std::string model = GetParam();
    if (model == "llama-tied" || model == "qwen3-moe") job.request.target = find_quant_target("--to", "f16").value();
    ASSERT_EQ(error_of(quantise_model(source, job)), "no error");
    expect_same_numbers(source, job);
    if (std::string(format) != "bf16") continue;
    const std::vector<float> before = logits_of(source), after = logits_of(job.out);
    ASSERT_EQ(before.size(), after.size());
    double apart = 0, largest = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      apart = std::max(apart, std::abs(double{before[i]} - after[i]));
      largest = std::max(largest, std::abs(double{before[i]}));
    }
    EXPECT_LT(apart, 1e-5 * largest);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FolderToGguf,
                         ::testing::Values("llama", "llama-tied", "mistral", "mixtral", "qwen2", "qwen3", "qwen3-moe"),
                         [](const auto& info) { return testing::test_name(info.param); });

TEST(FolderToGgufTest, WhatHasNoPlaceInAFileIsRefusedByName) {
  TempFolder folder;
  EXPECT_THAT(error_of(quantise_model(kData + "gemma3", job_for("q8_0", folder.path("out.gguf")))),
              HasSubstr("gemma3_text is written as a folder alone"));
  EXPECT_THAT(error_of(quantise_model(kData + "qwen2", job_for("q8_0", folder.path("out.gguf")))),
              HasSubstr("windows of their own"));
  QuantiseJob job = job_for("nvfp4", folder.path("out.gguf"));
  EXPECT_THAT(error_of(quantise_model(kData + "qwen3", job)), HasSubstr("no multiple of 64"));
  EXPECT_FALSE(fs::exists(folder.path("out.gguf.partial")));
}

/// A folder of Qwen2 with a vocabulary of all bytes, a few merges and two tokens that were added.
std::unique_ptr<Checkpoint> with_vocabulary(const TempFolder& folder, const Json& pre_tokenizer, const Json& change) {
  for (const char* file : {"config.json", "model.safetensors"}) {
    fs::copy_file(kData + "qwen2/" + file, folder.path(file), fs::copy_options::overwrite_existing);
  }
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[byte_alphabet::spell(std::string(1, static_cast<char>(byte)))] = byte;
  vocab["th"] = 256;
  vocab["the"] = 257;
  vocab["12"] = 258;
  vocab["\xC4\xA0the"] = 259;  // a space before it
  vocab
      ["\xC4\xA0"
       "1"] = 260;
  Json tree = {
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", 300}, {"content", "<end>"}, {"special", true}, {"normalized", false}},
        {{"id", 301}, {"content", "<tool>"}, {"special", false}, {"normalized", false}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", pre_tokenizer},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocab},
        {"merges", {"t h", "th e", "1 2", Json::array({"\xC4\xA0", "the"}), Json::array({"\xC4\xA0", "1"})}}}}};
  tree.merge_patch(change);
  folder.write("tokenizer.json", tree.dump());
  folder.write("tokenizer_config.json", R"({"eos_token": "<end>"})");
  return Checkpoint::open(folder.path()).value();
}

const Json kByteLevel = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
const Json kOneDigit = {{"type", "Sequence"},
                        {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, kByteLevel}}};

// A file names its split rule, and other tools find it by that name: it must be the one whose ids are the tokenizer's.
TEST(JsonVocabulary, TheSplitRuleIsTheOneThatGivesTheSameIds) {
  TempFolder folder;
  const auto plain = with_vocabulary(folder, kByteLevel, Json::object());
  EXPECT_EQ(vocabulary_of_json(*plain).value().pre, "gpt-2");
  const auto digits = with_vocabulary(folder, kOneDigit, Json::object());
  const GgufVocabulary made = vocabulary_of_json(*digits).value();
  EXPECT_EQ(made.pre, "smollm");
  EXPECT_EQ(made.tokens.size(), 320u);
  EXPECT_EQ(made.tokens[259], "\xC4\xA0the");
  EXPECT_EQ(made.token_types[300], GgufVocabulary::kControl);
  EXPECT_EQ(made.token_types[301], GgufVocabulary::kUserDefined);
  EXPECT_EQ(made.token_types[310], GgufVocabulary::kUnused);
  EXPECT_EQ(made.merges[3], "\xC4\xA0 the");
  EXPECT_EQ(made.eos, 300);
  EXPECT_EQ(made.add_bos, false);
}

TEST(JsonVocabulary, AnotherKindIsRefused) {
  TempFolder folder;
  const Json odd = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "th"}}}, {"behavior", "Isolated"}, {"invert", false}}, kByteLevel}}};
  const auto unknown = with_vocabulary(folder, odd, Json::object());
  EXPECT_THAT(vocabulary_of_json(*unknown).error().to_string(), HasSubstr("no split rule"));
  const auto fallback = with_vocabulary(folder, kByteLevel, {{"model", {{"byte_fallback", true}}}});
  EXPECT_THAT(vocabulary_of_json(*fallback).error().to_string(), HasSubstr("another kind"));
}

}  // namespace
}  // namespace vernier
