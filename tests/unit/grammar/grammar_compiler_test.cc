#include "grammar/grammar_compiler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

using Kind = GrammarSpec::Kind;

TEST(GrammarVocabulary, IdsThatAreNoTokensAreRefused) {
  EXPECT_FALSE(GrammarVocabulary::make({}).ok());
  EXPECT_FALSE(GrammarVocabulary::make({.token_bytes = {"a"}, .logits = 0}).ok());
  EXPECT_FALSE(GrammarVocabulary::make({.token_bytes = {"a"}, .marker_ids = {1}, .logits = 2}).ok());
  EXPECT_FALSE(GrammarVocabulary::make({.token_bytes = {"a"}, .end_ids = {-1}, .logits = 2}).ok());
}

TEST(GrammarCompiler, WithoutTheLibraryItSaysSo) {
  if (GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is built";
  GrammarCompiler compiler(testing::toy_vocabulary());
  auto grammar = compiler.compile({.kind = Kind::kJsonObject});
  ASSERT_FALSE(grammar.ok());
  EXPECT_EQ(grammar.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(grammar.error().message.find("not built"), std::string::npos);
}

class GrammarCompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  }
};

// GRAMMAR-5 Equal specs compile once, also when many threads ask at the same time.
TEST_F(GrammarCompilerTest, EqualSpecsShareOneGrammar) {
  GrammarCompiler compiler(testing::toy_vocabulary());
  std::vector<std::shared_ptr<const CompiledGrammar>> found(4);
  std::vector<std::thread> threads;
  for (auto& slot : found) threads.emplace_back([&] { slot = compiler.compile({.kind = Kind::kJsonObject}).value(); });
  for (std::thread& thread : threads) thread.join();
  for (auto& grammar : found) EXPECT_EQ(grammar, found[0]);
  EXPECT_EQ(compiler.compile({.kind = Kind::kJsonObject}).value(), found[0]);
  EXPECT_NE(compiler.compile({.kind = Kind::kJsonSchema, .text = "true"}).value(), found[0]);
}

TEST_F(GrammarCompilerTest, TheCacheKeepsItsBound) {
  auto vocabulary = testing::toy_vocabulary();
  size_t one = GrammarCompiler(vocabulary).compile({.kind = Kind::kJsonObject}).value()->bytes();
  GrammarCompiler compiler(vocabulary, {.cache_bytes = one / 2});
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(compiler.compile({.kind = Kind::kChoice, .choices = {std::to_string(i)}}).ok());
    EXPECT_LE(compiler.cached_bytes(), one / 2);
  }
  EXPECT_GT(compiler.cached_bytes(), 0U);
}

// GRAMMAR-4 Sizes and nesting are bounded before the library sees anything.
TEST_F(GrammarCompilerTest, WhatIsTooLargeIsRefused) {
  GrammarCompiler compiler(testing::toy_vocabulary());
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += "{\"items\":";
  auto refused = [&](const GrammarSpec& spec) { return !compiler.compile(spec).ok(); };
  EXPECT_TRUE(refused({.kind = Kind::kJsonSchema, .text = deep + "{}" + std::string(3000, '}')}));
  EXPECT_TRUE(refused({.kind = Kind::kJsonSchema, .text = std::string(1 << 20, ' ') + "{}"}));
  EXPECT_TRUE(
      refused({.kind = Kind::kEbnf, .text = "root ::= " + std::string(3000, '(') + "\"a\"" + std::string(3000, ')')}));
  EXPECT_TRUE(refused({.kind = Kind::kChoice}));
  EXPECT_TRUE(refused({.kind = Kind::kChoice, .choices = {std::string("a\0b", 3)}}));
  EXPECT_TRUE(refused({.kind = Kind::kChoice, .choices = {"\xED\xA0\x80"}}));
}

// GRAMMAR-1: half a pair became U+FFFD, and so the answer that was asked for was impossible.
TEST_F(GrammarCompilerTest, AnEscapeThatNamesNoCharacterIsRefused) {
  GrammarCompiler compiler(testing::toy_vocabulary());
  for (const char* escape : {"\\ud800", "\\uDFFF", "\\ud83d\\ude00", "\\U0000D800", "\\xD800", "\\U00110000"}) {
    for (const char* form : {"root ::= \"a{}\"", "root ::= [a{}]"}) {
      auto grammar = compiler.compile({.kind = Kind::kEbnf, .text = fmt::format(fmt::runtime(form), escape)});
      ASSERT_FALSE(grammar.ok()) << escape;
      EXPECT_NE(grammar.error().message.find("names no character"), std::string::npos) << grammar.error().message;
    }
  }
  for (const char* escape : {"\\u0041", "\\U00000041", "\\x41", "\\\\ud800", "\\n"}) {
    EXPECT_TRUE(compiler.compile({.kind = Kind::kEbnf, .text = fmt::format("root ::= \"a{}\"", escape)}).ok())
        << escape;
  }
}

TEST_F(GrammarCompilerTest, ACallersGrammarIsPlainGbnf) {
  GrammarCompiler compiler(testing::toy_vocabulary({"<tool_call>"}));
  for (const char* text :
       {"root ::= Token(3)", "root ::= a\na ::= TagDispatch ((\"x\", a))", "root ::= ExcludeToken(1)*",
        "root ::= Regex(\"a\")", "root[temperature=3] ::= \"a\"", "root ::= \"a\" (=\"b\")", "root ::= b",
        "other ::= \"a\"", "root ::= v_run_a{2,}\nv_run_a ::= [a-z]", "root ::= a\na ::= \"x\" | v_root",
        "root ::= \"a", "root ::= \"a\\", ""}) {
    auto grammar = compiler.compile({.kind = Kind::kEbnf, .text = text});
    EXPECT_FALSE(grammar.ok()) << text;
  }
  for (const auto& [text, place] : std::initializer_list<std::pair<std::string, std::string>>{
           {"root ::= \"a\"\nb ::= ?", "line 2"}, {"root ::= \"\\q\"", "line 1"}}) {
    auto broken = compiler.compile({.kind = Kind::kEbnf, .text = text});
    ASSERT_FALSE(broken.ok()) << text;
    EXPECT_NE(broken.error().message.find(place), std::string::npos) << broken.error().message;
  }
  auto grammar =
      compiler.compile({.kind = Kind::kEbnf, .text = "# Token(3)\nroot ::= \"Token(\" [a-z(]{2} sub\nsub ::= \"!\"+"});
  ASSERT_TRUE(grammar.ok()) << grammar.error().to_string();
  EXPECT_TRUE(testing::matches(*grammar, "Token(a(!!"));
}

}  // namespace
}  // namespace vernier
