#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "grammar/pattern_counts.h"
#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

using Kind = GrammarSpec::Kind;
using ::testing::HasSubstr;

/// As many tokens as a model's vocabulary has, of lengths like those: each is a chance to follow another way.
std::shared_ptr<const GrammarVocabulary> wide_vocabulary() {
  GrammarVocabularyParts parts;
  for (int byte = 0; byte < 256; ++byte) parts.token_bytes.push_back(std::string(1, static_cast<char>(byte)));
  std::mt19937 random(1);
  while (parts.token_bytes.size() < 30000) {
    std::string token;
    for (size_t left = 2 + random() % 8; left > 0; --left) token += static_cast<char>('a' + random() % 26);
    parts.token_bytes.push_back(std::move(token));
  }
  parts.token_bytes.emplace_back("<end>");
  parts.end_ids = {30000};
  parts.logits = 30001;
  return GrammarVocabulary::make(std::move(parts)).value();
}

class GrammarWorkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  }
};

TEST(JoinCounts, CountsOfTheSameCharactersBecomeOne) {
  struct Case {
    const char* pattern;
    size_t least, most;
  };
  for (const Case& c : {Case{"(.{1,20}.{1,20}){1,5}", 2, 200}, Case{"(.|a|b)*(.|c){300}", 300, kUnbounded},
                        Case{"a{2}b?c|a{3}", 3, 3}, Case{"((a{2}){3}){4}", 24, 24}, Case{"(a{0,3}){0,4}", 0, 12}}) {
    const PatternNode parsed = parse_pattern(c.pattern, PatternUse::kWhole).value();
    PatternNode joined = join_counts(parsed);
    if (joined.kind == PatternNode::Kind::kChoice) joined = joined.children.back();  // the second alternative
    ASSERT_EQ(joined.kind, PatternNode::Kind::kRepeat) << c.pattern;
    EXPECT_EQ(joined.children[0].kind, PatternNode::Kind::kChars) << c.pattern;
    EXPECT_EQ(joined.least, c.least) << c.pattern;
    EXPECT_EQ(joined.most, c.most) << c.pattern;
  }
  // Lengths with gaps between them stay as they are: 2, 3, 4 and more are, 1 is not.
  for (const char* gaps : {"(a{2,3}){0,4}", "(a{3}){2,4}"}) {
    const PatternNode joined = join_counts(parse_pattern(gaps, PatternUse::kWhole).value());
    EXPECT_EQ(joined.children[0].kind, PatternNode::Kind::kRepeat) << gaps;
  }
}

/// Walks random answers; at each place the mask is what `accept` says of each token.
void expect_agreement(const std::shared_ptr<const CompiledGrammar>& grammar, int answers, const std::string& what) {
  const GrammarVocabulary& vocabulary = grammar->vocabulary();
  std::mt19937 random(7);
  for (int answer = 0; answer < answers; ++answer) {
    GrammarMatcher matcher = GrammarMatcher::make(grammar).value();
    std::string text;
    for (int step = 0; step < 60 && !matcher.terminated(); ++step) {
      const std::vector<uint32_t> mask = testing::mask_of(matcher);
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < static_cast<int32_t>(vocabulary.logits()); ++id) {
        const bool taken = matcher.accept(id);
        ASSERT_EQ(taken, testing::allows(mask, id)) << what << ": token " << id << " after '" << text << "'";
        if (!taken) continue;
        ASSERT_TRUE(matcher.rollback(1).ok());
        allowed.push_back(id);
      }
      ASSERT_FALSE(allowed.empty()) << what << ": a dead end after '" << text << "'";
      const int32_t next = allowed[random() % allowed.size()];
      ASSERT_TRUE(matcher.accept(next));
      text += vocabulary.token_bytes(next);
    }
  }
}

