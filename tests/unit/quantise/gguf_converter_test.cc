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

/// A copy of a tiny model with what GGUF files can say: Qwen2 without windows, Gemma 2 with the usual scale of scores.
std::string writable(const std::string& model, const TempFolder& folder) {
  fs::create_directory(folder.path("source"));
  fs::copy_file(kData + model + "/model.safetensors", folder.path("source/model.safetensors"));
  std::ifstream in(kData + model + "/config.json");
  Json config = Json::parse(in);
  if (config["model_type"] == "qwen2") {
    config["use_sliding_window"] = false;
    config.erase("layer_types");
  }
  if (config["model_type"] == "gemma2") config["query_pre_attn_scalar"] = config["head_dim"];
  folder.write("source/config.json", config.dump());
  return folder.path("source");
}

class FolderToGguf : public ::testing::TestWithParam<const char*> {};

// AUDIT-6: rotary rows, biases, norms, windows, sinks, rope and the head of a folder are those of the file, whatever
// the format.
TEST_P(FolderToGguf, HoldsTheSameModel) {
  for (const char* format : {"bf16", "q8_0", "mxfp4", "q4_k"}) {
    TempFolder folder;
    const std::string source = writable(GetParam(), folder);
    QuantiseJob job = job_for(format, folder.path("out.gguf"));
    job.request.requantise = true;
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
                         ::testing::Values("llama", "llama-tied", "mistral", "mixtral", "qwen2", "qwen3", "qwen3-moe",
                                           "gemma2", "gemma3", "gpt-oss", "gpt-oss-mxfp4"),
                         [](const auto& info) { return testing::test_name(info.param); });

/// A tiny model with a changed configuration.
std::string changed(const std::string& model, const Json& change, const TempFolder& folder) {
  fs::create_directory(folder.path("changed"));
  fs::copy_file(kData + model + "/model.safetensors", folder.path("changed/model.safetensors"),
                fs::copy_options::overwrite_existing);
  std::ifstream in(kData + model + "/config.json");
  Json config = Json::parse(in);
  config.merge_patch(change);
  folder.write("changed/config.json", config.dump());
  return folder.path("changed");
}

TEST(FolderToGgufTest, WhatHasNoPlaceInAFileIsRefusedByName) {
  TempFolder folder;
  auto refusal = [&](const std::string& source) {
    return error_of(quantise_model(source, job_for("q8_0", folder.path("out.gguf"))));
  };
  EXPECT_THAT(refusal(kData + "deepseek-v2"), HasSubstr("deepseek_v2 is written as a folder alone"));
  EXPECT_THAT(refusal(kData + "qwen2"), HasSubstr("windows of their own"));
  EXPECT_THAT(refusal(kData + "gemma2"), HasSubstr("query_pre_attn_scalar"));
  EXPECT_THAT(refusal(kData + "kv-gpt-oss-window"), HasSubstr("no place for scales of the cache"));
  EXPECT_THAT(refusal(changed("llama", {{"hidden_act", "gelu_pytorch_tanh"}}, folder)),
              HasSubstr("another activation"));
  EXPECT_THAT(refusal(changed("gpt-oss", {{"swiglu_limit", 5.0}}, folder)), HasSubstr("swiglu_limit"));
  EXPECT_THAT(refusal(changed("gpt-oss", {{"rope_scaling", {{"truncate", true}}}}, folder)), HasSubstr("truncate"));
  const Json scaled = {{"sliding_attention", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  EXPECT_THAT(refusal(changed("gemma3", {{"rope_parameters", scaled}}, folder)), HasSubstr("rope of sliding layers"));
  QuantiseJob job = job_for("nvfp4", folder.path("out.gguf"));
  EXPECT_THAT(error_of(quantise_model(kData + "qwen3", job)), HasSubstr("no multiple of 64"));
  EXPECT_FALSE(fs::exists(folder.path("out.gguf.partial")));
}

// Which layers slide, how rope is scaled and what attention grows by are read back as they were written.
TEST(FolderToGgufTest, UnusualSettingsComeBack) {
  const std::vector<std::pair<std::string, Json>> cases = {
      {"gemma3", {{"layer_types", Json(6, "full_attention")}}},
      {"gemma3", {{"final_logit_softcapping", 5.0}, {"sliding_window", 5}}},
      {"gemma3",
       {{"layer_types",
         {"full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
          "full_attention"}},
        {"rope_parameters",
         {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}}},
          {"sliding_attention", {{"rope_theta", 5e3}}}}}}},
      {"gpt-oss", {{"layer_types", {"full_attention", "sliding_attention", "sliding_attention", "full_attention"}}}},
      {"gpt-oss", {{"layer_types", Json(4, "full_attention")}}},
      {"gpt-oss", {{"rope_scaling", {{"beta_fast", 4.0}, {"beta_slow", 0.3}, {"attention_factor", 1.7}}}}},
      {"llama",
       {{"rope_parameters", nullptr},
        {"rope_scaling",
         {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}, {"beta_fast", 6.0}}}}},
  };
  for (const auto& [model, change] : cases) {
    TempFolder folder;
    const std::string source = changed(model, change, folder);
    ASSERT_EQ(error_of(quantise_model(source, job_for("f32", folder.path("out.gguf")))), "no error") << change;
    const std::vector<float> before = logits_of(source), after = logits_of(folder.path("out.gguf"));
    const std::vector<float> usual = logits_of(kData + model);
    double apart = 0, largest = 0, moved = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      apart = std::max(apart, std::abs(double{before[i]} - after[i]));
      largest = std::max(largest, std::abs(double{before[i]}));
      moved = std::max(moved, std::abs(double{before[i]} - usual[i]));
    }
    EXPECT_LT(apart, 1e-5 * largest) << model << change;
    EXPECT_GT(moved, 1e-3 * largest) << model << change << " changes nothing, so nothing was tested";
  }
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
  EXPECT_THAT(vocabulary_of_json(*fallback).error().to_string(), HasSubstr("no scores"));
  const auto pieces = with_vocabulary(folder, kByteLevel, {{"model", {{"type", "Unigram"}, {"vocab", Json::array()}}}});
  EXPECT_THAT(vocabulary_of_json(*pieces).error().to_string(), HasSubstr("unk"));
}

