#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

using testing::matches;

struct SchemaCase {
  const char* schema;
  std::vector<const char*> valid, invalid;
};

void expect_enforced(const std::vector<SchemaCase>& cases) {
  if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  GrammarCompiler compiler(testing::toy_vocabulary());
  for (const SchemaCase& c : cases) {
    auto grammar = compiler.compile({.kind = GrammarSpec::Kind::kJsonSchema, .text = c.schema});
    ASSERT_TRUE(grammar.ok()) << c.schema << ": " << grammar.error().to_string();
    for (const char* text : c.valid) EXPECT_TRUE(matches(*grammar, text)) << c.schema << " takes " << text;
    for (const char* text : c.invalid) EXPECT_FALSE(matches(*grammar, text)) << c.schema << " refuses " << text;
  }
}

// GRAMMAR-1 for schemas that hold together: what each of them refuses the whole refuses.
TEST(JoinedSchemas, AllOfHoldsEveryMember) {
  expect_enforced({
      {R"({"allOf":[{"type":"string"},{"maxLength":2}]})", {R"("ab")"}, {R"("abc")", "1"}},
      {R"({"allOf":[{"type":["integer","string"]},{"type":["number","null"]},{"minimum":3},{"minimum":5}]})",
       {"5"},
       {"4", "null", R"("a")", "5.5"}},
      {R"({"allOf":[{"enum":[1,2,3]},{"enum":[3,2,5]}]})", {"2", "3"}, {"1", "5"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},)"
       R"({"properties":{"b":{"type":"integer"},"a":{"maxLength":1}},"required":["b"]}]})",
       {R"({"a":"x","b":1})"},
       {R"({"a":"x"})", R"({"b":1})", R"({"a":"xy","b":1})"}},
      {R"({"allOf":[{"properties":{"a":{"type":"string"},"c":{}},"additionalProperties":{"type":"integer"}},)"
       R"({"properties":{"b":{"minimum":3},"a":{}},"required":["b"],"additionalProperties":false}]})",
       {R"({"a":"x","b":3})", R"({"b":4})"},
       {R"({"b":2})", R"({"b":3.5})", R"({"b":3,"c":1})", R"({"a":1,"b":3})"}},
      {R"({"allOf":[{"type":"array","items":{"type":"integer"}},{"prefixItems":[{"minimum":5}],"maxItems":2}]})",
       {"[]", "[5]", "[5,1]"},
       {"[4]", "[5,1,1]", "[5,null]"}},
      {R"({"allOf":[{"pattern":"^a"},{"pattern":"b$"}],"type":"string"})",
       {R"("ab")", R"("acb")"},
       {R"("a")", R"("b")"}},
      {R"({"allOf":[{"$ref":"#/$defs/base"}],"properties":{"b":{"type":"null"}},"required":["b"],)"
       R"("unevaluatedProperties":false,"$defs":{"base":{"type":"object","properties":{"a":{"type":"integer"}}}}})",
       {R"({"a":1,"b":null})", R"({"b":null})"},
       {R"({"a":1})", R"({"b":null,"c":1})"}},
  });
}

