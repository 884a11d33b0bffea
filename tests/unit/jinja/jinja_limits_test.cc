#include <gtest/gtest.h>

#include "text/jinja_template.h"
#include "unit/jinja/golden_outcome.h"

namespace vernier {
namespace {

using Json = nlohmann::ordered_json;

/// Small enough that a test is quick, large enough for any template.
jinja::Limits small_limits() {
  jinja::Limits limits;
  limits.steps = 2'000'000;
  limits.string_bytes = 8 << 20;
  limits.elements = 400'000;
  return limits;
}

std::string error_of(std::string_view source, const Json& context = Json::object()) {
  Result<JinjaTemplate> parsed = JinjaTemplate::parse(source);
  if (!parsed.ok()) return parsed.error().message;
  Result<Rendered> rendered = parsed->render(context, false, kGoldenNow, small_limits());
  return rendered.ok() ? "rendered " + std::to_string(rendered->text.size()) + " bytes" : rendered.error().message;
}

std::string repeated(const std::string& text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

// TEMPLATE-2: a hostile template ends with a message.
TEST(JinjaLimits, EndlessWorkEndsWithAMessage) {
  const std::string loops = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
  EXPECT_NE(error_of(loops).find("steps"), std::string::npos) << error_of(loops);
  for (const char* source : {
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% macro m() %}{% call m() %}{% endcall %}{{ caller }}{% endmacro %}{{ m() }}",
           "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
           "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}",
       }) {
    EXPECT_NE(error_of(source).find("recursion"), std::string::npos) << source << ": " << error_of(source);
  }
}

TEST(JinjaLimits, MemoryIsBounded) {
  for (const char* source : {
           "{{ 'x' * 1000000000 }}",
           "{{ 'x' * (2 ** 63 - 1) }}",
           "{{ '%999999999d' % 1 }}{{ ('%99999d' % 1) * 1000 }}",
           "{{ 'x'.center(1000000000) }}",
           "{{ '{:1000000000}{:1000000}{:1000000}'.format(1, 2, 3) * 9 }}",
           "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
           "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
           "{{ ('a' * 3000000) | replace('', 'bbbb') }}",
           "{{ ('a\\n' * 100000) | indent(1000) }}",
       }) {
    EXPECT_NE(error_of(source).find("MiB"), std::string::npos) << source << ": " << error_of(source);
  }
  for (const char* source : {
           "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
           "{{ [0] * 100000000 }}",
           "{{ range(100000) | map('string') | batch(1, 1) | slice(100000) | list | length }}",
       }) {
    EXPECT_NE(error_of(source).find("objects"), std::string::npos) << source << ": " << error_of(source);
  }
}

TEST(JinjaLimits, DeepDataIsRefused) {
  const char* source =
      "{% set ns = namespace(s=[]) %}{% for i in range(5000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}";
  EXPECT_NE(error_of(source).find("nested"), std::string::npos) << error_of(source);
  const char* lazy =
      "{% set ns = namespace(s=[1]) %}{% for i in range(5000) %}{% set ns.s = ns.s | map('string') %}{% endfor %}{{ "
      "ns.s | list }}";
  EXPECT_NE(error_of(lazy).find("nested"), std::string::npos) << error_of(lazy);
  Json deep = 1;
  for (int i = 0; i < 2000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_NE(error_of("{{ x }}", {{"x", deep}}).find("nested"), std::string::npos);
  // Shared parts make comparison exponential, which the steps end.
  const char* shared =
      "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(300) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = "
      "[ns.b, ns.b] %}"
      "{% endfor %}{{ ns.a == ns.b }}";
  EXPECT_NE(error_of(shared).find("steps"), std::string::npos) << error_of(shared);
}

TEST(JinjaLimits, DeepSyntaxIsRefused) {
  const size_t many = 100'000;
  for (const std::string& source : {
           "{{ " + repeated("(", many) + "1" + repeated(")", many) + " }}",
           "{{ " + repeated("[", many) + repeated("]", many) + " }}",
           "{{ " + repeated("-", many) + "1 }}",
           "{{ " + repeated("not ", many) + "1 }}",
           "{{ 1" + repeated(" + 1", many) + " }}",
           "{{ x" + repeated(".y", many) + " }}",
           "{{ x" + repeated("|upper", many) + " }}",
           "{{ 1" + repeated(" if 1 else 1", many) + " }}",
           repeated("{% if 1 %}", many) + repeated("{% endif %}", many),
           "{{ x" + repeated("(1)", many) + " }}",
           "{{ 1" + repeated(" or 1", many) + " }}",
       }) {
    EXPECT_NE(error_of(source).find("nest"), std::string::npos) << source.substr(0, 20) << ": " << error_of(source);
  }
  EXPECT_EQ(error_of("{% if 0 %}" + repeated("{% elif 0 %}", many) + "{% else %}x{% endif %}"), "rendered 1 bytes");
}

TEST(JinjaLimits, BrokenTemplatesHaveMessages) {
  for (const char* source : {"{{",
                             "{%",
                             "{#",
                             "{% raw %}",
                             "{{ '",
                             "{{ \"\\",
                             "{{ '\\x",
                             "{{ '\\u12' }}",
                             "{{ '\\U99999999' }}",
                             "{{ ) }}",
                             "{{ (] }}",
                             "{{ 1 2 }}",
                             "{% x %}",
                             "{% %}",
                             "{% if %}",
                             "{% for %}",
                             "{{ }}",
                             "{{ a.}}",
                             "{{ a|}}",
                             "{{ a is }}",
                             "{{ f(a=1, 2) }}",
                             "{{ f(**a, *b) }}",
                             "{{ {1} }}",
                             "{{ $ }}",
                             "{% set %}",
                             "{% macro %}",
                             "{% break %}",
                             "{% macro m(a=1, b) %}{% endmacro %}",
                             "{{ 1__0 }}",
                             "{{ 99999999999999999999999999999999999999999999 }}",
                             "\xff{{ \xff }}"}) {
    EXPECT_EQ(error_of(source).find("rendered"), std::string::npos) << source;
    EXPECT_FALSE(error_of(source).empty()) << source;
  }
}

}  // namespace
}  // namespace vernier
