#include "grammar/pattern.h"

#include <gtest/gtest.h>

#include <string>

#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

using testing::matches;

// H16 Malformed and hostile patterns are refused, never a crash.
TEST(Pattern, WhatItCannotSayIsRefused) {
  const std::string cases[] = {"^+a$",      "^{2}$",  std::string(10000, '('),
                               "[z-a]",     "\\p{",   "a{1000000}",
                               "(?=a)",     "(?!a)",  "(?<=a)",
                               "(?<!a)",    "(a)\\1", "\\bx",
                               "a^b",       "a$b",    "(^a)",
                               "(a$)",      "a**",    "a{3,2}",
                               "a{",        "[",      "[]",
                               "(",         ")",      "\\",
                               "\\q",       "\\x4",   "\\ud800",
                               "*a",        "a|*",    "(?i)a",
                               "[^\\d\\D]", "\xFF",   "((a{1000}){1000}){1000}",
                               "]",         "\\k<a>", "[a-\\d]"};
  for (const std::string& text : cases) {
    EXPECT_FALSE(parse_pattern(text, PatternUse::kWhole).ok()) << text.substr(0, 40);
    EXPECT_FALSE(parse_pattern(text, PatternUse::kSearch).ok()) << text.substr(0, 40);
  }
}

TEST(Pattern, LengthIsThatOfItsTexts) {
  struct Case {
    const char* text;
    size_t least, most;
  };
  for (const Case& c : {Case{"", 0, 0}, Case{"ab", 2, 2}, Case{"a|bcd", 1, 3}, Case{"a{2,5}b?", 2, 6},
                        Case{"(ab)*", 0, kUnbounded}, Case{"\\u{1F600}[a-z]", 2, 2}, Case{"(|a)", 0, 1}}) {
    PatternLength length = length_of(parse_pattern(c.text, PatternUse::kWhole).value());
    EXPECT_EQ(length.least, c.least) << c.text;
    EXPECT_EQ(length.most, c.most) << c.text;
  }
}

TEST(Pattern, AGrammarTakesTheTextsOfThePattern) {
  if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  struct Case {
    const char* pattern;
    std::vector<const char*> valid, invalid;
  };
  const Case cases[] = {
      {"[0-9]{3}", {"123"}, {"12", "1234", "1a3"}},
      {"^(foo|ba[rz])+$", {"foo", "barbaz"}, {"", "fo", "bax"}},
      {"\\d+(\\.\\d{1,2})?", {"1", "10.25"}, {"1.", "1.234", ".5"}},
      {"[^a-z\\s]", {"A", "é", "\""}, {"a", " ", "\n", "\xC2\xA0"}},
      {".", {"a", "😀", "\t"}, {"\n", "", "ab"}},
      {"\\w\\W\\s\\S", {"a- b"}, {"--- ", "a  \n"}},
      {"a?b*?c+?", {"c", "abbc"}, {"ab", ""}},
      {"(?:a|(?<n>b))\\/\\.", {"a/.", "b/."}, {"a/x"}},
      {"[\\u00e0-\\u00ff\\-\\]]", {"é", "-", "]"}, {"e", "\\"}},
      {"\\uD83D\\uDE00", {"😀"}, {"😁"}},
      {"a||b", {"", "a", "b"}, {"ab"}},
  };
  GrammarCompiler compiler(testing::toy_vocabulary());
  for (const Case& c : cases) {
    auto grammar = compiler.compile({.kind = GrammarSpec::Kind::kRegex, .text = c.pattern});
    ASSERT_TRUE(grammar.ok()) << c.pattern << ": " << grammar.error().to_string();
    for (const char* text : c.valid) EXPECT_TRUE(matches(*grammar, text)) << c.pattern << " takes " << text;
    for (const char* text : c.invalid) EXPECT_FALSE(matches(*grammar, text)) << c.pattern << " refuses " << text;
  }
}

}  // namespace
}  // namespace vernier
