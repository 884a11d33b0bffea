#include "grammar/grammar_matcher.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

using testing::allows;
using testing::mask_of;

class GrammarMatcherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  }
  GrammarMatcher start(const GrammarSpec& spec) {
    return GrammarMatcher::make(compiler_.compile(spec).value()).value();
  }

  std::shared_ptr<const GrammarVocabulary> vocabulary_ = testing::toy_vocabulary({"<tool_call>", "<|im_start|>"});
  GrammarCompiler compiler_{vocabulary_};
  int32_t end_ = GrammarCompiler::is_built() ? testing::marker_id(*vocabulary_, "<end>") : 0;
};

// GRAMMAR-2 The mask and `accept` agree on every token at every place.
TEST_F(GrammarMatcherTest, TheMaskAndAcceptAgree) {
  std::mt19937_64 random(3);
  GrammarMatcher matcher = start({.kind = GrammarSpec::Kind::kJsonObject});
  for (int step = 0; step < 300 && !matcher.terminated(); ++step) {
    auto mask = mask_of(matcher);
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < vocabulary_->logits(); ++token) {
      const bool taken = matcher.accept(token);
      ASSERT_EQ(taken, allows(mask, token)) << "token " << token << " at step " << step;
      if (taken) {
        ASSERT_TRUE(matcher.rollback(1).ok());
        if (token != end_) allowed.push_back(token);
      }
    }
    ASSERT_FALSE(allowed.empty() && !matcher.may_end());
    if (allowed.empty()) break;
    ASSERT_TRUE(matcher.accept(allowed[random() % allowed.size()]));
  }
}

// GRAMMAR-3 Markers, end tokens and ids without a token are never text, whatever they spell. G18: the mask is as wide
// as the head, and its padding is masked.
TEST_F(GrammarMatcherTest, MarkersAndPaddingAreNeverText) {
  for (const char* rules : {"root ::= [^]*", "root ::= \"<tool_call>\" \"x\"", "root ::= [^\"]* \"\\\"\""}) {
    GrammarMatcher matcher = start({.kind = GrammarSpec::Kind::kEbnf, .text = rules});
    auto mask = mask_of(matcher);
    for (const char* marker : {"<tool_call>", "<|im_start|>"}) {
      EXPECT_FALSE(allows(mask, testing::marker_id(*vocabulary_, marker))) << rules;
      EXPECT_FALSE(matcher.accept(testing::marker_id(*vocabulary_, marker))) << rules;
    }
    for (int64_t id = vocabulary_->logits() - 5; id < static_cast<int64_t>(mask.size()) * 32; ++id) {
      EXPECT_FALSE(allows(mask, id)) << rules;
      EXPECT_FALSE(matcher.accept(static_cast<int32_t>(id))) << rules;
    }
    EXPECT_FALSE(matcher.accept(-1));
    EXPECT_TRUE(testing::accept_text(matcher, "<tool_call>")) << "the bytes one by one are text";
  }
}

// E02 After the end nothing is taken, the mask is empty, and no check of the library is reached.
TEST_F(GrammarMatcherTest, NothingFollowsTheEnd) {
  GrammarMatcher matcher = start({.kind = GrammarSpec::Kind::kChoice, .choices = {"yes", "no"}});
  EXPECT_FALSE(matcher.accept(end_));
  ASSERT_TRUE(testing::accept_text(matcher, "no"));
  EXPECT_TRUE(matcher.may_end());
  ASSERT_TRUE(matcher.accept(end_));
  EXPECT_TRUE(matcher.terminated());
  EXPECT_FALSE(matcher.may_end());
  EXPECT_FALSE(matcher.accept(end_));
  EXPECT_FALSE(matcher.accept('x'));
  for (uint32_t word : mask_of(matcher)) EXPECT_EQ(word, 0U);
  ASSERT_TRUE(matcher.rollback(2).ok());  // the end token and "o"
  EXPECT_FALSE(matcher.terminated());
  EXPECT_EQ(matcher.accepted(), 1);
  EXPECT_TRUE(testing::accept_text(matcher, "o"));
  EXPECT_TRUE(matcher.accept(end_));
}

