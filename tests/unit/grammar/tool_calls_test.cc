#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include <string>
#include <vector>

#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

using Kind = GrammarSpec::Kind;

struct DialectCase {
  OutputDialect dialect;
  std::vector<std::string> markers;
  std::string end;  // not empty: the end token that the grammar spells
  std::string one, two, other,
      bad;  // calls: of `weather`, of weather twice, of `clock`, of weather with a wrong argument
};

std::vector<DialectCase> tagged_dialects() {
  const std::string oslo = R"({"city": "Oslo"})";
  auto json = [](const std::string& name, const std::string& key, const std::string& arguments) {
    return R"({"name": ")" + name + R"(", ")" + key + "\": " + arguments + "}";
  };
  auto tagged = [&](const std::string& name, const std::string& arguments) {
    return "<tool_call>\n" + json(name, "arguments", arguments) + "\n</tool_call>";
  };
  auto xml = [](const std::string& name, const std::string& body) {
    return "<tool_call>\n<function=" + name + ">\n" + body + "</function>\n</tool_call>";
  };
  const std::string city = "<parameter=city>\nOslo\n</parameter>\n";
  auto deep = [](const std::string& name, const std::string& arguments) {
    return "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + name + "\n```json\n" + arguments +
           "\n```<｜tool▁call▁end｜>";
  };
  auto deep_all = [](const std::string& calls) { return "<｜tool▁calls▁begin｜>" + calls + "<｜tool▁calls▁end｜>"; };
  std::vector<DialectCase> cases;
  for (OutputDialect dialect : {OutputDialect::kHermes, OutputDialect::kQwen3}) {
    cases.push_back({dialect,
                     {"<think>", "</think>", "<tool_call>", "</tool_call>"},
                     "",
                     tagged("weather", oslo),
                     tagged("weather", oslo) + "\n" + tagged("weather", oslo),
                     tagged("clock", "{}"),
                     tagged("weather", R"({"city": 1})")});
  }
  cases.push_back({OutputDialect::kQwen3Coder,
                   {"<think>", "</think>", "<tool_call>", "</tool_call>"},
                   "",
                   xml("weather", city),
                   xml("weather", city) + "\n" + xml("weather", city + "<parameter=days>\n3\n</parameter>\n"),
                   xml("clock", ""),
                   xml("weather", "<parameter=days>\n3\n</parameter>\n")});
  cases.push_back({OutputDialect::kLlama3,
                   {"<|python_tag|>"},
                   "",
                   json("weather", "parameters", oslo),
                   json("weather", "parameters", oslo) + "; " + json("weather", "parameters", oslo),
                   json("clock", "parameters", "{}"),
                   json("weather", "parameters", R"({"city": 1})")});
  cases.push_back({OutputDialect::kDeepSeekV3,
                   {"<think>", "</think>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                    "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
                   "",
                   deep_all(deep("weather", oslo)),
                   deep_all(deep("weather", oslo) + "\n" + deep("weather", oslo)),
                   deep_all(deep("clock", "{}")),
                   deep_all(deep("weather", R"({"city": 1})"))});
  return cases;
}

std::vector<DialectCase> dialects() {
  const std::string oslo = R"({"city": "Oslo"})";
  auto json = [](const std::string& name, const std::string& key, const std::string& arguments) {
    return R"({"name": ")" + name + R"(", ")" + key + "\": " + arguments + "}";
  };
  auto harmony = [](const std::string& name, const std::string& arguments) {
    return "<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>" + arguments + "<|call|>";
  };
  std::vector<DialectCase> cases = tagged_dialects();
  auto list = [](const std::string& calls) { return "[TOOL_CALLS][" + calls + "]"; };
  cases.push_back({OutputDialect::kMistral,
                   {"[TOOL_CALLS]"},
                   "",
                   list(json("weather", "arguments", oslo)),
                   list(json("weather", "arguments", oslo) + ", " + json("weather", "arguments", oslo)),
                   list(json("clock", "arguments", "{}")),
                   list(json("weather", "arguments", R"({"city": 1})"))});
  cases.push_back({OutputDialect::kHarmony,
                   {"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>"},
                   "<|call|>",
                   harmony("weather", oslo),
                   "",
                   harmony("clock", "{}"),
                   harmony("weather", R"({"city": 1})")});
  return cases;
}

ToolCalls tools(ToolChoice choice, bool parallel) {
  return {
      .functions = {{"weather", R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},
                                      "required":["city"],"additionalProperties":false})"},
                    {"clock", R"({"type":"object","properties":{},"additionalProperties":false})"}},
      .choice = choice,
      .named = "weather",
      .parallel = parallel};
}