/// A folder of a tiny model with a tokenizer of SentencePiece's pieces.
std::unique_ptr<Checkpoint> with_pieces(const TempFolder& folder, const std::string& tokenizer, const Json& change) {
  for (const char* file : {"config.json", "model.safetensors"}) {
    fs::copy_file(kData + "gemma3/" + file, folder.path(file), fs::copy_options::overwrite_existing);
  }
  std::ifstream in(VERNIER_TEST_DATA "/tokenizers/" + tokenizer + ".json");
  Json tree = Json::parse(in);
  for (Json& added : tree["added_tokens"]) added["lstrip"] = added["rstrip"] = added["single_word"] = false;
  tree.merge_patch(change);
  folder.write("tokenizer.json", tree.dump());
  return Checkpoint::open(folder.path()).value();
}

// Files of SentencePiece's pieces have scores in place of merges; a reader of those makes the same ids.
TEST(JsonVocabulary, MergesOfPiecesBecomeScores) {
  TempFolder folder;
  for (const auto& [tokenizer, prefix] : {std::pair("mini-spm-never", false), std::pair("mini-spm-prepend", true)}) {
    const auto checkpoint = with_pieces(folder, tokenizer, Json::object());
    const Result<GgufVocabulary> made = vocabulary_of_json(*checkpoint);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    EXPECT_EQ(made->model, "llama");
    EXPECT_EQ(made->add_space_prefix, prefix);
    EXPECT_EQ(made->tokens.size(), 320U);
    EXPECT_EQ(made->scores.size(), 320U);
    EXPECT_TRUE(made->merges.empty());
    EXPECT_EQ(made->unknown, 0);
    EXPECT_EQ(made->bos, 1);
    EXPECT_EQ(made->add_bos, true);
    EXPECT_EQ(made->token_types[0], GgufVocabulary::kUnknown);
    EXPECT_EQ(made->token_types[1], GgufVocabulary::kControl);
    const Tokenizer reader = Tokenizer::from_gguf(*made).value();
    const auto byte = reader.find_token("<0x41>"), run = reader.find_token("\xE2\x96\x81\xE2\x96\x81");
    ASSERT_TRUE(byte && run);
    EXPECT_EQ(made->token_types[static_cast<size_t>(*byte)], GgufVocabulary::kByte);
    EXPECT_EQ(made->token_types[static_cast<size_t>(*run)], GgufVocabulary::kNormal);
    const auto tool = reader.find_token("<tool>");
    ASSERT_TRUE(tool);
    EXPECT_EQ(made->token_types[static_cast<size_t>(*tool)], GgufVocabulary::kUserDefined);
  }
}

