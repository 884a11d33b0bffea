#include <gtest/gtest.h>

#include "server/chat_messages.h"
#include "server/constraint.h"
#include "server/responses_request.h"
#include "server/tool_settings.h"

namespace vernier {
namespace {

std::string place_of_refusal(const char* messages) {
  auto read = read_messages(Json::parse(messages), false);
  return read.ok() ? "" : read.error().where;
}

// Q01, Q02, Q04, Q05: a refusal names the place of what is wrong.
TEST(ChatMessages, AreRefusedByPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "messages"},
      {"[1]", "messages[0]"},
      {R"([{"role":"user","content":"a"},{"role":"robot","content":"x"}])", "messages[1].role"},
      {R"([{"content":"x"}])", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":null}])", "messages[0].content"},
      {R"([{"role":"user","content":[{"type":"smell"}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/hostname"}}]}])",
       "messages[0].content[0].type"},
      {R"([{"role":"tool","content":"x"}])", "messages[0].tool_call_id"},
      {R"([{"role":"assistant"}])", "messages[0].content"},
      {R"([{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{}}]}])",
       "messages[0].tool_calls[0].function.name"},
  };
  for (const auto& [messages, place] : cases) EXPECT_EQ(place_of_refusal(messages), place) << messages;
}

// Q02, Q03, Q05: parts join without a separator, a developer is the system, arguments are objects where they parse.
TEST(ChatMessages, ComeOutAsTemplatesTakeThem) {
  const Json read = read_messages(Json::parse(R"([
    {"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
    {"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},
                                      {"id":"c2","type":"function","function":{"name":"g","arguments":"{broken"}}]},
    {"role":"tool","tool_call_id":"c2","content":"r"},
    {"role":"assistant","content":null,"refusal":"No."}])"),
                                  false)
                        .value();
  EXPECT_EQ(read[0], Json::parse(R"({"role":"system","content":"ab"})"));
  EXPECT_EQ(read[1]["tool_calls"][0]["function"]["arguments"], Json::parse(R"({"x":1})"));
  EXPECT_EQ(read[1]["tool_calls"][1]["function"]["arguments"], "{broken");
  EXPECT_EQ(read[2]["name"], "g");
  EXPECT_EQ(read[3]["content"], "No.");
}

ToolSettings tools_of(const char* body) {
  const Json json = Json::parse(body);
  return read_tools(Fields::check(json, kOnChat, false).value()).value();
}
std::string tools_refusal(const char* body) {
  const Json json = Json::parse(body);
  auto read = read_tools(Fields::check(json, kOnChat, false).value());
  return read.ok() ? "" : read.error().where;
}

constexpr const char* kTwoTools =
    R"("tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g","strict":true}}])";

// Q19, Q20: names, doubles, and a choice that asks for what is not there.
TEST(Tools, AreRefusedByPlace) {
  EXPECT_EQ(tools_refusal(R"({"tools":[{"type":"oven"}]})"), "tools[0].type");
  EXPECT_EQ(tools_refusal(R"({"tools":[{"type":"function","function":{"name":"a b"}}]})"), "tools[0].function.name");
  EXPECT_EQ(
      tools_refusal(
          R"({"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]})"),
      "tools[1].function.name");
  EXPECT_EQ(tools_refusal(R"({"tool_choice":"required"})"), "tool_choice");
  EXPECT_EQ(tools_refusal((std::string("{") + kTwoTools + R"(,"tool_choice":"sometimes"})").c_str()), "tool_choice");
  EXPECT_EQ(
      tools_refusal(
          (std::string("{") + kTwoTools + R"(,"tool_choice":{"type":"function","function":{"name":"h"}}})").c_str()),
      "tool_choice");
}

// Q20, Q21, Q23: what may be called, and in whose words.
TEST(Tools, AreNarrowedByTheChoice) {
  const std::string open = std::string("{") + kTwoTools;
  EXPECT_TRUE(tools_of((open + R"(,"tool_choice":"none"})").c_str()).callable.empty());
  EXPECT_EQ(tools_of((open + R"(,"tool_choice":"required"})").c_str()).choice, ToolChoice::kRequired);
  const ToolSettings allowed = tools_of(
      (open +
       R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"g"}}]}}})")
          .c_str());
  ASSERT_EQ(allowed.callable.size(), 1U);
  EXPECT_EQ(allowed.callable[0].name, "g");
  EXPECT_EQ(allowed.prompt_tools.size(), 2U);
  const ToolSettings legacy = tools_of(R"({"functions":[{"name":"f"}],"function_call":{"name":"f"}})");
  EXPECT_TRUE(legacy.legacy && !legacy.parallel && legacy.named == "f");
}

Result<std::optional<Constraint>> constraint_of(const char* body) {
  const Json json = Json::parse(body);
  return read_constraint(Fields::check(json, kOnChat, false).value());
}

