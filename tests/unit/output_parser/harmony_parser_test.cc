#include "text/harmony_parser.h"

#include <gtest/gtest.h>

#include "output_cases.h"

namespace vernier::testing_output {
namespace {

Parsed read(const std::string& text, OutputEnd end = OutputEnd::kStop) {
  return parse(OutputFormat::kHarmony, options_for(OutputFormat::kHarmony, all_tools()),
               events_of(OutputFormat::kHarmony, text), end);
}

// HM04 and H14: the recipient in the role part or behind the channel, a missing space, a bare type, none.
TEST(HarmonyParser, TakesAHeaderInAnyOrder) {
  std::vector<OutputCall> oslo = {{"get_weather", "{\"city\": \"Oslo\"}"}};
  for (const char* header :
       {" to=functions.get_weather<|channel|>commentary <|constrain|>json",
        "<|channel|>commentary to=functions.get_weather<|constrain|>json",
        "<|channel|>commentary to=functions.get_weather <|constrain|>json",
        "<|channel|>commentary to=functions.get_weather json", "<|channel|>commentary to=functions.get_weather",
        "<|channel|>commentary (to=functions.get_weather) code", " to=functions.get_weather",
        "<|channel|>analysis to=functions.get_weather", "<|channel|>commentary to=get_weather",
        "<|channel|>commentary commentary to=functions.get_weather json json"}) {
    Parsed parsed = read(std::string(header) + "<|message|>{\"city\": \"Oslo\"}<|call|>");
    EXPECT_EQ(parsed.answer, (OutputAnswer{"", "", oslo})) << header;
    EXPECT_TRUE(parsed.has_calls) << header;
  }
}

TEST(HarmonyParser, PutsAMessageWhereItsChannelSays) {
  EXPECT_EQ(read("<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>Two.<|end|>"
                 "<|start|>assistant<|channel|>final<|message|>Three.<|return|>")
                .answer,
            (OutputAnswer{"Three.", "One.\nTwo.", {}}));
  EXPECT_EQ(read("<|channel|>analysiscommentary<|message|>a").answer, (OutputAnswer{"", "a", {}}));
  EXPECT_EQ(read("<|message|>a").answer, (OutputAnswer{"a", "", {}}));
  EXPECT_EQ(read("<|channel|>analysis to=browser.search code<|message|>{\"q\": 1}<|call|>").answer,
            (OutputAnswer{"", "{\"q\": 1}", {}}));
  EXPECT_EQ(read("<|channel|>final<|message|>  a \n").answer.content, "  a \n");
}

// H15: an end token where a start is wanted; text outside of messages.
TEST(HarmonyParser, ResynchronisesAndLosesNoText) {
  EXPECT_EQ(read("<|channel|>final<|message|>One.<|return|><|return|>").answer.content, "One.");
  EXPECT_EQ(read("<|channel|>final<|message|>One.<|end|>Two.").answer.content, "One.\nTwo.");
  EXPECT_EQ(read("<|channel|>final<|message|>One.<|channel|>final<|message|>Two.").answer.content, "One.\nTwo.");
  EXPECT_EQ(read("plain words").answer.content, "plain words");
  EXPECT_EQ(read("<|channel|>analysis some words<|end|>").answer.reasoning, "words");
  EXPECT_EQ(read("<|return|>").answer, OutputAnswer{});
}

// HM07: the limit in each of analysis, header, call arguments, final.
TEST(HarmonyParser, MayBeCutInEachPart) {
  EXPECT_EQ(read("<|channel|>analysis<|message|>On", OutputEnd::kLimit).answer, (OutputAnswer{"", "On", {}}));
  EXPECT_EQ(read("<|channel|>commentary to=functions.get_", OutputEnd::kLimit).answer, OutputAnswer{});
  EXPECT_EQ(read("<|channel|>comm", OutputEnd::kLimit).answer, OutputAnswer{});
  Parsed cut = read("<|channel|>commentary to=functions.get_weather json<|message|>{\"city\": \"Os", OutputEnd::kLimit);
  EXPECT_EQ(cut.answer, (OutputAnswer{"{\"city\": \"Os", "", {}}));
  EXPECT_FALSE(cut.has_calls);
  EXPECT_EQ(read("<|channel|>final<|message|>Thr", OutputEnd::kLimit).answer.content, "Thr");
}

TEST(HarmonyParser, ACallWithoutArgumentsTakesNone) {
  std::vector<OutputCall> time = {{"get_time", "{}"}};
  EXPECT_EQ(read("<|channel|>commentary to=functions.get_time<|message|><|call|>").answer.calls, time);
  EXPECT_TRUE(read("<|channel|>commentary to=functions.get_time<|message|>", OutputEnd::kLimit).answer.calls.empty());
}

TEST(HarmonyHeader, KeepsWordsThatItDoesNotKnow) {
  HarmonyHeader header = parse_harmony_header("assistant", "commentary to=functions.f odd words", "json", true);
  EXPECT_EQ(header.role, "assistant");
  EXPECT_EQ(header.channel, "commentary");
  EXPECT_EQ(header.recipient, "functions.f");
  EXPECT_EQ(header.type, "json");
  EXPECT_EQ(header.rest, "odd words");
  EXPECT_EQ(parse_harmony_header(" to=all", "final", "", false).recipient, "");
}

}  // namespace
}  // namespace vernier::testing_output
