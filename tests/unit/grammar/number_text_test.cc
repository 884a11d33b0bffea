#include "grammar/number_text.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

using testing::matches;

class NumberTextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  }
  std::shared_ptr<const CompiledGrammar> compile(const std::string& expression) {
    return compiler_.compile({.kind = GrammarSpec::Kind::kEbnf, .text = "root ::= " + expression}).value();
  }

  GrammarCompiler compiler_{testing::toy_vocabulary()};
};

TEST_F(NumberTextTest, BoundsThatExcludeEachOtherAreBothNamed) {
  for (auto write : {gbnf_integer, gbnf_bounded_number}) {
    const Error error = write({.minimum = "5", .maximum = "3", .exclusive_minimum = "1"}).error();
    EXPECT_NE(error.message.find("satisfies both minimum 5 and maximum 3"), std::string::npos) << error.message;
  }
}

TEST_F(NumberTextTest, AnIntegerRangeHoldsExactlyItsNumbers) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    auto draw = [&] {
      int64_t size = 1;
      for (uint64_t i = random() % 7; i > 0; --i) size *= 10;
      return static_cast<int64_t>(random() % static_cast<uint64_t>(2 * size + 1)) - size;
    };
    int64_t a = draw();
    int64_t b = draw();
    if (a > b) std::swap(a, b);
    auto grammar = compile(gbnf_integer({.minimum = std::to_string(a), .maximum = std::to_string(b)}).value());
    for (int64_t value :
         {a - 1, a, a + 1, b - 1, b, b + 1, int64_t{0}, a / 2 + b / 2, a / 10, b / 10, b * 10, draw(), draw()}) {
      EXPECT_EQ(matches(grammar, std::to_string(value)), a <= value && value <= b) << value << " in " << a << ".." << b;
    }
  }
}

TEST_F(NumberTextTest, ABoundedNumberLiesWithinItsBounds) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 60; ++round) {
    auto draw = [&] { return static_cast<int64_t>(random() % 4000001) - 2000000; };  // in units of 10^-3
    auto text = [](int64_t n) {
      return fmt::format("{}{}.{:03}", n < 0 ? "-" : "", std::abs(n) / 1000, std::abs(n) % 1000);
    };
    int64_t a = draw();
    int64_t b = draw();
    if (a > b) std::swap(a, b);
    const bool exclusive = round % 2 == 1;
    NumberBounds bounds;
    (exclusive ? bounds.exclusive_minimum : bounds.minimum) = text(a);
    (exclusive ? bounds.exclusive_maximum : bounds.maximum) = text(b);
    auto grammar = compile(gbnf_bounded_number(bounds).value());
    for (int64_t value : {a - 1, a, a + 1, b - 1, b, b + 1, int64_t{0}, a / 2 + b / 2, draw(), draw(), draw()}) {
      const bool inside = exclusive ? a < value && value < b : a <= value && value <= b;
      EXPECT_EQ(matches(grammar, text(value)), inside) << text(value) << " in " << text(a) << ".." << text(b);
    }
  }
}

TEST(NumberText, BoundsThatNoTextReachesAreRefused) {
  EXPECT_FALSE(gbnf_integer({.minimum = "1e18"}).ok());
  EXPECT_FALSE(gbnf_integer({.maximum = "-1e300"}).ok());
  EXPECT_FALSE(gbnf_integer({.minimum = "0.2", .maximum = "0.8"}).ok());
  EXPECT_FALSE(gbnf_integer({.exclusive_minimum = "3", .exclusive_maximum = "4"}).ok());
  EXPECT_FALSE(gbnf_bounded_number({.exclusive_minimum = "1e-9", .exclusive_maximum = "2e-9"}).ok());
  EXPECT_TRUE(gbnf_integer({.minimum = "-1e300", .maximum = "1e300"}).ok());
}

}  // namespace
}  // namespace vernier
