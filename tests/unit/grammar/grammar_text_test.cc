#include "grammar/grammar_text.h"

#include <gtest/gtest.h>

#include <ctime>

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

// GRAMMAR-4 Nothing that is written is bounded by a square of the request: each of these took many seconds.
TEST(GrammarTextTest, TheLargestTextsThatAreTakenAreWrittenAtOnce) {
  constexpr size_t kBytes = GrammarLimits{}.text_bytes;
  EXPECT_LT(seconds_to_write({.kind = Kind::kRegex, .text = repeated("-_", kBytes)}), 2.0);
  EXPECT_LT(seconds_to_write({.kind = Kind::kRegex, .text = repeated("(a-){2}_", kBytes)}), 2.0);
  EXPECT_LT(seconds_to_write({.kind = Kind::kRegex, .text = repeated("a{20}b", 5000)}), 2.0);
  EXPECT_LT(seconds_to_write({.kind = Kind::kJsonSchema,
                              .text = R"({"pattern":"^)" + repeated("-_", kBytes - 100) + R"($","type":"string"})"}),
            2.0);
}

TEST(GrammarTextTest, ThousandsOfPropertiesAreWrittenAtOnce) {
  std::string declared;
  for (int i = 0; i < 4000; ++i)
    declared += fmt::format(R"({}"property-with-a-long-name-{}":true)", i == 0 ? "" : ",", i);
  const std::string schema = R"({"type":"object","properties":{)" + declared + "}}";
  EXPECT_LT(seconds_to_write({.kind = Kind::kJsonSchema, .text = schema}), 2.0);
}

}  // namespace
}  // namespace vernier