// Q18: forms of response_format; two constraints are one too many.
TEST(Constraints, AreReadOrRefused) {
  EXPECT_FALSE(constraint_of(R"({"response_format":{"type":"text"}})")->has_value());
  EXPECT_EQ((*constraint_of(R"({"response_format":{"type":"json_schema","json_schema":{"name":"a"}}})"))->spec.kind,
            GrammarSpec::Kind::kJsonObject);
  EXPECT_EQ((*constraint_of(R"({"structured_outputs":{"choice":["a","b"]}})"))->spec.choices.size(), 2U);
  EXPECT_EQ((*constraint_of(R"({"ebnf":"root ::= \"a\""})"))->field, "ebnf");
  for (const char* body : {R"({"response_format":{"type":"yaml"}})", R"({"response_format":{"type":"json_schema"}})",
                           R"({"response_format":{"type":"json_schema","json_schema":{"name":"no spaces"}}})",
                           R"({"structured_outputs":{}})", R"({"regex":"a","grammar":"b"})"}) {
    EXPECT_FALSE(constraint_of(body).ok()) << body;
  }
}

// vLLM's former spellings mean what structured_outputs means, and no two of all those spellings may be given.
TEST(Constraints, OfVllmsGuidedFieldsAreHonoured) {
  using Kind = GrammarSpec::Kind;
  const std::tuple<const char*, Kind, const char*> cases[] = {
      {R"({"guided_json":{"type":"object"}})", Kind::kJsonSchema, "guided_json"},
      {R"({"guided_json":"{\"type\":\"object\"}"})", Kind::kJsonSchema, "guided_json"},
      {R"({"guided_regex":"[ab]"})", Kind::kRegex, "guided_regex"},
      {R"({"guided_choice":["a","b"]})", Kind::kChoice, "guided_choice"},
      {R"({"guided_grammar":"root ::= \"a\""})", Kind::kEbnf, "guided_grammar"},
      {R"({"guided_json_object":true})", Kind::kJsonObject, "guided_json_object"},
  };
  for (const auto& [body, kind, name] : cases) {
    const auto constraint = constraint_of(body);
    ASSERT_TRUE(constraint.ok() && constraint->has_value()) << body;
    EXPECT_EQ((*constraint)->spec.kind, kind) << body;
    EXPECT_EQ((*constraint)->field, name);
  }
  EXPECT_EQ((*constraint_of(R"({"guided_json":{"type":"object"}})"))->spec.text, R"({"type":"object"})");
  for (const char* body : {R"({"guided_regex":"a","regex":"a"})", R"({"guided_json":{},"guided_choice":["a"]})",
                           R"({"guided_grammar":"root ::= \"a\"","response_format":{"type":"json_object"}})",
                           R"({"guided_choice":[]})", R"({"guided_choice":[1]})", R"({"guided_json":"no schema"})"}) {
    EXPECT_FALSE(constraint_of(body).ok()) << body;
  }
  EXPECT_FALSE(Fields::check(Json::parse(R"({"guided_whitespace_pattern":" "})"), kOnChat, false).ok());
}

// A forced call leaves no text for a format to rule; a free one does, unless nothing else rules and a schema is strict.
TEST(Constraints, JoinWithTools) {
  const std::string open = std::string("{") + kTwoTools;
  const auto forced = with_tools(Constraint{}, tools_of((open + R"(,"tool_choice":"required"})").c_str()));
  EXPECT_EQ(forced->spec.kind, GrammarSpec::Kind::kToolCalls);
  EXPECT_EQ(with_tools(Constraint{}, tools_of((open + "}").c_str()))->spec.kind, GrammarSpec::Kind::kJsonObject);
  const auto strict = with_tools({}, tools_of((open + "}").c_str()));
  ASSERT_TRUE(strict.has_value());
  EXPECT_FALSE(strict->spec.tools.functions[0].strict);
  EXPECT_TRUE(strict->spec.tools.functions[1].strict);
}

// P01, P07: items become the messages that they stand for.
TEST(ResponseItems, BecomeMessages) {
  const Json messages = messages_of_items(Json::parse(R"([
    {"role":"user","content":"Weather?"},
    {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]},
    {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
    {"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},
    {"type":"function_call_output","call_id":"c1","output":"Rain."},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"It rains."}]}])"))
                            .value();
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages[1]["reasoning_content"], "Hm.");
  EXPECT_EQ(messages[1]["tool_calls"].size(), 2U);
  EXPECT_EQ(messages[2]["tool_call_id"], "c1");
  EXPECT_EQ(messages[3]["role"], "assistant");
  for (const char* input : {"[]", "5", R"([{"type":"smell"}])", R"([{"type":"item_reference","id":"x"}])"}) {
    EXPECT_FALSE(messages_of_items(Json::parse(input)).ok()) << input;
  }
}

}  // namespace
}  // namespace vernier
