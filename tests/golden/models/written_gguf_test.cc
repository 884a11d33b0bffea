// Files that we write of folders, as llama.cpp reads them: goldens of tools/make_written_gguf_goldens.py.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "api/load_tokenizer.h"
#include "audit/json_vocabulary.h"
#include "audit/quantise_checkpoint.h"
#include "checkpoint/gguf.h"
#include "engine/sequence_runner.h"
#include "ops/ref_backend.h"
#include "testing/golden_model.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::TempFolder;

const std::string kData = VERNIER_TEST_DATA;

Json read_json(const std::string& path) {
  std::ifstream in(path);
  return Json::parse(in);
}

/// A value as the peer shows it.
std::string shown(const GgufValue& value) {
  if (const auto text = value.as_string()) return std::string(*text);
  if (const auto flag = value.as_bool()) return *flag ? "true" : "false";
  if (const auto integer = value.as_integer()) return std::to_string(*integer);
  return std::to_string(value.as_number().value_or(0));
}

class WrittenGguf : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    golden_ = read_json(kData + "/peer/written/" + GetParam() + ".json");
    const std::string model = kData + "/models/" + GetParam(), source = folder_.path(GetParam());
    fs::create_directory(source);
    Json config = read_json(model + "/config.json");
    config.merge_patch(golden_["change"]);
    folder_.write(GetParam() + std::string("/config.json"), config.dump());
    fs::copy_file(model + "/model.safetensors", source + "/model.safetensors");
    Json tokenizer = read_json(kData + "/tokenizers/" + golden_["tokenizer"].get<std::string>() + ".json");
    // Flags that GGUF files have no place for.
    for (Json& added : tokenizer["added_tokens"]) added["lstrip"] = added["rstrip"] = added["single_word"] = false;
    folder_.write(GetParam() + std::string("/tokenizer.json"), tokenizer.dump());
    const auto checkpoint = Checkpoint::open(source).value();
    QuantiseJob job;
    job.request.target = find_quant_target("--to", "f32").value();
    job.request.head = true;
    job.out = file_ = folder_.path("out.gguf");
    job.vocabulary = vocabulary_of_json(*checkpoint).value();
    const auto written = quantise_checkpoint(*checkpoint, job);
    ASSERT_TRUE(written.ok()) << written.error().to_string();
  }

  TempFolder folder_;
  Json golden_;
  std::string file_;
};

// The peer read the file's head as it is still written: its answers are those to our files.
TEST_P(WrittenGguf, HasTheKeysThatThePeerRead) {
  const auto file = Gguf::open(file_).value();
  std::map<std::string, std::string> expected = golden_["metadata"], found;
  for (const auto& [key, value] : file->metadata()) {
    if (!value.is_array()) found[std::string(key)] = shown(value);
  }
  EXPECT_EQ(found, expected);
}

TEST_P(WrittenGguf, GivesThePeersIdsLogitsAndTokens) {
  const Tokenizer tokenizer = load_tokenizer(file_).value();
  const auto ids = tokenizer.encode(golden_["text"].get<std::string>(), {.add_special = false, .parse_special = true});
  EXPECT_EQ(ids.value(), golden_["text_ids"].get<std::vector<int32_t>>());

  RefBackend backend;
  const Decoder decoder = testing::load_decoder(file_, backend).value();
  const auto runner = SequenceRunner::make(backend, decoder, {.kv_type = CodecId::kF32, .context_tokens = 64}).value();
  std::vector<int32_t> fed = golden_["ids"];
  std::vector<float> expected;
  for (const Json& row : golden_["logits"]) expected.insert(expected.end(), row.begin(), row.end());
  // A table that is embedding and head is bfloat16, to which the peer rounds what it multiplies with it.
  const double bound = decoder.spec().tied ? 8e-3 : 1e-4;
  std::vector<float> logits;
  ASSERT_TRUE(runner
                  ->feed_for_logits(
                      fed, [&](std::span<const float> rows) { logits.insert(logits.end(), rows.begin(), rows.end()); })
                  .ok());
  ASSERT_EQ(logits.size(), expected.size());
  double sum = 0, squares = 0, apart = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    sum += expected[i];
    squares += double{expected[i]} * expected[i];
    apart = std::max(apart, std::abs(double{expected[i]} - logits[i]));
  }
  const auto count = static_cast<double>(expected.size());
  EXPECT_LT(apart, bound * std::sqrt(squares / count - sum / count * sum / count));

  std::vector<int32_t> greedy;
  for (size_t i = 0; i < golden_["greedy"].size(); ++i) {
    const auto row = std::span(logits).last(static_cast<size_t>(decoder.spec().vocab));
    greedy.push_back(static_cast<int32_t>(std::ranges::max_element(row) - row.begin()));
    logits.clear();
    ASSERT_TRUE(runner
                    ->feed_for_logits(std::span(greedy).last(1),
                                      [&](std::span<const float> rows) { logits.assign(rows.begin(), rows.end()); })
                    .ok());
  }
  EXPECT_EQ(greedy, golden_["greedy"].get<std::vector<int32_t>>());
}

INSTANTIATE_TEST_SUITE_P(Models, WrittenGguf, ::testing::Values("gemma3", "gpt-oss"),
                         [](const auto& info) { return testing::test_name(info.param); });

}  // namespace
}  // namespace vernier