/// Takes a text with its markers as single tokens where the vocabulary has them. -1: all of it, else the byte refused.
int take(GrammarMatcher& matcher, const GrammarVocabulary& vocabulary, const DialectCase& c, std::string_view text) {
  std::vector<std::string> markers = c.markers;
  markers.insert(markers.end(), {"<|call|>", "<|return|>"});
  for (size_t at = 0; at < text.size();) {
    int32_t token = static_cast<uint8_t>(text[at]);
    size_t bytes = 1;
    for (const std::string& marker : markers) {
      auto id = vocabulary.find_marker(marker);
      if (id && text.substr(at).starts_with(marker)) token = *id, bytes = marker.size();
    }
    if (!matcher.accept(token)) return static_cast<int>(at);
    at += bytes;
  }
  return -1;
}

class ToolCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  }

  /// Runs `check` for each dialect, with markers as tokens and (but for harmony, whose end token is one) as text.
  void for_each(const std::function<void(const DialectCase&, bool tokens)>& check) {
    for (const DialectCase& c : dialects()) {
      for (bool tokens : {true, false}) {
        if (!tokens && c.dialect == OutputDialect::kHarmony) continue;
        SCOPED_TRACE(fmt::format("dialect {} tokens {}", static_cast<int>(c.dialect), tokens));
        vocabulary_ = testing::toy_vocabulary(tokens ? c.markers : std::vector<std::string>(),
                                              {"<end>", "<|call|>", "<|return|>"});
        check(c, tokens);
      }
    }
  }

  /// Whether the text is a whole answer.
  bool is_answer(const DialectCase& c, const ToolCalls& tools, const std::string& text,
                 ReasoningPrefix reasoning = ReasoningPrefix::kNone) {
    GrammarCompiler compiler(vocabulary_);
    auto grammar =
        compiler.compile({.kind = Kind::kToolCalls, .tools = tools, .dialect = c.dialect, .reasoning = reasoning});
    EXPECT_TRUE(grammar.ok()) << grammar.error().to_string();
    GrammarMatcher matcher = GrammarMatcher::make(*grammar).value();
    return take(matcher, *vocabulary_, c, text) < 0 && (matcher.may_end() || matcher.terminated());
  }

  std::shared_ptr<const GrammarVocabulary> vocabulary_;
};

// F101, Q20 `required` is at least one call and no text; a named function is that one.
TEST_F(ToolCallsTest, RequiredAndNamedCallsAreEnforced) {
  for_each([&](const DialectCase& c, bool) {
    EXPECT_TRUE(is_answer(c, tools(ToolChoice::kRequired, true), c.one));
    EXPECT_TRUE(is_answer(c, tools(ToolChoice::kRequired, true), c.other));
    EXPECT_FALSE(is_answer(c, tools(ToolChoice::kRequired, true), c.bad));
    EXPECT_FALSE(is_answer(c, tools(ToolChoice::kRequired, true), "Hello"));
    EXPECT_FALSE(is_answer(c, tools(ToolChoice::kRequired, true), ""));
    EXPECT_TRUE(is_answer(c, tools(ToolChoice::kNamed, true), c.one));
    EXPECT_FALSE(is_answer(c, tools(ToolChoice::kNamed, true), c.other));
  });
}

// Q21 parallel_tool_calls false: at most one call, by grammar.
TEST_F(ToolCallsTest, WithoutParallelThereIsOneCall) {
  for_each([&](const DialectCase& c, bool) {
    for (ToolChoice choice : {ToolChoice::kRequired, ToolChoice::kNamed, ToolChoice::kAuto}) {
      EXPECT_TRUE(is_answer(c, tools(choice, false), c.one));
      if (c.two.empty()) continue;
      EXPECT_TRUE(is_answer(c, tools(choice, true), c.two));
      EXPECT_FALSE(is_answer(c, tools(choice, false), c.two));
    }
  });
}

// F102 Under `auto` text is free, and a call is held to its schema from its begin marker on.
TEST_F(ToolCallsTest, AutoConstrainsCallsOnly) {
  for_each([&](const DialectCase& c, bool) {
    const ToolCalls free = tools(ToolChoice::kAuto, true);
    const bool harmony = c.dialect == OutputDialect::kHarmony;
    const std::string text =
        harmony ? "<|channel|>final<|message|>a {\"b\": [1, <tool<|return|>" : "a {\"b\": [1, <tool [TOOL";
    EXPECT_TRUE(is_answer(c, free, text));
    EXPECT_TRUE(is_answer(c, free, c.one));
    EXPECT_FALSE(is_answer(c, free, c.bad));
    if (harmony) {
      EXPECT_TRUE(is_answer(c, free, "<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant" + c.one));
    } else {
      const std::string begin = c.dialect == OutputDialect::kLlama3 ? "<|python_tag|>" : "";
      EXPECT_TRUE(is_answer(c, free, "Let me look." + begin + c.one));
      EXPECT_FALSE(is_answer(c, free, "Let me look." + begin + c.bad));
      EXPECT_TRUE(is_answer(c, free, ""));
    }
    ToolCalls loose = free;
    for (GrammarFunction& function : loose.functions) function.strict = false;
    EXPECT_TRUE(is_answer(c, loose, c.bad)) << "without strict any JSON object";
  });
}