TEST(JoinedSchemas, WhatStandsBesideAReferenceOrAChoiceHolds) {
  expect_enforced({
      {R"({"$ref":"#/$defs/s","maxLength":2,"description":"d","$defs":{"s":{"type":"string","minLength":1}}})",
       {R"("ab")"},
       {R"("")", R"("abc")"}},
      {R"({"anyOf":[{"type":"string"},{"type":"integer"}],"maxLength":2,"minimum":3})",
       {R"("ab")", "3"},
       {R"("abc")", "2"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"}},"additionalProperties":false,)"
       R"("anyOf":[{"required":["a"]},{"required":["b"]}]})",
       {R"({"a":1})", R"({"b":null})", R"({"a":1,"b":null})"},
       {"{}"}},
      {R"({"type":"string","anyOf":[{"type":"null"},{"maxLength":1}]})", {R"("a")"}, {"null", R"("ab")"}},
      {R"({"allOf":[{"anyOf":[{"const":1},{"const":2}]},{"anyOf":[{"const":2},{"const":3}]}]})", {"2"}, {"1", "3"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string"}],"minimum":2})", {"2", R"("a")"}, {"1"}},
      {R"({"enum":["a","bb",1,7],"maxLength":1,"minimum":5})", {R"("a")", "7"}, {R"("bb")", "1"}},
      {R"({"type":"object","properties":{"next":{"allOf":[{"$ref":"#"},{"maxProperties":2}]},"v":{}},"required":["v"]})",
       {R"({"v":1})", R"({"next":{"v":2},"v":1})"},
       {R"({"next":{},"v":1})"}},
      {R"({"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"discriminator":{"propertyName":"k"},"$defs":{)"
       R"("a":{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},)"
       R"("b":{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}}})",
       {R"({"k":"a"})", R"({"k":"b"})"},
       {R"({"k":"c"})"}},
  });
}

// A tag with a default is not required, so a value without it fits every branch: none is written.
TEST(JoinedSchemas, AnOptionalTagTellsBranchesOfOneOfApart) {
  expect_enforced({
      {R"({"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{)"
       R"("a":{"type":"object","properties":{"k":{"const":"a","default":"a"},"v":{"type":"integer"}}},)"
       R"("b":{"type":"object","properties":{"k":{"enum":["b","c"]},"v":{"type":"string"}}}}})",
       {R"({"k":"a"})", R"({"k":"c","v":"x"})"},
       {"{}", R"({"v":1})", R"({"k":"a","v":"x"})"}},
  });
}

TEST(JoinedSchemas, TextsSatisfyPatternFormatAndLengthTogether) {
  expect_enforced({
      {R"({"type":"string","pattern":"a*","maxLength":3})", {R"("")", R"("aaa")", R"("xyz")"}, {R"("aaaa")"}},
      {R"({"type":"string","pattern":"^a+$","minLength":2})", {R"("aa")", R"("aaaaa")"}, {R"("a")", R"("ab")"}},
      {R"({"type":"string","pattern":"^2","format":"date"})", {R"("2024-02-29")"}, {R"("1999-01-01")", R"("2")"}},
      {R"({"type":"string","pattern":"^[^x]+$","maxLength":2})", {R"("\"\n")", R"("é")"}, {R"("x")", R"("abc")"}},
      {R"({"type":"string","pattern":"(ab){2,3}","maxLength":5})",
       {R"("abab")", R"("xabab")"},
       {R"("ababab")", R"("ab")"}},
  });
}

TEST(JoinedSchemas, KeysFollowPatternsAndNames) {
  expect_enforced({
      {R"({"type":"object","patternProperties":{"^n_":{"type":"integer"},"^s_":{"type":"string"}},"additionalProperties":false})",
       {"{}", R"({"n_a":1,"s_":"x"})"},
       {R"({"n_a":"x"})", R"({"a":1})", R"({"s_":1})"}},
      {R"({"type":"object","properties":{"n_x":{"maximum":3},"q":{}},"patternProperties":{"^n_":{"type":"integer"}}})",
       {R"({"n_x":2,"n_y":5})", R"({"q":1})"},
       {R"({"n_x":5})", R"({"n_x":2.5})", R"({"n_x":1,"n_x":7})", R"({"z":1})"}},
      {R"({"patternProperties":{"a":{"type":"integer"},"b":{"type":"string"}},"additionalProperties":{"type":"null"}})",
       {R"({"a":1,"b":"x","c":null})"},
       {R"({"ab":1})", R"({"ab":"x"})", R"({"c":1})", R"({"a":null})"}},
      {R"({"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"a":1})"},
       {R"({"a":"x"})"}},
      {R"({"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"integer"},"required":["b"]})",
       {R"({"b":1})", R"({"a":1,"b":2})"},
       {R"({"a":1})", R"({"c":1,"b":1})", R"({"b":"x"})"}},
      {R"({"type":"object","propertyNames":{"pattern":"^[a-z]+$","maxLength":3},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"abc":1})"},
       {R"({"abcd":1})", R"({"A":1})", R"({"a":null})"}},
      {R"({"type":"object","properties":{"a":{"type":"string"}},"propertyNames":{"maxLength":1},"additionalProperties":{"type":"null"}})",
       {R"({"a":"x","b":null})"},
       {R"({"a":null})", R"({"ab":null})", R"({"a":"x","a":null})"}},
      {R"({"type":"object","properties":{"a":{}},"required":["b"]})",
       {R"({"b":1})", R"({"a":1,"b":2})"},
       {R"({"a":1})"}},
  });
}

