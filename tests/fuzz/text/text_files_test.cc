#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "testing/fuzzer.h"
#include "text/civil_time.h"
#include "text/jinja_template.h"
#include "text/tokenizer.h"

namespace vernier {
namespace {

using testing::fuzz;
using testing::FuzzCase;

std::vector<std::string> files_of(const std::string& folder, const std::string& extension) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(VERNIER_TEST_DATA) + folder)) {
    if (entry.path().extension() == extension) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

/// Not taken, and said why.
bool refused(const Error& error) {
  EXPECT_FALSE(error.message.empty());
  return false;
}

TEST(FuzzText, NoTokenizerFileEndsTheProcess) {
  const FuzzCase fuzz_case{"tokenizer",
                           files_of("/tokenizers", ".json"),
                           {"null", "-1", "4294967296", "1e300", "[]", "{}", "\"type\":\"BPE\",", "\"\\ud800\"",
                            "(?=", "(a+)+$", "\\\\p{L}", "\"Sequence\"", "<0xFF>"}};
  fuzz(fuzz_case, [](const std::string& input) {
    auto tokenizer = Tokenizer::from_json(input);
    if (!tokenizer.ok()) return refused(tokenizer.error());
    for (std::string_view text : {"Hello  world\n", "naïve \xff\xc3 日本", "<s>a</s>"}) {
      auto ids = tokenizer->encode(text);
      if (!ids.ok()) return refused(ids.error());
      (void)tokenizer->decode(*ids, true);
    }
    const std::vector<TokenId> strange = {0, 1, 2, 255, 1 << 30};
    (void)tokenizer->decode(strange);
    return true;
  });
}

TEST(FuzzText, NoChatTemplateEndsTheProcess) {
  const FuzzCase fuzz_case{
      "template", files_of("/templates/own", ".jinja"), {"{{",           "}}",
                                                         "{%",           "%}",
                                                         "{#",           "{% for x in range(9999999) %}",
                                                         "{% endfor %}", "{{ ''.join(",
                                                         " | tojson",    "[::-1]",
                                                         " ** 999",      " * 99999999",
                                                         "namespace(",   "loop.",
                                                         "((((((((",     "{% macro m() %}",
                                                         "{{ m() }}",    "messages[-1]",
                                                         "'a' * ",       ".format("}};
  const nlohmann::ordered_json context = {
      {"messages",
       {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "Hi <|im_end|> there"}}}},
      {"add_generation_prompt", true}};
  auto now = CivilTime::parse("2025-07-09T14:05:06");
  ASSERT_TRUE(now.ok()) << now.error().message;
  jinja::Limits limits;  // a thousandth of the usual, so that an endless template ends soon
  limits.steps = 200'000;
  limits.string_bytes = 4 << 20;
  limits.elements = 100'000;
  fuzz(fuzz_case, [&](const std::string& input) {
    auto parsed = JinjaTemplate::parse(input);
    if (!parsed.ok()) return refused(parsed.error());
    auto rendered = parsed->render(context, true, *now, limits);
    // A template that parses is worth changing further, whatever became of its rendering.
    if (!rendered.ok()) return rendered.error().where == kRaisedByTemplate || !refused(rendered.error());
    for (const ByteRange& range : rendered->caller_ranges) EXPECT_LE(range.end, rendered->text.size());
    return true;
  });
}

}  // namespace
}  // namespace vernier
