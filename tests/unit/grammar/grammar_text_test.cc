#include "grammar/grammar_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>

#include "grammar/grammar_compiler.h"
#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

using Kind = GrammarSpec::Kind;

/// Processor time, which other programs do not lengthen.
double seconds_to_write(const GrammarSpec& spec) {
  const auto vocabulary = testing::toy_vocabulary();
  const std::clock_t begin = std::clock();
  auto text = write_grammar(spec, *vocabulary, GrammarLimits{});
  EXPECT_TRUE(text.ok()) << text.error().to_string();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

std::string repeated(std::string_view text, size_t bytes) {
  std::string whole;
  while (whole.size() + text.size() <= bytes) whole += text;
  return whole;
}

/// How many times as long a text of twice the size takes: 2 where the work grows with the text, 4 with its square.
/// The least of three, as other work can only lengthen one.
double growth(Kind kind, const std::function<std::string(size_t bytes)>& text) {
  double least = 100;
  for (int i = 0; i < 3; ++i) {
    const double half = seconds_to_write({.kind = kind, .text = text(GrammarLimits{}.text_bytes / 2)});
    least = std::min(least, seconds_to_write({.kind = kind, .text = text(GrammarLimits{}.text_bytes)}) / half);
  }
  return least;
}

// GRAMMAR-4 What is written grows with the request, not with its square.
TEST(GrammarTextTest, TheWorkOfLongTextsGrowsAsTheyDo) {
  EXPECT_LT(growth(Kind::kRegex, [](size_t bytes) { return repeated("-_", bytes); }), 3);
  EXPECT_LT(growth(Kind::kRegex, [](size_t bytes) { return repeated("(a-){2}_", bytes); }), 3);
  EXPECT_LT(
      growth(Kind::kJsonSchema,
             [](size_t bytes) { return R"({"pattern":"^)" + repeated("-_", bytes - 100) + R"($","type":"string"})"; }),
      3);
}

}  // namespace
}  // namespace vernier
