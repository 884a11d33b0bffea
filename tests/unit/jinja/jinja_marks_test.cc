#include <gtest/gtest.h>

#include "text/chat_template.h"
#include "unit/jinja/golden_outcome.h"

namespace vernier {
namespace {

using Json = nlohmann::ordered_json;

/// The text with what came from the caller in brackets.
std::string marked(std::string_view source, const Json& context) {
  Result<JinjaTemplate> parsed = JinjaTemplate::parse(source);
  if (!parsed.ok()) return parsed.error().to_string();
  Result<Rendered> rendered = parsed->render(context, true, kGoldenNow);
  if (!rendered.ok()) return rendered.error().to_string();
  std::string out;
  size_t at = 0;
  for (const ByteRange& range : rendered->caller_ranges) {
    out += rendered->text.substr(at, range.begin - at) + "[" +
           rendered->text.substr(range.begin, range.end - range.begin) + "]";
    at = range.end;
  }
  return out + rendered->text.substr(at);
}

struct Case {
  const char* source;
  const char* expected;
};

// TEMPLATE-3: a mark survives whatever a template does with a text.
TEST(JinjaMarks, StayOnTheCallersCharacters) {
  const Json context = {{"x", "a <b> c"}, {"list", {"p", "q"}}, {"n", 7}, {"u", "\xc3\xa9\xe4\xb8\xad!"}};
  const Case cases[] = {
      {"<t>{{ x }}</t>", "<t>[a <b> c]</t>"},
      {"{{ '<' + x + '>' }}", "<[a <b> c]>"},
      {"{{ '<' ~ x ~ n ~ '>' }}", "<[a <b> c]7>"},
      {"{{ ('<' + x)[1:4] }}", "[a <]"},
      {"{{ ('--' ~ u ~ '--')[1:4] }}", "-[\xc3\xa9\xe4\xb8\xad]"},
      {"{{ ('ab' ~ x)[::-1] }}", "[c >b< a]ba"},
      {"{{ (' ' ~ x ~ ' ') | trim }}", "[a <b> c]"},
      {"{{ x.split(' ') | join('|') }}", "[a]|[<b>]|[c]"},
      {"{{ x | replace('b', 'B') }}", "[a <]B[> c]"},
      {"{{ 'say X' | replace('X', x) }}", "say [a <b> c]"},
      {"{{ x | upper }}{{ ('k' ~ x) | upper }}", "[A <B> C]K[A <B> C]"},
      {"{{ x | title }}|{{ x.capitalize() }}", "[A <B> C]|[A <b> c]"},
      {"{{ x | tojson }}", "\"[a <b> c]\""},
      {"{{ {'k': x, 'l': [list]} | tojson }}", "{\"k\": \"[a <b> c]\", \"l\": [[\"[p]\", \"[q]\"]]}"},
      {"{{ list }}", "['[p]', '[q]']"},
      {"{{ list | join(', ') }}|{{ list | join }}", "[p], [q]|[pq]"},
      {"{{ '%s: %5s|' | format(n, list[0]) }}", "7:     [p]|"},
      {"{{ '{}-{x}'.format(list[0], x=list[1]) }}", "[p]-[q]"},
      {"{{ x | e }}", "[a &lt;b&gt; c]"},
      {"{{ x * 2 }}", "[a <b> ca <b> c]"},
      {"{{ x | indent(2, true) }}", "  [a <b> c]"},
      {"{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(list[0]) }}", "<[p]>"},
      {"{% set s %}<{{ x[0] }}>{% endset %}{{ s }}", "<[a]>"},
      {"{% filter upper %}t{{ x[0] }}{% endfilter %}", "T[A]"},
      {"{% for c in x[:3] %}{{ c }}.{% endfor %}", "[a].[ ].[<]."},
      {"{{ x | first }}{{ x | last }}{{ x | length }}", "[ac]7"},
      {"{{ x | default('d') }}{{ y | default('d') }}", "[a <b> c]d"},
      {"{{ x if n else 'no' }}{{ 'lit' if n else x }}", "[a <b> c]lit"},
      {"{{ x | urlencode }}", "[a%20%3Cb%3E%20c]"},
      {"{{ x.center(9, '*') }}", "*[a <b> c]*"},
      {"{{ x | truncate(5, true, '..', 0) }}", "[a <].."},
      {"{{ x.partition('<')[2] }}", "[b> c]"},
      {"{{ x | wordwrap(3) | replace('\\n', '/') }}", "[a]/[<b>]/[c]"},
  };
  for (const Case& test : cases) {
    EXPECT_EQ(marked(test.source, context), test.expected) << test.source;
  }
}

TEST(JinjaMarks, KeysOfTheCallerAreMarkedAndLiteralsAreNot) {
  const Json context = {{"d", {{"<key>", 1}}}};
  EXPECT_EQ(marked("{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", context), "[<key>]=1");
  EXPECT_EQ(marked("{% for k in {'<lit>': 1} %}{{ k }}{% endfor %}", context), "<lit>");
}

TEST(JinjaMarks, AreSortedAndDoNotTouch) {
  Result<JinjaTemplate> parsed = JinjaTemplate::parse("{{ a }}{{ a }}-{{ e }}{{ a }}");
  ASSERT_TRUE(parsed.ok());
  Result<Rendered> rendered = parsed->render(Json{{"a", "xy"}, {"e", ""}}, true, kGoldenNow);
  ASSERT_TRUE(rendered.ok());
  EXPECT_EQ(rendered->caller_ranges, (std::vector<ByteRange>{{0, 4}, {5, 7}}));
}

// TEMPLATE-4: only the closed list of roles is taken for the template's own text.
TEST(JinjaMarks, UsualRolesMayBuildControlTokensAndOthersMayNot) {
  Result<ChatTemplate> chat =
      ChatTemplate::parse("{{ eos }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}");
  ASSERT_TRUE(chat.ok());
  ChatInput input;
  input.messages = Json::array({{{"role", "user"}, {"content", "hi"}}, {{"role", "im_end"}, {"content", "user"}}});
  input.special_tokens = {{"eos", "</s>"}};
  Result<Rendered> rendered = chat->render(input);
  ASSERT_TRUE(rendered.ok()) << rendered.error().to_string();
  EXPECT_EQ(rendered->text, "</s><|user|>hi<|im_end|>user");
  EXPECT_EQ(rendered->caller_ranges, (std::vector<ByteRange>{{12, 14}, {16, 22}, {24, 28}}));
}

}  // namespace
}  // namespace vernier
