#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

using testing::matches;

class JsonSchemaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  }
  Result<std::shared_ptr<const CompiledGrammar>> compile(const std::string& schema) {
    return compiler_.compile({.kind = GrammarSpec::Kind::kJsonSchema, .text = schema});
  }

  GrammarCompiler compiler_{testing::toy_vocabulary()};
};

struct KeywordCase {
  const char* schema;
  std::vector<const char*> valid, invalid;
};

const KeywordCase kKeywordCases[] = {
    {R"({"type":"string"})",
     {R"("")", R"("aé東😀")", R"("\"\\\/\b\f\n\r\t\u00e9")"},
     {"\"\n\"", R"("\x")", R"("\ud800")", R"("\uD83D\uDE00")", "a", "\"\xFF\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"",
      "1"}},
    {R"({"type":"string","minLength":2,"maxLength":3})", {R"("é東")", R"("a\nb")"}, {R"("a")", R"("abcd")"}},
    {R"({"type":"string","pattern":"^a+b$"})", {R"("aab")"}, {R"("aabc")", R"("b")", R"("xab")"}},
    {R"({"type":"string","pattern":"b"})", {R"("abc")", R"("b")"}, {R"("ac")", R"("")"}},
    {R"({"type":"string","pattern":"^[^x]$"})",
     {R"("\"")", R"("\\")", R"("\n")", R"("é")"},
     {R"("x")", R"(""")", "\"\\\""}},
    {R"({"type":"string","pattern":"^a|b$"})", {R"("axx")", R"("xxb")"}, {R"("xax")"}},
    {R"({"type":"string","pattern":"^\\S$"})", {R"("a")"}, {R"(" ")", R"("\n")"}},
    {R"({"type":"string","format":"date"})",
     {R"("2024-02-29")", R"("2023-12-31")"},
     {R"("2023-02-29")", R"("2023-13-01")"}},
    {R"({"type":"string","format":"ipv4"})", {R"("255.0.10.1")"}, {R"("256.0.0.1")", R"("01.2.3.4")"}},
    {R"({"type":"integer"})", {"0", "-5", "123"}, {"1.0", "01", "-", "1e3", "--1", "+1", "-01"}},
    {R"({"type":"integer","minimum":-3,"exclusiveMaximum":12})", {"-3", "0", "11", "9"}, {"-4", "12", "100"}},
    {R"({"type":"integer","minimum":1.5,"maximum":1e2})", {"2", "100"}, {"1", "101"}},
    {R"({"type":"integer","multipleOf":7})", {"0", "7", "-14", "700"}, {"8", "07", "-15"}},
    {R"({"type":"number"})", {"0", "-1.5", "1e10", "2.50E-3"}, {".5", "1.", "01", "1e", "NaN", "Infinity"}},
    {R"({"type":"number","exclusiveMinimum":0,"maximum":1})",
     {"0.1", "1", "0.000001", "1.0"},
     {"0", "0.0", "1.1", "-0.5"}},
    {R"({"type":"number","minimum":-2.5,"maximum":-0.5})", {"-2.5", "-1", "-0.50"}, {"-2.51", "-0.4", "0"}},
    {R"({"type":"boolean"})", {"true", "false"}, {"True", "1"}},
    {R"({"type":"null"})", {"null"}, {"0"}},
    {R"({"type":["string","null"]})", {"null", R"("a")"}, {"1"}},
    {R"({"enum":["a",1,null,{"b":[true]}]})", {R"("a")", "1", "null", R"({"b":[true]})"}, {R"("b")", "2", "{}"}},
    {R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"}},
    {R"({"const":"x\"y"})", {R"("x\"y")"}, {R"("x")"}},
    {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2})",
     {"[1]", "[1, 2]"},
     {"[]", "[1,2,3]", "[\"a\"]", "[1,]"}},
    {R"({"type":"array","maxItems":0})", {"[]", "[ ]"}, {"[1]"}},
    {R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,"minItems":1})",
     {"[1]", R"([1,"a"])"},
     {"[]", R"(["a"])", R"([1,"a",2])"}},
    {R"({"items":[{"type":"integer"}],"additionalItems":{"type":"null"}})",
     {"[]", "[1]", "[1,null,null]"},
     {"[null]", "[1,2]"}},
    {R"({"type":"object"})", {"{}", R"({"a":1,"b":[{}]})"}, {"[]", R"({"a"})", R"({1:2})"}},
    {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"}},"required":["a"],"additionalProperties":false})",
     {R"({"a":1})", R"({"a":1,"b":null})", R"({ "a" : 1 })"},
     {"{}", R"({"b":null})", R"({"a":1,"c":2})", R"({"a":"x"})", R"({"a":1,})", R"({"a":1,"a":2})"}},
    {R"({"type":"object","properties":{"ab":{"type":"integer"},"é":false},"additionalProperties":{"type":"string"}})",
     {"{}", R"({"ab":1,"x":"y"})", R"({"a":"y"})", R"({"abc":"y"})", R"({"":"y"})"},
     {R"({"ab":"y"})", R"({"\u0061b":"y"})", R"({"x":1})", R"({"é":"y"})", R"({"x":"y","ab":"z"})"}},
    {R"({"type":"object","minProperties":1,"maxProperties":2})",
     {R"({"a":1})", R"({"a":1,"b":2})"},
     {"{}", R"({"a":1,"b":2,"c":3})"}},
    {R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", {"1", "null"}, {"true"}},
    {R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", {"1", "\"a\""}, {"null"}},
    {R"({"allOf":[{"type":"integer"}]})", {"1"}, {"null"}},
    {R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"integer"}}})", {"1"}, {"null"}},
    {R"({"$ref":"#/definitions/a~1b","definitions":{"a/b":{"type":"null"}}})", {"null"}, {"1"}},
    {R"({"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"]})",
     {R"({"next":null})", R"({"next":{"next":null}})"},
     {R"({"next":{}})", "{}"}},
    {"true", {"1", "[{}]"}, {"x"}},
    {R"({"minimum":3})", {"3", "4.5"}, {"2"}},
};

