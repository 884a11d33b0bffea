#include <gtest/gtest.h>

#include "testing/fuzzer.h"
#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

using Kind = GrammarSpec::Kind;
using testing::fuzz;
using testing::FuzzCase;

/// Compiles, and walks a few tokens; a refusal says why.
bool compiles(GrammarCompiler& compiler, const GrammarSpec& spec) {
  auto grammar = compiler.compile(spec);
  if (!grammar.ok()) {
    EXPECT_FALSE(grammar.error().message.empty());
    return false;
  }
  GrammarMatcher matcher = GrammarMatcher::make(*grammar).value();
  std::vector<uint32_t> mask(compiler.vocabulary().mask_words());
  for (int step = 0; step < 20 && !matcher.terminated(); ++step) {
    EXPECT_TRUE(matcher.fill_mask(mask).ok());
    int32_t token = 0;
    while (token < compiler.vocabulary().logits() && !testing::allows(mask, token)) ++token;
    if (token == compiler.vocabulary().logits()) break;
    EXPECT_TRUE(matcher.accept(token));
  }
  return true;
}

void fuzz_kind(const FuzzCase& fuzz_case, Kind kind) {
  if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  // A small bound: the sizes are not what is sought here.
  GrammarCompiler compiler(testing::toy_vocabulary(), {.text_bytes = 20000, .rules = 3000});
  fuzz(fuzz_case, [&](const std::string& input) { return compiles(compiler, {.kind = kind, .text = input}); });
}

TEST(FuzzGrammar, NoSchemaEndsTheProcess) {
  fuzz_kind(
      {"json_schema",
       {R"({"type":"object","properties":{"a":{"type":"string","pattern":"^a+$"},"b":{"$ref":"#/$defs/x"}},"required":["a"],)"
        R"("additionalProperties":false,"$defs":{"x":{"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#"},"minItems":1}]}}})",
        R"({"type":["integer","number"],"minimum":-3,"exclusiveMaximum":1e3,"multipleOf":1})",
        R"({"oneOf":[{"const":1},{"enum":["a",[{"b":1}]]},{"type":"object","minProperties":1,"maxProperties":9}]})",
        R"({"type":"string","minLength":2,"maxLength":2000,"format":"date-time"})",
        R"({"prefixItems":[{},true],"items":false,"maxItems":2,"uniqueItems":false})"},
       {"null", "-1", "1e300", "[]", "{}", "true", "false", "\"$ref\":\"#\"", "\"#/$defs/x\"", "\"\\ud800\"",
        "18446744073709551616", "\"type\":\"array\",", "\"items\":", "\"required\":[\"a\"],", "[[[[", "~1", "%25"}},
      Kind::kJsonSchema);
}

TEST(FuzzGrammar, NoRegularExpressionEndsTheProcess) {
  fuzz_kind({"regex",
             {"^(foo|ba[rz])+$", "[^a-z\\s]{2,5}\\d?", "(?:a|(?<n>b))\\/\\.\\u{1F600}", "a*?b+?c??", "((a{3}){4}){5}"},
             {"(?=", "\\1", "{1000}", "[z-a]", "\\p{L}", "((((", "))))", "|||", "^", "$", "[^", "\\ud83d\\ude00", "é"}},
            Kind::kRegex);
}

TEST(FuzzGrammar, NoGbnfEndsTheProcess) {
  fuzz_kind(
      {"gbnf",
       {"root ::= expr (\"=\" expr)*\nexpr ::= term ([-+*/] term)*\nterm ::= num | \"(\" expr \")\"\nnum ::= [0-9]+\n",
        "# json\nroot ::= \"[\" item{1,3} \"]\"\nitem ::= \"\\\"\" [^\"\\\\\\x00-\\x1F]* \"\\\"\" ws\nws ::= [ "
        "\\n]{0,8}\n"},
       {"root ::=", "::=", "Token(1)", "{1,2}", "{100000}", "*", "[^]", "\\x", "\\U0010FFFF", "|", "( )", "a ::= a\n",
        "\"\"", "(=\"a\")"}},
      Kind::kEbnf);
}

}  // namespace
}  // namespace vernier