TEST(JoinedSchemas, ListedItemsAreUnique) {
  expect_enforced({
      {R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true})",
       {"[]", R"(["a"])", R"(["a","c"])", R"(["a","b","c"])"},
       {R"(["a","a"])", R"(["d"])", R"(["a","b","c","c"])"}},
      {R"({"type":"array","items":{"$ref":"#/$defs/e"},"uniqueItems":true,"minItems":2,"maxItems":2,"$defs":{"e":{"enum":[1,2,3,1]}}})",
       {"[1,2]", "[1,3]", "[2, 3]"},
       {"[1]", "[]", "[1,1]", "[1,2,3]"}},
      {R"({"type":"array","items":{"type":"boolean"},"uniqueItems":true})", {"[false,true]", "[]"}, {"[true,true]"}},
  });
}

struct RefusedSchema {
  const char* schema;
  const char* where;
};

// H20 for schemas that hold together: the place is the one that the caller wrote.
TEST(JoinedSchemas, WhatCannotBeJoinedIsRefusedAtItsPlace) {
  if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  GrammarCompiler compiler(testing::toy_vocabulary());
  const RefusedSchema cases[] = {
      {R"({"type":"object","properties":{"a":{}},"required":["b"],"additionalProperties":false})", "#/required"},
      {R"({"type":"object","patternProperties":{"(?!a)b":{}}})", "#/patternProperties/(?!a)b"},
      {R"({"type":"object","patternProperties":{"a":{"not":{}}}})", "#/patternProperties/a/not"},
      {R"({"type":"object","propertyNames":{"type":"integer"}})", "#/propertyNames"},
      {R"({"type":"object","propertyNames":{"enum":["a"]},"required":["b"]})", "#/propertyNames"},
      {R"({"type":"object","minProperties":1,"additionalProperties":{"$ref":"#"}})", "#"},
      {R"({"allOf":[{"type":"string"},{"type":"integer"}]})", "#"},
      {R"({"allOf":[{"enum":[1]},{"const":2}]})", "#"},
      {R"({"allOf":[{"$ref":"#"},{"type":"object"}]})", "#/allOf/0/$ref"},
      {R"({"allOf":[{"format":"date"},{"format":"uuid"}]})", "#/allOf/1/format"},
      {R"({"allOf":[{"type":"string"},{"not":{}}]})", "#/allOf/1/not"},
      {R"({"properties":{"a":{"allOf":[{"type":"array"},{"contains":{}}]}}})", "#/properties/a/allOf/1/contains"},
      {R"({"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"a":{"maxLength":3,"if":{}}}}]})",
       "#/properties/a/allOf/1/if"},
      {R"({"type":"string","pattern":"^a$","minLength":2})", "#"},
      {R"({"type":"string","pattern":"a.{900}b","maxLength":990})", "#"},
      {R"({"$ref":"#/$merged/0","allOf":[{"type":"string"},{"maxLength":2}]})", "#/$ref"},
      {R"({"pattern":["a","b"]})", "#/pattern"},
  };
  for (const RefusedSchema& c : cases) {
    auto grammar = compiler.compile({.kind = GrammarSpec::Kind::kJsonSchema, .text = c.schema});
    ASSERT_FALSE(grammar.ok()) << c.schema;
    EXPECT_EQ(grammar.error().where, c.where) << c.schema << ": " << grammar.error().message;
    EXPECT_EQ(grammar.error().code, ErrorCode::kInvalidArgument) << c.schema;
  }
}

}  // namespace
}  // namespace vernier
