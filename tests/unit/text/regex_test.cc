#include "text/regex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

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
  for (const char* pattern :
       {"(a)\\1", "a(", "a)", "[a", "*a", "\\p{Nonsense}", "\\y", "(?<=a+)b", "a{3,2}", "\\x{110000}", "\\u12", "(?z)",
        "[b-a]", "a{2000}", "(?=(a*)*b)", "(?>(a?)*)b", "\\", "(?<n"}) {
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

// TEXT-4: what scans again from each position unless it is remembered where that led.
TEST(Regex, TakesLinearTimeWhereBodiesAndRunsScan) {
  const std::string text(100000, 'a');
  for (const char* pattern : {"(?=a*b)a", "(?!a*$)a", "(?=(?>a*)b)a", "(?>(?:a|c)*)b", "a++b", "(?:a(?=a*))*b",
                              "(?=(?:a|ab)*+b)a", "(?:a(?!(?=.*b)a*c|b))*d", "(?=[^b]*b)a|(?=a+?c)a"}) {
    auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(all(pattern, text), "") << pattern;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << pattern;
  }
  // Where the look succeeds each time, it must not scan again either.
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(all("(?=a*b)a", text + "b").size(), 3 * text.size());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

/// A random expression without anchors and looks behind, so that what matches at a place depends on the text after it.
std::string random_pattern(std::mt19937& random, int depth) {
  auto part = [&] { return random_pattern(random, depth - 1); };
  switch (random() % (depth > 0 ? 10 : 3)) {
    case 0:
      return "a";
    case 1:
      return "b";
    case 2:
      return "[ab]";
    case 3:
      return "(?:" + part() + "|" + part() + ")";
    case 4:
      return "(?:" + part() + ")*";
    case 5:
      return "(?:" + part() + ")*?";
    case 6:
      return "(?>" + part() + ")";
    case 7:
      return "(?=" + part() + ")";
    case 8:
      return "(?!" + part() + ")";
    default:
      return part() + part();
  }
}

/// Searches afresh at each place, so that nothing is remembered from one to the next.
std::string all_afresh(const Regex& regex, std::string_view text) {
  std::string out;
  std::optional<size_t> previous_end;
  for (size_t at = 0; at <= text.size();) {
    auto match = RegexSearch(regex, text.substr(at)).next();
    if (match && match->begin == 0 && !(match->end == 0 && previous_end == at)) {
      out += "[" + std::string(text.substr(at, match->end)) + "]";
      previous_end = at + match->end;
      at += match->end;
    } else {
      ++at;
    }
  }
  return out;
}

// TEXT-4: remembering changes the time and nothing else.
TEST(Regex, RememberingChangesNoMatch) {
  std::mt19937 random(11);
  int matched = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::string pattern = random_pattern(random, 5);
    auto regex = Regex::compile(pattern);
    if (!regex.ok()) continue;
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text.push_back("abc"[random() % 3]);
    std::string out;
    RegexSearch search(*regex, text, /*remember=*/true);
    while (auto match = search.next()) out += "[" + text.substr(match->begin, match->end - match->begin) + "]";
    ASSERT_EQ(out, all_afresh(*regex, text)) << pattern << " in " << text;
    matched += !out.empty();
  }
  EXPECT_GT(matched, 5000);
}

}  // namespace
}  // namespace vernier