// GRAMMAR-2 What a counted run knows beforehand of a token is what its characters say, also at both ends of the count.
TEST_F(GrammarWorkTest, TheMasksOfCountedRunsAreWhatAcceptSays) {
  GrammarCompiler compiler(testing::toy_vocabulary());
  for (const char* pattern :
       {"[a-z]{1,40}a", "[^\"]{3,30}é", ".{20,}x", "[abc]{17}[bcn]{18,30}", "(t[a-z]{1,25} ){1,3}",
        "[a-zé]{0,22}(na|me)?", "[^a]{18}", "(a|[a-c]{2,30})[0-9]", "([a-z]+ ){1,4}[^b]*", "(na|n|am?e)*é?"}) {
    auto grammar = compiler.compile({.kind = Kind::kRegex, .text = pattern});
    ASSERT_TRUE(grammar.ok()) << pattern << ": " << grammar.error().to_string();
    expect_agreement(*grammar, 3, pattern);
  }
  for (const char* schema :
       {R"({"type":"string","minLength":17,"maxLength":19})",
        R"({"type":"array","items":{"maxLength":20,"type":"string"}})", R"({"type":"string","minLength":30})",
        R"({"type":"string","pattern":"^([^b]+,){0,3}\\S?$"})",
        R"({"type":"string","pattern":"^[^b]*$","maxLength":21})",
        R"({"enum":["a","name","nam","the name","the","true",true,null,10,1000]})"}) {
    auto grammar = compiler.compile({.kind = Kind::kJsonSchema, .text = schema});
    ASSERT_TRUE(grammar.ok()) << schema << ": " << grammar.error().to_string();
    expect_agreement(*grammar, 3, schema);
  }
}

TEST_F(GrammarWorkTest, ACountedRunHasItsLengthsAndNoOther) {
  GrammarCompiler compiler(testing::toy_vocabulary());
  for (auto [least, most] : {std::pair<size_t, size_t>{0, 15},
                             {0, 16},
                             {0, 17},
                             {1, 33},
                             {16, 16},
                             {17, 17},
                             {18, 34},
                             {33, 34},
                             {5, kUnbounded},
                             {17, kUnbounded},
                             {100, 200}}) {
    std::string bounds = fmt::format(R"("minLength":{})", least);
    if (most != kUnbounded) bounds += fmt::format(R"(,"maxLength":{})", most);
    auto grammar = compiler.compile({.kind = Kind::kJsonSchema, .text = R"({"type":"string",)" + bounds + "}"});
    ASSERT_TRUE(grammar.ok()) << bounds << ": " << grammar.error().to_string();
    for (size_t length = 0; length < 210; ++length) {
      std::string text;
      for (size_t i = 0; i < length; ++i) text += i % 7 == 3 ? "\\n" : i % 7 == 5 ? "東" : "x";
      EXPECT_EQ(testing::matches(*grammar, "\"" + text + "\""), length >= least && length <= most)
          << bounds << " and " << length;
    }
  }
}

// GRAMMAR-4 These stopped the engine for minutes; ordinary ones beside them were refused under load.
TEST_F(GrammarWorkTest, APatternWithOverlappingCountsCostsNoMoreThanItsTexts) {
  GrammarCompiler compiler(wide_vocabulary());
  for (const char* pattern : {"([a-z]{1,20}[a-z]{1,20}){1,5}", "([a-z]|a|b)*([a-z]|c){160}", "[a-z]{1,200}"}) {
    auto grammar = compiler.compile({.kind = Kind::kRegex, .text = pattern});
    ASSERT_TRUE(grammar.ok()) << pattern << ": " << grammar.error().to_string();
    GrammarMatcher matcher = GrammarMatcher::make(*grammar).value();
    std::vector<uint32_t> mask((*grammar)->vocabulary().mask_words());
    for (int i = 0; i < 150; ++i) {
      const Status filled = matcher.fill_mask(mask);
      ASSERT_TRUE(filled.ok()) << pattern << " after " << i << ": " << filled.error().message;
      ASSERT_TRUE(matcher.accept('x')) << pattern << " after " << i;
    }
  }
}

constexpr const char* kAmbiguous = "root ::= (a a){1,20}\na ::= [^\\n]{1,100} | [^\\n]{1,90}";

/// Answers until the grammar fails, or 100 tokens.
Status run_into_failure(GrammarMatcher& matcher, SharedWork* shared) {
  std::vector<uint32_t> mask(matcher.grammar().vocabulary().mask_words());
  for (int i = 0; i < 100; ++i) {
    TRY_STATUS(matcher.fill_mask(mask, shared));
    if (!matcher.accept('x', shared)) return matcher.failure();
  }
  return {};
}

