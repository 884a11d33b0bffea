#include "text/jinja_template.h"

#include <gtest/gtest.h>

#include "unit/jinja/golden_outcome.h"

namespace vernier {
namespace {

using Json = nlohmann::ordered_json;

Result<Rendered> render(std::string_view source, const Json& context = Json::object()) {
  TRY_BIND(const JinjaTemplate parsed, JinjaTemplate::parse(source));
  return parsed.render(context, false, kGoldenNow);
}

std::string text_of(std::string_view source, const Json& context = Json::object()) {
  Result<Rendered> result = render(source, context);
  return result.ok() ? result->text : "error: " + result.error().to_string();
}

// TEMPLATE-1: what jinja2 renders in the sandbox of transformers.
TEST(JinjaTemplate, EqualsJinja2OnEveryGoldenExpression) {
  const std::vector<Json> goldens = read_json_lines("jinja.jsonl");
  ASSERT_EQ(goldens.size(), 255u);
  for (const Json& golden : goldens) {
    const std::string source = golden["template"].get<std::string>();
    EXPECT_EQ(outcome_of(render(source, golden["context"])), expected_outcome(golden)) << source;
  }
}

TEST(JinjaTemplate, AnErrorSaysWhereAndWhat) {
  const Result<Rendered> failed = render("a\nb\n{{ 1 + 'x' }}");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().where, "template, line 3");
  EXPECT_EQ(failed.error().message, "unsupported operand type(s) for +: 'int' and 'str'");
  const Result<Rendered> broken = render("a\n{% for x in y %}\n{% endif %}");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().where, "template, line 3");
  EXPECT_NE(broken.error().message.find("'endfor'"), std::string::npos) << broken.error().message;
}

TEST(JinjaTemplate, RaiseExceptionIsTheTemplatesOwnMessage) {
  const Result<Rendered> raised = render("{{ raise_exception('no ' ~ 1) }}");
  ASSERT_FALSE(raised.ok());
  EXPECT_EQ(raised.error().where, kRaisedByTemplate);
  EXPECT_EQ(raised.error().message, "no 1");
}

TEST(JinjaTemplate, LoadsNoOtherTemplate) {
  EXPECT_EQ(text_of("{% if false %}{% include 'x' %}{% endif %}ok"), "ok");
  for (const char* source :
       {"{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}"}) {
    EXPECT_NE(text_of(source).find("stands alone"), std::string::npos) << source;
  }
}

TEST(JinjaTemplate, GeneratorsAreLazyAndReadOnce) {
  EXPECT_EQ(text_of("{% set x = 5 | map('upper') %}fine"), "fine");
  EXPECT_EQ(text_of("{% set x = ['a'] | map('upper') %}{{ x | list }}{{ x | list }}"), "['A'][]");
  EXPECT_EQ(text_of("{% set r = [1, 2, 3] | select('odd') %}{{ r | first }}{{ r | first }}|{{ r | first }}"), "13|");
}

TEST(JinjaTemplate, ScopesFollowJinja) {
  EXPECT_EQ(text_of("{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}", {{"x", 0}}), "0102");
  EXPECT_EQ(text_of("{% macro m() %}{{ loop is defined }}{{ x }}{% endmacro %}{% for x in [1] %}{{ m() }}{% endfor %}"),
            "False");
  EXPECT_EQ(text_of("{% set x = 1 %}{% filter upper %}{% set x = 2 %}{{ x }}{% endfilter %}{{ x }}"), "21");
  EXPECT_EQ(text_of("{% block b %}{% set x = 2 %}{{ x }}{% endblock %}{{ x }}{{ self.b() }}"), "22");
}

TEST(JinjaTemplate, PlacesWhereGccAndPythonCouldDiffer) {
  EXPECT_EQ(text_of("{{ -7 // 2 }} {{ -7 % 3 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 7 % -3 }}"), "-4 2 -4.0 0.5 -2");
  EXPECT_EQ(text_of("{{ 9007199254740993 == 9007199254740992.0 }} {{ 2 ** 100 }}"),
            "False 1267650600228229401496703205376");
  EXPECT_EQ(text_of("{{ 2 ** 200 }}").substr(0, 6), "error:");
  EXPECT_EQ(text_of("{{ 1e22 }} {{ 1.7976931348623157e308 }} {{ 5e-324 }} {{ 123456.789e3 }}"),
            "1e+22 1.7976931348623157e+308 5e-324 123456789.0");
  EXPECT_EQ(text_of("{{ '\xce\x9f\xce\x94\xce\x9f\xce\xa3'.lower() }}"),
            "\xce\xbf\xce\xb4\xce\xbf\xcf\x82");  // final sigma
}

}  // namespace
}  // namespace vernier