// F099 Reasoning may stand before, and is not constrained.
TEST_F(ToolCallsTest, ReasoningStandsBefore) {
  for_each([&](const DialectCase& c, bool tokens) {
    if (tokens && std::ranges::find(c.markers, "<think>") == c.markers.end() && c.dialect != OutputDialect::kHarmony)
      return;
    const ToolCalls required = tools(ToolChoice::kRequired, true);
    const bool harmony = c.dialect == OutputDialect::kHarmony;
    const std::string open = harmony ? "Hm {\".<|end|><|start|>assistant" : "Hm {\".</think>\n\n";
    const std::string whole = (harmony ? "<|channel|>analysis<|message|>" : "<think>") + open;
    EXPECT_TRUE(is_answer(c, required, open + c.one, ReasoningPrefix::kOpen));
    EXPECT_FALSE(is_answer(c, required, open + c.bad, ReasoningPrefix::kOpen));
    EXPECT_TRUE(is_answer(c, required, whole + c.one, ReasoningPrefix::kOptional));
    EXPECT_TRUE(is_answer(c, required, c.one, ReasoningPrefix::kOptional));
    EXPECT_FALSE(is_answer(c, required, whole + c.one, ReasoningPrefix::kNone));
    EXPECT_FALSE(is_answer(c, required, open, ReasoningPrefix::kOpen));
  });
}

// GRAMMAR-3 A marker token that the grammar names elsewhere is no part of a text that stands bare between tags.
TEST_F(ToolCallsTest, ABareParameterHoldsNoMarkerToken) {
  for_each([&](const DialectCase& c, bool tokens) {
    if (c.dialect != OutputDialect::kQwen3Coder) return;
    std::string text = c.one;
    text.insert(text.find("Oslo"), "</tool_call>");
    EXPECT_EQ(is_answer(c, tools(ToolChoice::kRequired, true), text), !tokens);
  });
}

// H10 A response schema is enforced inside harmony's final message, and then only <|return|> follows.
TEST_F(ToolCallsTest, AResponseSchemaInHarmony) {
  DialectCase c = dialects().back();
  vocabulary_ = testing::toy_vocabulary(c.markers, {"<|call|>", "<|return|>"});
  GrammarCompiler compiler(vocabulary_);
  auto grammar = compiler
                     .compile({.kind = Kind::kJsonSchema,
                               .text = R"({"type":"integer"})",
                               .dialect = OutputDialect::kHarmony,
                               .reasoning = ReasoningPrefix::kOptional})
                     .value();
  auto is_answer = [&](const std::string& text) {
    GrammarMatcher matcher = GrammarMatcher::make(grammar).value();
    return take(matcher, *vocabulary_, c, text) < 0 && matcher.terminated();
  };
  EXPECT_TRUE(is_answer("<|channel|>final<|message|>12<|return|>"));
  EXPECT_TRUE(
      is_answer("<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>12<|return|>"));
  EXPECT_FALSE(is_answer("<|channel|>final<|message|>a<|return|>"));
  EXPECT_FALSE(is_answer("<|channel|>final<|message|>12<|call|>"));
  EXPECT_FALSE(is_answer("<|channel|>commentary<|message|>12<|return|>"));
}

TEST_F(ToolCallsTest, WhatCannotBeCalledIsRefusedAtItsPlace) {
  vocabulary_ = testing::toy_vocabulary();
  GrammarCompiler compiler(vocabulary_);
  auto refused = [&](ToolCalls tools, OutputDialect dialect = OutputDialect::kHermes) {
    auto grammar = compiler.compile({.kind = Kind::kToolCalls, .tools = std::move(tools), .dialect = dialect});
    EXPECT_FALSE(grammar.ok());
    return grammar.ok() ? std::string() : grammar.error().where;
  };
  EXPECT_EQ(refused({.functions = {{"f", R"({"type":"object","properties":{"a":{"not":{}}}})"}}}),
            "#/tools/0/function/parameters/properties/a/not");
  EXPECT_EQ(refused({.functions = {{"f", R"({"type":"string"})"}}}), "#/tools/0/function/parameters");
  EXPECT_EQ(refused({.functions = {{"f", ""}, {"a\"b", ""}}}), "#/tools/1/function/name");
  EXPECT_EQ(refused({.functions = {{"f", R"({"type":"object","properties":{"a":{"type":"string","maxLength":3}}})"}}},
                    OutputDialect::kQwen3Coder),
            "#/tools/0/function/parameters/properties/a");
  refused({});
  refused({.functions = {{"f", ""}}, .choice = ToolChoice::kNamed, .named = "g"});
  refused({.functions = {{"f", ""}}}, OutputDialect::kPlain);
}

}  // namespace
}  // namespace vernier
