#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace vernier {
namespace {

struct Outcome {
  std::string text;
  std::string found;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces, bool include = false) {
  auto matcher = StopMatcher::make(stops, include);
  CHECK(matcher.ok());
  std::string out;
  for (const std::string& piece : pieces) {
    if (matcher->push(piece, out)) return {out, matcher->found()};
  }
  EXPECT_EQ(matcher->finish(out), !matcher->found().empty());
  return {out, matcher->found()};
}

TEST(StopMatcher, FindsAStopAcrossPieces) {
  EXPECT_EQ(run({"DEFGHIJ"}, {"ABC", "DEF", "G", "HI", "JK"}), (Outcome{"ABC", "DEFGHIJ"}));
  EXPECT_EQ(run({"DEFGHIJ"}, {"ABC", "DEF", "G", "HI", "JK"}, true), (Outcome{"ABCDEFGHIJ", "DEFGHIJ"}));
  EXPECT_EQ(run({"ab"}, {"ab"}), (Outcome{"", "ab"}));
  EXPECT_EQ(run({"中文"}, {"a中", "文b"}), (Outcome{"a", "中文"}));
}

// TEXT-3: the earliest match in the text wins, though another may be complete before it.
TEST(StopMatcher, TheMatchThatBeginsFirstWins) {
  EXPECT_EQ(run({"ab", "abc", "bcd"}, {"xabcd"}), (Outcome{"x", "ab"}));
  EXPECT_EQ(run({"bc", "abcd"}, {"abcd"}), (Outcome{"", "abcd"}));
  EXPECT_EQ(run({"bc", "abcd"}, {"abc", "d"}), (Outcome{"", "abcd"}));
  EXPECT_EQ(run({"bc", "abcd"}, {"abc", "x"}), (Outcome{"a", "bc"}));
  EXPECT_EQ(run({"bc", "abcd"}, {"abc"}), (Outcome{"a", "bc"})) << "at the end nothing can still overtake it";
  EXPECT_EQ(run({"bc", "abcd"}, {"abc", "x"}, true), (Outcome{"abc", "bc"}));
  EXPECT_EQ(run({"c", "abc"}, {"zabc"}), (Outcome{"z", "abc"}));
}

// TEXT-3: a stop that no other can overtake is not waited with.
TEST(StopMatcher, IsCertainAsSoonAsNothingCanOvertake) {
  auto matcher = StopMatcher::make({"bc", "abcd", "cde"});
  ASSERT_TRUE(matcher.ok());
  std::string out;
  EXPECT_FALSE(matcher->push("zabc", out));
  EXPECT_EQ(out, "z");
  EXPECT_TRUE(matcher->push("x", out));
  EXPECT_EQ(out, "za");
  EXPECT_EQ(matcher->found(), "bc");
  auto other = StopMatcher::make({"bc", "abcd", "cde"});
  out.clear();
  EXPECT_TRUE(other->push("zbc", out)) << "cde begins later";
  EXPECT_EQ(out, "z");
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStop) {
  auto matcher = StopMatcher::make({"Alice:"});
  ASSERT_TRUE(matcher.ok());
  std::string out;
  EXPECT_FALSE(matcher->push(" Alice", out));
  EXPECT_EQ(out, " ");
  EXPECT_FALSE(matcher->push("!", out));
  EXPECT_EQ(out, " Alice!");
  EXPECT_FALSE(matcher->push("AAl", out));
  EXPECT_EQ(out, " Alice!A");
  matcher->finish(out);
  EXPECT_EQ(out, " Alice!AAl");
}

TEST(StopMatcher, RefusesAnEmptyStop) {
  auto empty = StopMatcher::make({"a", ""});
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(StopMatcher::make({"\xff"}).ok());
}

Outcome define(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t begin = 0; begin < text.size(); ++begin) {
    std::string best;
    for (const std::string& stop : stops) {
      if (text.substr(begin).starts_with(stop) && (best.empty() || stop.size() < best.size())) best = stop;
    }
    if (!best.empty()) return {text.substr(0, begin), best};
  }
  return {text, ""};
}

// TEXT-3: how the text is cut makes no difference.
TEST(StopMatcher, EqualsItsDefinitionForRandomTextsAndCuts) {
  std::mt19937 random(7);
  auto word = [&](size_t most) {
    std::string out;
    for (size_t n = 1 + random() % most; n > 0; --n) out.push_back("abc"[random() % 3]);
    return out;
  };
  int stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> stops;
    for (size_t n = random() % 4; n > 0; --n) stops.push_back(word(6));
    std::string text = word(30);
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      size_t size = 1 + random() % 5;
      pieces.push_back(text.substr(at, size));
      at += size;
    }
    Outcome wanted = define(stops, text);
    stopped += !wanted.found.empty();
    ASSERT_EQ(run(stops, pieces), wanted) << text;
  }
  EXPECT_GT(stopped, 500);
}

}  // namespace
}  // namespace vernier
