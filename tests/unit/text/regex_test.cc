#include "text/regex.h"

#include <gtest/gtest.h>

#include <chrono>

namespace vernier {
namespace {

std::string all(std::string_view pattern, std::string_view text) {
  auto regex = Regex::compile(pattern);
  if (!regex.ok()) return regex.error().message;
  RegexSearch search(*regex, text);
  std::string out;
  while (auto match = search.next())
    out += "[" + std::string(text.substr(match->begin, match->end - match->begin)) + "]";
  return out;
}

TEST(Regex, MatchesLikeOniguruma) {
  EXPECT_EQ(all("a|ab", "ab"), "[a]");  // the first alternative, not the longest
  EXPECT_EQ(all("a+?b?", "aab"), "[a][ab]");
  EXPECT_EQ(all("\\p{N}{1,3}", "12345"), "[123][45]");
  EXPECT_EQ(all("a{1,3}+", "aaaaa"), "[aaaaa]");  // not possessive: a repeated group
  EXPECT_EQ(all("a++a|b", "aaab"), "[b]");
  EXPECT_EQ(all("a?+ab|b", "ab"), "[b]");
  EXPECT_EQ(all("(?>a+)b|c", "aabc"), "[aab][c]");
  EXPECT_EQ(all("\\s+(?!\\S)", "x   y "), "[  ][ ]");
  EXPECT_EQ(all("(?<=x)y|(?<!x)z", "xyxz z"), "[y][z]");
  EXPECT_EQ(all("(?<=a|bc)d", "ad bcd cd"), "[d][d]");
  EXPECT_EQ(all("(?i:straße|k)", "STRASSE STRAßE \u212A"), "[STRAßE][\u212A]");
  EXPECT_EQ(all("(?i)ab|c", "ABC"), "[AB][C]");
  EXPECT_EQ(all("^a$", "a\nba\na"), "[a][a]");
  EXPECT_EQ(all("\\bcat\\b", "cat concat cat"), "[cat][cat]");
  EXPECT_EQ(all(".", "a\nb"), "[a][b]");
  EXPECT_EQ(all("(?m:.)", "a\nb"), "[a][\n][b]");
  EXPECT_EQ(all("x*", "axb"), "[][x][]");
}

TEST(Regex, KnowsClasses) {
  EXPECT_EQ(all("[^(\\s|[.,])]+", "a(b|c.d e,"), "[a][b][c][d][e]");  // nested class
  EXPECT_EQ(all("[a-z&&[^aeiou]]+", "hello"), "[h][ll]");
  EXPECT_EQ(all("[[:digit:]-]+", "a1-2"), "[1-2]");
  EXPECT_EQ(all("[\\]\\-\\\\]+", "a]-\\b"), "[]-\\]");
  EXPECT_EQ(all("[]a]+", "]a"), "[]a]");
  EXPECT_EQ(all("\\p{^L}+|\\P{Lu}", "a1B"), "[a][1]");
  EXPECT_EQ(all("[\\u4e00-\\x{9fa5}]+", "a中文b"), "[中文]");
  EXPECT_EQ(all("\\p{Han}+|\\p{hiragana}", "漢字か"), "[漢字][か]");
  EXPECT_EQ(all("\\h+", "xyFF0g"), "[FF0]");
  EXPECT_EQ(all("\\R", "a\r\nb\n"), "[\r\n][\n]");
  EXPECT_EQ(all("\\s", "\u0085\u200b\u180e\u001c\u3000"), "[\u0085][\u3000]");
}

// TEXT-7
TEST(Regex, RefusesByNameWhatItDoesNotKnow) {
  for (const char* pattern : {"(a)\\1", "a(", "a)", "[a", "*a", "\\p{Nonsense}", "\\y", "(?<=a+)b", "a{3,2}",
                              "\\x{110000}", "\\u12", "(?z)", "[b-a]", "a{2000}", "\\", "(?<n"}) {
    auto regex = Regex::compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_NE(regex.error().message.find(pattern), std::string::npos) << regex.error().message;
  }
  EXPECT_FALSE(Regex::compile(std::string(5000, '(')).ok());
  EXPECT_FALSE(Regex::compile("(((((a{1000}){1000}){1000}){1000}){1000})").ok());
}

// TEXT-4: what a backtracking engine runs for ever.
TEST(Regex, TakesLinearTimeOnPatternsThatGoBack) {
  std::string text(20000, 'a');
  for (const char* pattern : {"(a|a)*b", "(a*)*b", "(a+)+$x", "a*a*a*a*b", "(?:a|aa)+c", "(a?){30}b", "a+b"}) {
    auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(all(pattern, text), "") << pattern;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << pattern;
  }
  // Remembering failures must not lose matches.
  EXPECT_EQ(all("(a|a)*b|a", "aab" + std::string(50, 'a') + "c").substr(0, 8), "[aab][a]");
}

// TEXT-4: the known exception. A look-ahead that scans may scan again from each position, and no worse.
TEST(Regex, AScanningLookAheadTakesAtMostTheSquareOfTheText) {
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(all("(?=a*b)a|a+b", std::string(5000, 'a')), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace vernier
