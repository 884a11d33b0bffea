#include <gtest/gtest.h>

#include "output_cases.h"
#include "testing/sanitized.h"
#include "text/call_syntax.h"

namespace vernier::testing_output {
namespace {

using testing::kSanitized;

std::string trimmed(const std::string& text) {
  return std::string(trim_json_space(text));
}

/// Empty, or how the answer differs from what the case means.
std::string difference(const OutputCase& c, const Parsed& parsed) {
  const OutputAnswer& answer = parsed.answer;
  if (answer.content != c.text || answer.reasoning != c.thought) {
    return "content \"" + answer.content + "\" reasoning \"" + answer.reasoning + "\"";
  }
  if (answer.calls.size() != c.calls.size()) return std::to_string(answer.calls.size()) + " calls";
  for (size_t i = 0; i < c.calls.size(); ++i) {
    const OutputCall& call = answer.calls[i];
    if (call.name != c.calls[i].first) return "name " + call.name;
    if (nlohmann::json::parse(call.arguments, nullptr, false) != nlohmann::json::parse(c.calls[i].second.dump())) {
      return "arguments " + call.arguments;
    }
  }
  return parsed.has_calls == !c.calls.empty() ? "" : "has_calls is wrong";
}

class CallFormats : public ::testing::TestWithParam<OutputFormat> {
 protected:
  OutputParserOptions options() const { return options_for(GetParam(), all_tools()); }
  Parsed read(const std::string& text, OutputEnd end = OutputEnd::kStop) const {
    return parse(GetParam(), options(), events_of(GetParam(), text), end);
  }
};
INSTANTIATE_TEST_SUITE_P(All, CallFormats, ::testing::ValuesIn(call_formats()),
                         [](const auto& info) { return std::string(output_format_name(info.param)); });

// F100
TEST_P(CallFormats, SayWhatTheCaseMeans) {
  for (const OutputCase& c : all_cases()) {
    if (!applies(GetParam(), c)) continue;
    Events events = events_of(GetParam(), write_case(GetParam(), c));
    EXPECT_EQ(difference(c, parse(GetParam(), options(), events)), "") << c.name;
    EXPECT_EQ(difference(c, parse(GetParam(), options(), one_character_each(events))), "") << c.name;
  }
}

// TEXT-9, H12: whole answer and joined stream are equal, however the text is cut.
TEST_P(CallFormats, AnyTwoCutsMakeNoDifference) {
  for (const OutputCase& c : all_cases()) {
    if (!applies(GetParam(), c) || c.name == "long") continue;
    Events events = events_of(GetParam(), write_case(GetParam(), c));
    size_t length = characters_of(events);
    for (size_t first = 1; first < length; ++first) {
      for (size_t second = first; second < length; second += kSanitized ? 17 : 1) {
        std::string wrong = difference(c, parse(GetParam(), options(), cut_events(events, {first, second})));
        ASSERT_EQ(wrong, "") << c.name << " cut at " << first << " and " << second;
      }
    }
  }
}

// TEXT-10: JSON that does not parse is no call; its text stays visible and the finish reason is not tool_calls.
TEST_P(CallFormats, ABrokenCallIsTextAndNoCall) {
  std::string text = write_case(GetParam(), all_cases()[0]);
  for (std::string_view gone : {"\"}", "\n</parameter>"}) {
    if (size_t at = text.find(gone); at != std::string::npos) text.erase(at, gone == "\"}" ? 1 : gone.size());
  }
  Events events = events_of(GetParam(), text);
  for (const Events& pushed : {events, one_character_each(events)}) {
    Parsed parsed = parse(GetParam(), options(), pushed);
    EXPECT_FALSE(parsed.has_calls) << text;
    EXPECT_TRUE(parsed.answer.calls.empty());
    EXPECT_NE(parsed.answer.content.find("Os"), std::string::npos) << parsed.answer.content;
    if (GetParam() != OutputFormat::kHarmony) {
      EXPECT_EQ(trimmed(parsed.answer.content), text);
    }
  }
}

// H10: every truncation point. What was cut is no whole call, and none of it is lost.
TEST_P(CallFormats, MayBeCutAnywhere) {
  for (const OutputCase& c : all_cases()) {
    if (!applies(GetParam(), c)) continue;
    Events events = one_character_each(events_of(GetParam(), write_case(GetParam(), c)));
    size_t step = c.name == "long" ? 97 : 1;
    for (size_t length = 0; length < events.size(); length += step) {
      Events cut(events.begin(), events.begin() + static_cast<ptrdiff_t>(length));
      for (OutputEnd end : {OutputEnd::kLimit, OutputEnd::kStop}) {
        Parsed parsed = parse(GetParam(), options(), cut, end);
        if (parsed.has_calls) {
          for (const OutputCall& call : parsed.answer.calls) {
            ASSERT_TRUE(nlohmann::json::accept(call.arguments)) << call.arguments;
          }
        }
        std::string text;
        for (const Event& event : cut) text += event.text;
        bool plain = GetParam() != OutputFormat::kHarmony && parsed.answer.calls.empty() && c.thought.empty();
        if (plain) {
          ASSERT_EQ(trimmed(parsed.answer.content), trimmed(text));
        }
      }
    }
  }
}

// S12: the name comes once and first, the pieces of the arguments join to JSON; a long argument streams.
TEST_P(CallFormats, ALongArgumentStreams) {
  Events events = one_character_each(events_of(GetParam(), write_case(GetParam(), all_cases()[4])));
  Parsed parsed = parse(GetParam(), options(), events);
  ASSERT_EQ(parsed.answer.calls.size(), 1u);
  size_t begins = 0;
  size_t pieces = 0;
  for (const OutputDelta& delta : parsed.deltas) {
    begins += delta.kind == OutputDelta::Kind::kCallBegin;
    pieces += delta.kind == OutputDelta::Kind::kCallArguments;
    if (delta.kind == OutputDelta::Kind::kCallArguments) {
      EXPECT_EQ(begins, 1u);
    }
  }
  EXPECT_EQ(begins, 1u);
  if (GetParam() != OutputFormat::kQwen3Coder) {
    EXPECT_GT(pieces, 20u);
  }
}

TEST_P(CallFormats, ALongCallThatBreaksIsNotReported) {
  std::string text = write_case(GetParam(), all_cases()[4]);
  for (size_t at : {text.find("\"}"), text.find("\n</parameter>")}) {
    if (at != std::string::npos) text.resize(at);
  }
  Parsed parsed = read(text + "\n", OutputEnd::kStop);
  EXPECT_FALSE(parsed.has_calls);
  std::string all = parsed.answer.content;
  for (const OutputCall& call : parsed.answer.calls) all += call.arguments;
  EXPECT_EQ(std::count(all.begin(), all.end(), 'x'), 3000) << "what the model wrote is lost";
}

TEST_P(CallFormats, WithoutToolsNothingIsACall) {
  OutputParserOptions none = options_for(GetParam(), {});
  Events events = events_of(GetParam(), write_case(GetParam(), all_cases()[0]));
  Parsed parsed = parse(GetParam(), none, events);
  EXPECT_TRUE(parsed.answer.calls.empty());
  EXPECT_NE(parsed.answer.content.find("Oslo"), std::string::npos);
}

// Q21
TEST_P(CallFormats, OneCallEndsAnAnswerWithoutParallelCalls) {
  OutputParserOptions options = options_for(GetParam(), all_tools());
  options.parallel_calls = false;
  Parsed parsed = parse(GetParam(), options, events_of(GetParam(), write_case(GetParam(), all_cases()[1])));
  EXPECT_EQ(parsed.answer.calls.size(), 1u);
  EXPECT_EQ(parsed.answer.content, "");
  EXPECT_TRUE(parsed.has_calls);
}

Parsed read_as(OutputFormat format, const std::string& text, OutputEnd end = OutputEnd::kStop) {
  return parse(format, options_for(format, all_tools()), events_of(format, text), end);
}

TEST(CallFormat, ArgumentsStayAsTheModelWroteThem) {
  Parsed parsed =
      read_as(OutputFormat::kQwen3,
              "<tool_call>{\"name\": \"set\", \"arguments\": {\"big\": 12345678901234567890.10, \"a\":1e400, "
              "\"a\": \"\\u00e9\"}}</tool_call>");
  ASSERT_EQ(parsed.answer.calls.size(), 1u);
  EXPECT_EQ(parsed.answer.calls[0].arguments, "{\"big\": 12345678901234567890.10, \"a\":1e400, \"a\": \"\\u00e9\"}");
}

TEST(CallFormat, MembersComeInAnyOrderAndOnce) {
  auto calls = [](const std::string& body) {
    return read_as(OutputFormat::kQwen3, "<tool_call>" + body + "</tool_call>").answer.calls;
  };
  std::vector<OutputCall> expected = {{"f", "{\"a\": 1}"}};
  EXPECT_EQ(calls(R"({"arguments": {"a": 1}, "name": "f"})"), expected);
  EXPECT_EQ(calls(R"({"id": [{"name": "g"}], "parameters": {"a": 1} , "name" : "f" })"), expected);
  EXPECT_EQ(calls(R"({"name": "f", "arguments": "{\"a\": 1}"})"), expected);
  EXPECT_EQ(calls(R"({"name": "f"})"), (std::vector<OutputCall>{{"f", "{}"}}));
  EXPECT_EQ(calls(R"({"name": "f", "arguments": null})"), (std::vector<OutputCall>{{"f", "{}"}}));
  for (const char* none : {R"({"name": "f", "name": "g"})", R"({"arguments": {}})", R"({"name": "", "arguments": {}})",
                           R"({"name": 1})", R"({"name": "f", "arguments": [1]})", R"({"name": "f", "arguments": "a"})",
                           R"({"name": "f", "arguments": {}, "parameters": {}})", R"({"name": "\ud800"})", R"([])"}) {
    EXPECT_TRUE(calls(none).empty()) << none;
  }
}

TEST(CallFormat, AMarkerWithinAStringOfTheArgumentsIsAPartOfIt) {
  Parsed parsed = read_as(OutputFormat::kQwen3,
                          "<tool_call>{\"name\": \"set\", \"arguments\": {\"code\": \"</tool_call>\"}}"
                          "</tool_call>");
  ASSERT_EQ(parsed.answer.calls.size(), 1u);
  EXPECT_EQ(parsed.answer.calls[0].arguments, "{\"code\": \"</tool_call>\"}");
}

TEST(CallFormat, TextThatSpellsAMarkerStaysTextWhereTheMarkerIsAToken) {
  Parsed parsed = parse(OutputFormat::kQwen3, options_for(OutputFormat::kQwen3, all_tools()),
                        {{false, "<tool"}, {false, "_call>{\"name\": \"set\"}</tool_call>"}});
  EXPECT_TRUE(parsed.answer.calls.empty());
  EXPECT_EQ(parsed.answer.content, "<tool_call>{\"name\": \"set\"}</tool_call>");
}

TEST(CallFormat, ABrokenCallDoesNotHideTheNext) {
  Parsed parsed = read_as(OutputFormat::kHermes,
                          "<tool_call>\n{\"name\": \"set\", \"arguments\": {\"code\": \"Os\n</tool_call>\n"
                          "<tool_call>\n{\"name\": \"get_time\"}\n</tool_call>");
  EXPECT_EQ(parsed.answer.calls, (std::vector<OutputCall>{{"get_time", "{}"}}));
  EXPECT_EQ(parsed.answer.content, "<tool_call>\n{\"name\": \"set\", \"arguments\": {\"code\": \"Os\n</tool_call>");
}

TEST(CallFormat, ACallThatIsNotClosedDoesNotHideTheNext) {
  std::string calls = "<tool_call>{\"name\": \"set\"}<tool_call>{\"name\": \"get_time\"}</tool_call></tool_call>";
  for (OutputFormat format : {OutputFormat::kHermes, OutputFormat::kQwen3}) {
    EXPECT_EQ(read_as(format, calls).answer.calls.size(), 2u);
    EXPECT_EQ(read_as(format, calls).answer.content, "</tool_call>");
  }
  EXPECT_EQ(
      read_as(OutputFormat::kMistral, "[TOOL_CALLS][{\"name\": [TOOL_CALLS][{\"name\": \"set\"}]").answer.calls.size(),
      1u);
}

TEST(CallFormat, AnAnswerInJsonIsNoLlamaCall) {
  for (const char* text : {"{\"a\": 1}", "{\"name\": \"Anna\", \"parameters\": {}}", "{\"name\": \"set\", \"age\": 3}",
                           " {\"parameters\": {}, \"name\": \"nobody\"}", "{}", "{", "text {\"name\": \"set\"}"}) {
    Parsed parsed = read_as(OutputFormat::kLlama3, text);
    EXPECT_TRUE(parsed.answer.calls.empty()) << text;
    EXPECT_EQ(parsed.answer.content, text);
  }
  EXPECT_EQ(read_as(OutputFormat::kLlama3, "\n{\"parameters\": {}, \"name\": \"set\"}").answer.calls.size(), 1u);
}

TEST(CallFormat, MistralWritesNamesBeforeArgumentsToo) {
  std::vector<OutputCall> expected = {{"set", "{\"count\": 1}"}, {"get_time", "{}"}};
  EXPECT_EQ(
      read_as(OutputFormat::kMistral, "[TOOL_CALLS]set[ARGS]{\"count\": 1}[TOOL_CALLS]get_time[ARGS]{}").answer.calls,
      expected);
  EXPECT_EQ(read_as(OutputFormat::kMistral, "[TOOL_CALLS]set[CALL_ID]a1b2[ARGS]{\"count\": 1}").answer.calls.size(),
            1u);
  EXPECT_EQ(read_as(OutputFormat::kMistral, "[TOOL_CALLS]set{\"count\": 1}").answer.calls.size(), 1u);
  EXPECT_EQ(read_as(OutputFormat::kMistral, "[TOOL_CALLS] no call").answer.content, "[TOOL_CALLS] no call");
}

TEST(CallFormat, DeepseekWritesNamesBeforeTheSeparatorToo) {
  Parsed parsed = read_as(OutputFormat::kDeepseekV3,
                          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>set<｜tool▁sep｜>{\"count\": 1}"
                          "<｜tool▁call▁end｜><｜tool▁calls▁end｜>");
  EXPECT_EQ(parsed.answer.calls, (std::vector<OutputCall>{{"set", "{\"count\": 1}"}}));
}

// H11: XML-style call with integer, boolean, null, array, "007", 1e5 parameters.
TEST(CallFormat, ParametersWithoutTypesTakeThoseOfTheSchema) {
  Parsed parsed =
      read_as(OutputFormat::kQwen3Coder,
              "<tool_call>\n<function=set>\n<parameter=count>\n7\n</parameter>\n<parameter=on>\ntrue\n</parameter>\n"
              "<parameter=off>\nnull\n</parameter>\n<parameter=list>\n[1, \"a\"]\n</parameter>\n<parameter=code>\n"
              "007\n</parameter>\n<parameter=big>\n1e5\n</parameter>\n</function>\n</tool_call>");
  ASSERT_EQ(parsed.answer.calls.size(), 1u);
  EXPECT_EQ(parsed.answer.calls[0].arguments,
            R"({"count": 7, "on": true, "off": null, "list": [1, "a"], "code": "007", "big": 1e5})");
}

TEST(CallFormat, AValueThatDoesNotFitItsTypeIsAString) {
  EXPECT_EQ(json_of_text("007", Json{{"type", "integer"}}), "\"007\"");
  EXPECT_EQ(json_of_text("-1.50", Json{{"type", "number"}}), "-1.50");
  EXPECT_EQ(json_of_text("True", Json{{"type", "boolean"}}), "true");
  EXPECT_EQ(json_of_text("{\"a\": }", Json{{"type", "object"}}), "\"{\\\"a\\\": }\"");
  EXPECT_EQ(json_of_text("5", Json{{"type", {"string", "number"}}}), "\"5\"");
  EXPECT_EQ(json_of_text("null", Json{{"type", {"string", "null"}}}), "null");
  EXPECT_EQ(json_of_text("5", Json{{"anyOf", {{{"type", "integer"}}, {{"type", "null"}}}}}), "5");
  EXPECT_EQ(json_of_text("5", Json{{"enum", {1, 5}}}), "5");
  EXPECT_EQ(json_of_text("5", Json::object()), "5");
  EXPECT_EQ(json_of_text("five", Json::object()), "\"five\"");
}

TEST(CallFormat, AParameterThatIsNeverClosedDoesNotSwallowTheNext) {
  for (const char* text :
       {"<tool_call>\n<function=set>\n<parameter=code>\nOs\n<parameter=count>\n2\n</parameter>\n</function>\n</"
        "tool_call>",
        "<tool_call>\n<function=set>\n<parameter=code>\na\n</parameter>\n<parameter=code>\nb\n</parameter>\n"
        "</function>\n</tool_call>"}) {
    Parsed parsed = read_as(OutputFormat::kQwen3Coder, text);
    EXPECT_TRUE(parsed.answer.calls.empty()) << text;
    EXPECT_EQ(parsed.answer.content, text);
  }
}

// H23 and H24: text before the end marker is reasoning if the limit cut it; an answer without one is content.
TEST(CallFormat, ReasoningThatThePromptOpened) {
  OutputParserOptions options = options_for(OutputFormat::kQwen3, all_tools());
  options.prompt_opens_reasoning = true;
  auto read = [&](const std::string& text, OutputEnd end) {
    return parse(OutputFormat::kQwen3, options, events_of(OutputFormat::kQwen3, text), end).answer;
  };
  EXPECT_EQ(read("Two.\n</think>\n\nFour.", OutputEnd::kStop), (OutputAnswer{"Four.", "Two.", {}}));
  EXPECT_EQ(read("42", OutputEnd::kLimit), (OutputAnswer{"", "42", {}}));
  EXPECT_EQ(read("42", OutputEnd::kStop), (OutputAnswer{"42", "42", {}}));
  options.reasoning = false;
  EXPECT_EQ(read("Two.</think>Four.", OutputEnd::kStop), (OutputAnswer{"Two.</think>Four.", "", {}}));
}

TEST(CallFormat, AThoughtAboutACallIsNoCall) {
  Parsed parsed = read_as(OutputFormat::kQwen3, "<think>Say <tool_call>{\"name\": \"set\"}</tool_call>?</think>No.");
  EXPECT_EQ(parsed.answer, (OutputAnswer{"No.", "Say <tool_call>{\"name\": \"set\"}</tool_call>?", {}}));
}

TEST(CallFormat, WhiteSpaceInsideIsKeptAndAtBordersDropped) {
  Parsed parsed = read_as(OutputFormat::kQwen3,
                          "<think>\n a \n b\n</think>\n\n c \n d \n<tool_call>{\"name\": \"set\"}</tool_call>\n");
  EXPECT_EQ(parsed.answer.reasoning, "a \n b");
  EXPECT_EQ(parsed.answer.content, "c \n d");
  EXPECT_EQ(read_as(OutputFormat::kPlain, "  a \n").answer.content, "  a \n");
  EXPECT_EQ(read_as(OutputFormat::kQwen3, "  a \n").answer.content, "  a \n");
}

}  // namespace
}  // namespace vernier::testing_output