// GRAMMAR-6 A caller's grammar is written as it stands: the work of a step bounds it, and says so.
TEST_F(GrammarWorkTest, AnAmbiguousGrammarEndsWithAnErrorWithinItsWork) {
  GrammarCompiler compiler(wide_vocabulary());
  auto grammar = compiler.compile({.kind = Kind::kEbnf, .text = kAmbiguous});
  Status failure;
  if (!grammar.ok()) {
    failure = Error(grammar.error());
  } else {
    GrammarMatcher matcher = GrammarMatcher::make(*grammar).value();
    constexpr int64_t kPlenty = 1'000'000'000;
    SharedWork shared(kPlenty);
    failure = run_into_failure(matcher, &shared);
    EXPECT_GT(shared.take(kPlenty), kPlenty - 20'000'000);
    EXPECT_FALSE(matcher.accepted() > 0 && matcher.rollback(1).ok()) << "what failed is not asked again";
    std::vector<uint32_t> mask((*grammar)->vocabulary().mask_words());
    EXPECT_FALSE(matcher.fill_mask(mask).ok()) << "what failed is not asked again";
  }
  ASSERT_FALSE(failure.ok());
  EXPECT_EQ(failure.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(failure.error().message, HasSubstr("too ambiguous"));
}

// GRAMMAR-6 Where other requests have taken what the step shares, an ordinary grammar goes on and a costly one is told.
TEST_F(GrammarWorkTest, WhatAStepSharesIsForAll) {
  GrammarCompiler compiler(wide_vocabulary());
  SharedWork nothing(0);
  auto ordinary = compiler.compile({.kind = Kind::kRegex, .text = "[a-z]{1,200}"});
  ASSERT_TRUE(ordinary.ok()) << ordinary.error().to_string();
  GrammarMatcher plain = GrammarMatcher::make(*ordinary).value();
  EXPECT_TRUE(run_into_failure(plain, &nothing).ok());
  auto costly = compiler.compile({.kind = Kind::kEbnf, .text = "root ::= w+\nw ::= [u-z] v\nv ::= [a-z]"});
  ASSERT_TRUE(costly.ok()) << costly.error().to_string();
  GrammarMatcher matcher = GrammarMatcher::make(*costly).value();
  ASSERT_TRUE(matcher.accept('x'));
  const Status failure = run_into_failure(matcher, &nothing);
  ASSERT_FALSE(failure.ok());
  EXPECT_EQ(failure.error().code, ErrorCode::kOverloaded);
  const Status back = matcher.rollback(1);
  ASSERT_FALSE(back.ok()) << "what failed stands in the middle of something; this ended the process";
  // One that took it all itself cannot be helped by waiting.
  SharedWork some(1'000);
  GrammarMatcher alone = GrammarMatcher::make(*costly).value();
  const Status own_fault = run_into_failure(alone, &some);
  ASSERT_FALSE(own_fault.ok());
  EXPECT_EQ(own_fault.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(own_fault.error().message, HasSubstr("most of the work that a step has"));
}

// GRAMMAR-6 What is refused is told by the limit, not by what was left of it; and tokens that are taken back gain
// nothing.
TEST_F(GrammarWorkTest, TheLimitOnAverageIsToldAndIsNotPassedOverByTokensTakenBack) {
  GrammarCompiler compiler(wide_vocabulary());
  auto costly = compiler.compile({.kind = Kind::kEbnf, .text = "root ::= w+\nw ::= [u-z] v\nv ::= [a-z]"});
  ASSERT_TRUE(costly.ok()) << costly.error().to_string();
  GrammarMatcher matcher = GrammarMatcher::make(*costly).value();
  std::vector<uint32_t> mask((*costly)->vocabulary().mask_words());
  Status failure;
  for (int i = 0; i < 200 && failure.ok(); ++i) {
    failure = matcher.fill_mask(mask);
    if (!failure.ok()) break;
    ASSERT_TRUE(matcher.accept('x'));
    ASSERT_TRUE(matcher.rollback(1).ok());
  }
  ASSERT_FALSE(failure.ok());
  EXPECT_THAT(failure.error().message, HasSubstr("more than 400000 steps for each token on average"));
}

// `root ::= root` was an internal error at the first token.
TEST_F(GrammarWorkTest, AGrammarThatAllowsNothingIsRefused) {
  GrammarCompiler compiler(testing::toy_vocabulary());
  for (const char* text : {"root ::= root", "root ::= \"x\" a?\na ::= \"y\" a", "root ::= a\na ::= b\nb ::= a",
                           "root ::= \"x\" root", "root ::= \"x\" | a\na ::= (\"y\" | [a-z]+) a{1,2} # a ::= \"z\""}) {
    auto grammar = compiler.compile({.kind = Kind::kEbnf, .text = text});
    ASSERT_FALSE(grammar.ok()) << text;
    EXPECT_EQ(grammar.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(grammar.error().message, HasSubstr("allows no finite text"));
  }
  for (const char* text :
       {"root ::= \"x\" root?", "root ::= \"[\" (root (\",\" root)*)? \"]\"", "root ::= a{0,2}\na ::= \")\" | a a",
        "root ::= \"x\"\na ::= \"y\" a\nb ::= \"z\" | a", "root ::= [\\]\"] | root \"\\\"\"\n\n# b ::= b\n"}) {
    auto grammar = compiler.compile({.kind = Kind::kEbnf, .text = text});
    EXPECT_TRUE(grammar.ok()) << text << ": " << grammar.error().to_string();
  }
}

TEST_F(GrammarWorkTest, LengthsAreCheckedBeforeAnythingIsWritten) {
  GrammarCompiler compiler(testing::toy_vocabulary());
  auto refused =
      compiler.compile({.kind = Kind::kJsonSchema, .text = R"({"type": "string", "minLength": 1000000000})"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().where, "#/minLength");
  auto grammar = compiler.compile({.kind = Kind::kJsonSchema, .text = R"({"type": "string", "maxLength": 2000})"});
  ASSERT_TRUE(grammar.ok()) << grammar.error().to_string();
  EXPECT_TRUE(testing::matches(*grammar, "\"" + std::string(2000, 'x') + "\""));
  EXPECT_FALSE(testing::matches(*grammar, "\"" + std::string(2001, 'x') + "\""));
  for (const char* taken : {R"({"type":"string","maxLength":1000000000})",
                            R"({"type":"string","pattern":"^(aa){60000}$","maxLength":200000})"}) {
    auto long_text = compiler.compile({.kind = Kind::kJsonSchema, .text = taken});
    EXPECT_TRUE(long_text.ok()) << taken << ": " << long_text.error().to_string();
  }
}

// Keys stand in blocks of 8, 64 and so on.
TEST_F(GrammarWorkTest, AnyOfManyPropertiesMayBeLeftOutAndTheirOrderIsKept) {
  constexpr int kCount = 150;
  std::mt19937 random(3);
  GrammarCompiler compiler(testing::toy_vocabulary());
  for (const std::vector<int>& required : std::vector<std::vector<int>>{{}, {0, 37, 149}, {8, 63, 64, 72}}) {
    std::string declared, needed;
    for (int i = 0; i < kCount; ++i) declared += fmt::format(R"({}"p{}":{{"type":"null"}})", i == 0 ? "" : ",", i);
    for (int i : required) needed += fmt::format(R"({}"p{}")", needed.empty() ? "" : ",", i);
    auto grammar = compiler.compile(
        {.kind = Kind::kJsonSchema,
         .text = fmt::format(R"({{"type":"object","properties":{{{}}},"required":[{}]}})", declared, needed)});
    ASSERT_TRUE(grammar.ok()) << grammar.error().to_string();
    auto taken = [&](const std::vector<int>& keys) {
      std::string text;
      for (int key : keys) text += fmt::format(R"({}"p{}":null)", text.empty() ? "" : ",", key);
      return testing::matches(*grammar, "{" + text + "}");
    };
    EXPECT_EQ(taken({}), required.empty());
    for (int round = 0; round < 60; ++round) {
      std::vector<int> keys;
      for (int i = 0; i < kCount; ++i) {
        const bool needs = std::ranges::find(required, i) != required.end();
        if (needs || random() % 100 < (round % 3 == 0 ? 2U : round % 3 == 1 ? 30U : 95U)) keys.push_back(i);
      }
      EXPECT_TRUE(taken(keys)) << ::testing::PrintToString(keys);
      if (keys.size() < 2) continue;
      std::vector<int> wrong = keys;
      const size_t at = random() % (keys.size() - 1);
      std::swap(wrong[at], wrong[at + 1]);
      EXPECT_FALSE(taken(wrong)) << ::testing::PrintToString(wrong);
      wrong = keys;
      wrong.insert(wrong.begin() + static_cast<std::ptrdiff_t>(at), wrong[at]);
      EXPECT_FALSE(taken(wrong)) << ::testing::PrintToString(wrong);
      if (required.empty()) continue;
      std::erase(keys, required[random() % required.size()]);
      EXPECT_FALSE(taken(keys)) << ::testing::PrintToString(keys);
    }
    expect_agreement(*grammar, 1, needed);
  }
}

TEST_F(GrammarWorkTest, AListOfFiveThousandValuesIsTaken) {
  std::string list;
  for (int i = 0; i < 5000; ++i) list += fmt::format("{}\"value-{}-{:x}\"", i == 0 ? "" : ",", i, i * 7919);
  GrammarCompiler compiler(testing::toy_vocabulary());
  auto grammar = compiler.compile({.kind = Kind::kJsonSchema, .text = "{\"enum\":[" + list + "]}"});
  ASSERT_TRUE(grammar.ok()) << grammar.error().to_string();
  EXPECT_TRUE(testing::matches(*grammar, "\"value-2-3dde\""));
  EXPECT_FALSE(testing::matches(*grammar, "\"value-2-3ddf\""));
}

// SIGTERM waited for a compilation that nobody wanted any more.
TEST_F(GrammarWorkTest, OnceStoppedNothingCompiles) {
  GrammarCompiler compiler(testing::toy_vocabulary());
  compiler.stop();
  auto grammar = compiler.compile({.kind = Kind::kJsonObject});
  ASSERT_FALSE(grammar.ok());
  EXPECT_EQ(grammar.error().code, ErrorCode::kUnavailable);
}

TEST_F(GrammarWorkTest, WhatCompilesEndsWhereItIsToldTo) {
  auto vocabulary = testing::toy_vocabulary();
  std::atomic<bool> stop = true;
  auto compile = [&] { return vocabulary->compiler().value()->compile("v_root ::= [a-z]{1,50}", stop); };
  auto automaton = compile();
  ASSERT_FALSE(automaton.ok());
  EXPECT_EQ(automaton.error().code, ErrorCode::kUnavailable);
  stop = false;
  EXPECT_TRUE(compile().ok()) << "what was stopped is not kept";
}

// A time-out of the caller was told as a server that shuts down, and the compilation went on. Now it ends, and is no
// reason to refuse the grammar to the next.
TEST_F(GrammarWorkTest, ACallerThatWaitsNoLongerIsToldSo) {
  const GrammarSpec spec{.kind = Kind::kRegex, .text = "[a-z]{1,50}[a-y]{1,50}"};
  auto vocabulary = wide_vocabulary();
  {
    GrammarCompiler compiler(vocabulary, {.compile_ms = 0});
    auto grammar = compiler.compile(spec);
    ASSERT_FALSE(grammar.ok());
    EXPECT_EQ(grammar.error().code, ErrorCode::kTimeout);
  }
  auto grammar = GrammarCompiler(vocabulary).compile(spec);
  EXPECT_TRUE(grammar.ok()) << grammar.error().to_string();
}

// GRAMMAR-5: who hung up holds no compilation, and takes none from another who waits for the same.
TEST_F(GrammarWorkTest, WhoHungUpWaitsNoLongerAndTakesNothingFromAnother) {
  const GrammarSpec spec{.kind = Kind::kRegex, .text = "[a-z]{1,25}[a-y]{1,25}"};
  GrammarCompiler compiler(wide_vocabulary());
  std::atomic<int> asked = 0;
  std::thread gone([&] {
    const bool ok = compiler.compile(spec, [&] { return ++asked > 100; }).ok();
    if (asked == 0) return;  // it was compiled sooner than anybody could hang up
    EXPECT_FALSE(ok);
    EXPECT_EQ(asked, 1);
  });
  auto grammar = compiler.compile(spec, [] { return true; });
  gone.join();
  EXPECT_TRUE(grammar.ok()) << grammar.error().to_string();
}

}  // namespace
}  // namespace vernier