// Runs of spaces come from pieces of one score, whose merges mingle: the longest on the left first.
TEST(JsonVocabulary, PiecesWhoseMergesMingleHaveOneScore) {
  TempFolder folder;
  std::ifstream in(VERNIER_TEST_DATA "/tokenizers/mini-spm-never.json");
  Json model = Json::parse(in)["model"], vocab = model["vocab"];
  const std::string mark = "\xE2\x96\x81";
  auto run = [&](size_t length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += mark;
    return text;
  };
  Json kept = Json::array();
  for (const Json& merge : model["merges"]) {
    if ((merge[0].get<std::string>() + merge[1].get<std::string>()).find_first_not_of(mark) != std::string::npos)
      kept.push_back(merge);
  }
  vocab[run(3)] = 300;
  vocab[run(6)] = 301;
  for (const auto& [left, right] : {std::pair(4, 2), {3, 3}, {3, 1}, {2, 4}, {2, 2}, {2, 1}, {1, 3}, {1, 2}, {1, 1}}) {
    kept.push_back({run(static_cast<size_t>(left)), run(static_cast<size_t>(right))});
  }
  const auto checkpoint = with_pieces(folder, "mini-spm-never", {{"model", {{"vocab", vocab}, {"merges", kept}}}});
  const Result<GgufVocabulary> made = vocabulary_of_json(*checkpoint);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(made->scores[300], made->scores[301]);
  EXPECT_LT(made->scores[300], made->scores[vocab["hello"].get<size_t>()]);
}

// A run of spaces that was added stands there as spaces: readers look for it in the text itself.
TEST(JsonVocabulary, AnAddedRunOfSpacesIsSpelledAsOne) {
  TempFolder folder;
  const std::string marks = "\xE2\x96\x81\xE2\x96\x81\xE2\x96\x81\xE2\x96\x81";
  std::ifstream in(VERNIER_TEST_DATA "/tokenizers/mini-spm-never.json");
  const auto id = Json::parse(in)["model"]["vocab"][marks].get<size_t>();
  const auto checkpoint = with_pieces(folder, "mini-spm-never",
                                      {{"added_tokens",
                                        {{{"id", 0}, {"content", "<unk>"}, {"special", true}, {"normalized", false}},
                                         {{"id", id}, {"content", marks}, {"special", false}, {"normalized", false}}}},
                                       {"post_processor", nullptr}});
  const Result<GgufVocabulary> made = vocabulary_of_json(*checkpoint);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(made->tokens[id], "    ");
  EXPECT_EQ(made->token_types[id], GgufVocabulary::kUserDefined);
  EXPECT_EQ(Tokenizer::from_gguf(*made).value().find_token(marks), static_cast<TokenId>(id));
}

// What a flag of an added token does to the text around it, no key of these files says.
TEST(JsonVocabulary, AddedTokensThatTakeSpacesAlongAreRefused) {
  TempFolder folder;
  const Json stripping = {
      {"id", 290}, {"content", "<user>"}, {"special", true}, {"rstrip", true}, {"normalized", false}};
  const auto checkpoint =
      with_pieces(folder, "mini-spm-never", {{"added_tokens", {stripping}}, {"post_processor", nullptr}});
  EXPECT_THAT(vocabulary_of_json(*checkpoint).error().to_string(), HasSubstr("'rstrip'"));
}

// Scores join whatever makes a piece: a tokenizer that joins less would be read as another one.
TEST(JsonVocabulary, PiecesOfWhichSomeMergesAreMissingAreRefused) {
  TempFolder folder;
  std::ifstream in(VERNIER_TEST_DATA "/tokenizers/mini-spm-never.json");
  Json merges = Json::parse(in)["model"]["merges"];
  merges.erase(3);  // of the two that make one piece
  const auto checkpoint = with_pieces(folder, "mini-spm-never", {{"model", {{"merges", merges}}}});
  EXPECT_THAT(vocabulary_of_json(*checkpoint).error().to_string(), HasSubstr("only some are merges"));
}

}  // namespace
}  // namespace vernier