// E01 Rejected drafts roll the matcher back: any number of tokens, to the same masks as before.
TEST_F(GrammarMatcherTest, RollbackRestoresEveryMask) {
  std::mt19937_64 random(5);
  GrammarMatcher matcher =
      start({.kind = GrammarSpec::Kind::kJsonSchema,
             .text = R"({"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},
                                            "n":{"type":"number"}},"required":["name"]}})"});
  std::vector<std::vector<uint32_t>> masks = {mask_of(matcher)};
  for (int step = 0; step < 400; ++step) {
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < vocabulary_->logits(); ++token) {
      if (allows(masks.back(), token)) allowed.push_back(token);
    }
    if (allowed.empty() || random() % 4 == 0) {
      const int back = static_cast<int>(random() % masks.size());
      ASSERT_TRUE(matcher.rollback(back).ok());
      masks.resize(masks.size() - static_cast<size_t>(back));
      ASSERT_EQ(mask_of(matcher), masks.back()) << step;
      if (allowed.empty()) continue;
    } else {
      ASSERT_TRUE(matcher.accept(allowed[random() % allowed.size()]));
      masks.push_back(mask_of(matcher));
    }
    ASSERT_EQ(matcher.accepted() + 1, static_cast<int>(masks.size()));
  }
}

// E01 Each draft position is masked by what stands before it: a draft "1a2" under [0-9]{3} ends at its first token.
TEST_F(GrammarMatcherTest, ADraftIsCutWhereTheGrammarRefuses) {
  GrammarMatcher matcher = start({.kind = GrammarSpec::Kind::kRegex, .text = "[0-9]{3}"});
  EXPECT_TRUE(matcher.accept('1'));
  EXPECT_FALSE(allows(mask_of(matcher), 'a'));
  EXPECT_FALSE(matcher.accept('a'));
  EXPECT_TRUE(matcher.accept('2'));
  EXPECT_TRUE(matcher.accept('3'));
  auto mask = mask_of(matcher);
  EXPECT_TRUE(allows(mask, end_));
  for (int32_t token = 0; token < end_; ++token) EXPECT_FALSE(allows(mask, token));
}

// E03 The constraint begins at the exact token that ends the reasoning.
TEST_F(GrammarMatcherTest, TheConstraintBeginsWhereTheReasoningEnds) {
  for (bool token : {true, false}) {
    auto vocabulary = token ? testing::toy_vocabulary({"<think>", "</think>"}) : testing::toy_vocabulary();
    GrammarCompiler compiler(vocabulary);
    GrammarSpec spec{
        .kind = GrammarSpec::Kind::kJsonObject, .dialect = OutputDialect::kQwen3, .reasoning = ReasoningPrefix::kOpen};
    GrammarMatcher matcher = GrammarMatcher::make(compiler.compile(spec).value()).value();
    ASSERT_TRUE(testing::accept_text(matcher, "Let me {think} \"</thin")) << token;
    EXPECT_FALSE(matcher.may_end()) << "no answer inside the reasoning";
    if (token) {
      ASSERT_TRUE(matcher.accept(testing::marker_id(*vocabulary, "</think>")));
    } else {
      ASSERT_TRUE(testing::accept_text(matcher, "</think>"));
    }
    auto mask = mask_of(matcher);
    EXPECT_TRUE(allows(mask, '{'));
    EXPECT_TRUE(allows(mask, '\n'));
    EXPECT_FALSE(allows(mask, '`'));
    EXPECT_FALSE(allows(mask, 'a'));
    ASSERT_TRUE(testing::accept_text(matcher, "\n\n{}"));
    EXPECT_TRUE(matcher.may_end());
  }
}

}  // namespace
}  // namespace vernier