// GRAMMAR-1 A constraint is never weakened. What each keyword takes and refuses, by instance.
TEST_F(JsonSchemaTest, EachKeywordIsEnforced) {
  for (const KeywordCase& c : kKeywordCases) {
    auto grammar = compile(c.schema);
    ASSERT_TRUE(grammar.ok()) << c.schema << ": " << grammar.error().to_string();
    for (const char* text : c.valid) EXPECT_TRUE(matches(*grammar, text)) << c.schema << " takes " << text;
    for (const char* text : c.invalid) EXPECT_FALSE(matches(*grammar, text)) << c.schema << " refuses " << text;
  }
}

struct RefusedSchema {
  const char* schema;
  const char* where;
};

// H20 A constraint that cannot be compiled is refused with its JSON pointer, never dropped.
TEST_F(JsonSchemaTest, WhatCannotBeEnforcedIsRefusedAtItsPlace) {
  const RefusedSchema cases[] = {
      {R"({"type":"objekt"})", "#/type"},
      {R"({"$ref":"#/nowhere"})", "#/$ref"},
      {R"({"$ref":"http://example.com/s.json"})", "#/$ref"},
      {R"({"not":{}})", "#/not"},
      {"false", "#"},
      {R"({"properties":{"a/b":{"type":"string","if":{}}}})", "#/properties/a~1b/if"},
      {R"({"then":{}})", "#/then"},
      {R"({"else":{}})", "#/else"},
      {R"({"type":"object","dependentRequired":{}})", "#/dependentRequired"},
      {R"({"type":"object","dependentSchemas":{}})", "#/dependentSchemas"},
      {R"({"type":"object","dependencies":{}})", "#/dependencies"},
      {R"({"type":"object","minProperties":2})", "#/minProperties"},
      {R"({"type":"object","properties":{"a":{},"b":{}},"maxProperties":1})", "#/maxProperties"},
      {R"({"type":"object","properties":{"a":false},"required":["a"]})", "#/properties/a"},
      {R"({"type":"array","uniqueItems":true})", "#/uniqueItems"},
      {R"({"type":"array","contains":{}})", "#/contains"},
      {R"({"type":"array","minItems":3,"maxItems":2})", "#/minItems"},
      {R"({"type":"array","minItems":-1})", "#/minItems"},
      {R"({"type":"number","multipleOf":0.1})", "#/multipleOf"},
      {R"({"type":"integer","multipleOf":3,"minimum":1})", "#/multipleOf"},
      {R"({"type":"integer","minimum":2,"maximum":1})", "#"},
      {R"({"type":"integer","minimum":"2"})", "#/minimum"},
      {R"({"type":"number","exclusiveMinimum":true})", "#/exclusiveMinimum"},
      {R"({"type":"string","format":"iri"})", "#/format"},
      {R"({"type":"string","pattern":"(?=a)b"})", "#/pattern"},
      {R"({"type":"string","pattern":"(a)\\1"})", "#/pattern"},
      {R"({"type":"string","pattern":"\\bword"})", "#/pattern"},
      {R"({"enum":[]})", "#/enum"},
      {R"({"type":"string","enum":[1]})", "#/enum"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "#/oneOf/1"},
      {R"({"oneOf":[{"type":"object"},{"type":"object"}]})", "#/oneOf/1"},
      {R"({"$ref":"#"})", "#"},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", "#"},
      {R"({"type":"string","nullable":true})", "#/nullable"},
      {R"({"minimun":3})", "#/minimun"},
      {R"({"$defs":{"a":{"$dynamicRef":"#"}},"$ref":"#/$defs/a"})", "#/$defs/a/$dynamicRef"},
      {R"({"type":"object","type":"string"})", "#"},
      {"{", "#"},
      {"[]", "#"},
  };
  for (const RefusedSchema& c : cases) {
    auto grammar = compile(c.schema);
    ASSERT_FALSE(grammar.ok()) << c.schema;
    EXPECT_EQ(grammar.error().where, c.where) << c.schema << ": " << grammar.error().message;
    EXPECT_EQ(grammar.error().code, ErrorCode::kInvalidArgument) << c.schema;
  }
}

// H19 No answer is endless space: at most eight characters of it in a row.
TEST_F(JsonSchemaTest, SpaceInARowIsBounded) {
  auto grammar = compile(R"({"type":"object","properties":{"a":{"type":"array"}},"required":["a"]})").value();
  GrammarMatcher matcher = GrammarMatcher::make(grammar).value();
  int run = 0;
  int longest = 0;
  for (int steps = 0; steps < 2000 && !matcher.may_end(); ++steps) {
    auto mask = testing::mask_of(matcher);
    if (testing::allows(mask, ' ')) {
      ASSERT_TRUE(matcher.accept(' '));
      longest = std::max(longest, ++run);
      continue;
    }
    run = 0;
    for (int c : {']', '}', '"', ':', 'a', '[', '{'}) {
      if (testing::allows(mask, c)) {
        ASSERT_TRUE(matcher.accept(c));
        break;
      }
    }
  }
  EXPECT_TRUE(matcher.may_end());
  EXPECT_EQ(longest, 1);
}

// H17 Counted repetition is not expanded: large lengths, three deep, and many properties compile in time.
TEST_F(JsonSchemaTest, LargeCountsAndManyPropertiesCompileInTime) {
  for (const char* length : {"2000", "1000000"}) {
    std::string text = R"({"type":"string","maxLength":)" + std::string(length) + "}";
    std::string nested =
        R"({"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"array","items":)" + text +
        R"(,"maxItems":1000}}}}})";
    const auto start = std::chrono::steady_clock::now();
    auto grammar = compile(nested);
    ASSERT_TRUE(grammar.ok()) << grammar.error().to_string();
    EXPECT_TRUE(matches(*grammar, R"({"a":{"b":["x","y"]}})"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5)) << length;
    EXPECT_LT((*grammar)->bytes(), 100U << 20);
  }
}

}  // namespace
}  // namespace vernier
