// The pieces that each published split rule cuts, and the steps that are not regular expressions.

#include <gtest/gtest.h>

#include "golden_file.h"
#include "text/json_value.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_steps.h"

namespace vernier {
namespace {

using golden::Json;

PreTokenizers regex_rule(const Json& patterns) {
  PreTokenizers steps;
  for (const Json& pattern : patterns) {
    auto regex = Regex::compile(pattern.get<std::string>());
    EXPECT_TRUE(regex.ok()) << regex.error().message;
    if (regex.ok()) steps.push_back(make_split(std::move(regex).value(), SplitBehaviour::kIsolated));
  }
  return steps;
}

PreTokenizers described_step(const std::string& description) {
  PreTokenizers steps;
  simdjson::dom::parser parser;
  Status read = tokenizer_json::read_pre_tokenizer(parser.parse(description).value(), steps);
  EXPECT_TRUE(read.ok()) << description;
  return steps;
}

std::vector<size_t> cut(const PreTokenizers& steps, const std::string& text) {
  SplitText split{{text, {}}, {}, true};
  if (!text.empty()) split.pieces = {{0, text.size()}};
  for (const auto& step : steps) step->apply(split);
  std::vector<size_t> sizes;
  for (ByteRange piece : split.pieces) sizes.push_back(piece.end - piece.begin);
  return sizes;
}

TEST(Splits, EqualHuggingFace) {
  std::vector<Json> lines = golden::read_lines(VERNIER_TEST_DATA "/tokenizers/splits.jsonl.gz");
  ASSERT_GT(lines.size(), 500u);
  std::map<std::string, PreTokenizers> rules;
  for (const auto& [name, patterns] : lines[0]["rules"].items()) rules[name] = regex_rule(patterns);
  for (const auto& [name, description] : lines[0]["steps"].items()) rules[name] = described_step(description);
  ASSERT_EQ(rules.size(), 16u);
  for (size_t i = 1; i < lines.size(); ++i) {
    for (const auto& [name, sizes] : lines[i]["pieces"].items()) {
      ASSERT_EQ(cut(rules.at(name), lines[i]["text"]), sizes.get<std::vector<size_t>>())
          << name << " [" << lines[i]["g"] << "] " << lines[i]["text"];
    }
  }
}

}  // namespace
}  // namespace vernier
