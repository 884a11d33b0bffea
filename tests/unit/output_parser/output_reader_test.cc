#include "text/output_reader.h"

#include <gtest/gtest.h>

#include "../text/small_tokenizer.h"
#include "output_cases.h"
#include "text/scripted_model.h"

namespace vernier::testing_output {
namespace {

const Tokenizer& base() {
  static const Tokenizer tokenizer = testing_text::small_tokenizer("mini-merges");
  return tokenizer;
}

ScriptedModel model_of(OutputFormat format, const std::vector<ScriptFile::Piece>& pieces) {
  ScriptFile file;
  file.format = format;
  file.replies.push_back({"", pieces, std::chrono::milliseconds(0), ""});
  auto model = ScriptedModel::make(file, base());
  CHECK(model.ok(), "{}", model.error().message);
  return std::move(model).value();
}

ScriptFile::Piece text(std::string bytes) {
  return {std::move(bytes), true, ""};
}
ScriptFile::Piece raw(std::string bytes) {
  return {std::move(bytes), false, ""};
}

struct Read {
  OutputAnswer answer;
  std::string stop;
  size_t reasoning_tokens = 0;
  bool calls = false;
};

Read read(OutputFormat format, const std::vector<ScriptFile::Piece>& pieces, std::vector<std::string> stops = {},
          OutputEnd end = OutputEnd::kStop) {
  ScriptedModel model = model_of(format, pieces);
  OutputReaderOptions options;
  options.format = format;
  options.parser.tools = all_tools();
  options.stops = std::move(stops);
  auto reader = OutputReader::make(model.tokenizer(), options);
  CHECK(reader.ok(), "{}", reader.error().message);
  Read result;
  std::vector<OutputDelta> out;
  bool over = false;
  for (const ScriptStep& step : model.find_reply("")->steps) {
    if (over = reader->push(step.token, out); over) break;
  }
  if (!over && end == OutputEnd::kStop) reader->push(model.end_token(), out);
  reader->finish(end, out);
  for (const OutputDelta& delta : out) fold_answer(delta, result.answer);
  result.stop = reader->found_stop();
  result.reasoning_tokens = reader->reasoning_tokens();
  result.calls = reader->finishes_with_calls();
  return result;
}

// G03, HM05: a character over several tokens; G02: bytes that are no character.
TEST(OutputReader, GivesWholeCharacters) {
  std::vector<ScriptFile::Piece> pieces = {raw("\xc3"), raw("\xa9"), text(" "),  raw("\xf0"),
                                           raw("\x9f"), raw("\x98"), raw("\x80")};
  EXPECT_EQ(read(OutputFormat::kPlain, pieces).answer.content, "é 😀");
  EXPECT_EQ(read(OutputFormat::kPlain, {raw("\xe2\x82"), text(" x")}).answer.content, "\ufffd x");
  EXPECT_EQ(read(OutputFormat::kPlain, {text("ok"), raw("\xf0\x9f")}).answer.content, "ok\ufffd");
  pieces.insert(pieces.begin(), {text("<|channel|>"), text("final"), text("<|message|>")});
  EXPECT_EQ(read(OutputFormat::kHarmony, pieces).answer.content, "é 😀");
}

// A character that a marker cuts off is bad where it stands: it neither joins what follows the marker nor is lost.
TEST(OutputReader, AMarkerEndsACharacter) {
  Read result = read(OutputFormat::kQwen3, {text("<think>"), raw("a\xc3"), text("</think>"), raw("\xa9"), text("b")});
  EXPECT_EQ(result.answer, (OutputAnswer{"\ufffdb", "a\ufffd", {}}));
}

TEST(OutputReader, HidesControlTokensThatAreNoMarker) {
  EXPECT_EQ(read(OutputFormat::kPlain, {text("A"), text("<|im_start|>"), text("B")}, {"AB!"}).answer.content, "AB");
  EXPECT_EQ(read(OutputFormat::kPlain, {text("A"), text("<|im_start|>"), text("B"), text("C")}, {"AB"}).answer.content,
            "");
  EXPECT_EQ(read(OutputFormat::kPlain, {text("A"), text("<|im_"), text("end|>"), text("B")}).answer.content,
            "A<|im_end|>B");
}

// H04: the marker is seen as a token, and only the final text is cut.
TEST(OutputReader, AHeldBackStopNeverTearsAMarker) {
  Read result =
      read(OutputFormat::kQwen3, {text("<think>"), text("a"), text(","), text("</think>"), text("b")}, {"b,c", ",b"});
  EXPECT_EQ(result.answer, (OutputAnswer{"b", "a,", {}}));
  EXPECT_EQ(result.reasoning_tokens, 4u);
  result = read(OutputFormat::kQwen3,
                {text("<think>"), text("b,c"), text("</think>"), text("xb"), text(","), text("cd")}, {"b,c"});
  EXPECT_EQ(result.answer, (OutputAnswer{"x", "b,c", {}}));
  EXPECT_EQ(result.stop, "b,c");
}

// H05: held text is sent once, and only once.
TEST(OutputReader, GivesHeldTextOnce) {
  Read result = read(OutputFormat::kPlain, {text(" Alice"), text("!"), text(" Bob")}, {"Alice:"});
  EXPECT_EQ(result.answer.content, " Alice! Bob");
  result = read(OutputFormat::kQwen3,
                {text("a,"), text("<tool_call>"), text("{\"name\": \"get_time\"}"), text("</tool_call>"), text("b")},
                {",b"});
  EXPECT_EQ(result.answer, (OutputAnswer{"a,b", "", {{"get_time", "{}"}}}));
  EXPECT_EQ(result.stop, "");
}

// Pieces which spell a special token together are ordinary text.
TEST(OutputReader, TellsMarkersFromTextThatSpellsThem) {
  Read result = read(OutputFormat::kQwen3,
                     {text("<tool_"), text("call>"), text("{\"name\": \"get_time\"}"), text("</tool_call>")});
  EXPECT_TRUE(result.answer.calls.empty());
  EXPECT_FALSE(result.calls);
  EXPECT_EQ(result.answer.content, "<tool_call>{\"name\": \"get_time\"}</tool_call>");
}

// H10 and 3.4: what the limit cut has finish reason length.
TEST(OutputReader, TheLimitIsNoToolCall) {
  std::vector<ScriptFile::Piece> pieces = {text("<tool_call>"), text("{\"name\": \"get_time\"}")};
  EXPECT_TRUE(read(OutputFormat::kQwen3, pieces).calls);
  EXPECT_FALSE(read(OutputFormat::kQwen3, pieces, {}, OutputEnd::kLimit).calls);
}

TEST(OutputFormat, IsFoundByTokensAndTemplate) {
  auto detected = [](OutputFormat tokens, std::string_view chat_template) {
    return output_format_name(detect_output_format(model_of(tokens, {}).tokenizer(), chat_template));
  };
  EXPECT_EQ(detected(OutputFormat::kPlain, "{{ messages }}"), "plain");
  EXPECT_EQ(detected(OutputFormat::kPlain, "<tool_call>"), "hermes");
  EXPECT_EQ(detected(OutputFormat::kQwen3, "<tool_call> <think>"), "qwen3");
  EXPECT_EQ(detected(OutputFormat::kQwen3Coder, "<tool_call> <function= <parameter="), "qwen3_coder");
  EXPECT_EQ(detected(OutputFormat::kLlama3, "{\"name\": \"x\", \"parameters\": }"), "llama3");
  EXPECT_EQ(detected(OutputFormat::kLlama3, "no tools"), "plain");
  EXPECT_EQ(detected(OutputFormat::kDeepseekV3, ""), "deepseek_v3");
  EXPECT_EQ(detected(OutputFormat::kMistral, "[TOOL_CALLS]"), "mistral");
  EXPECT_EQ(detected(OutputFormat::kHarmony, ""), "harmony");
  for (OutputFormat format : call_formats()) EXPECT_EQ(find_output_format(output_format_name(format)), format);
  EXPECT_EQ(find_output_format("pascal"), std::nullopt);
  EXPECT_TRUE(prompt_opens_reasoning(OutputFormat::kQwen3, "a<think>\n"));
  EXPECT_FALSE(prompt_opens_reasoning(OutputFormat::kQwen3, "<think>\n\n</think>\n"));
  EXPECT_FALSE(prompt_opens_reasoning(OutputFormat::kHermes, "<think>"));
}

// Every cut of the bytes of a token stream in two, in characters or not, leaves the answer as it is.
TEST(OutputReader, AnyCutOfTheBytesMakesNoDifference) {
  for (OutputFormat format : call_formats()) {
    OutputCase c = all_cases()[2];
    Events events = events_of(format, write_case(format, c));
    size_t bytes = 0;
    for (const Event& event : events) bytes += event.marker ? 0 : event.text.size();
    for (size_t cut = 1; cut < bytes; ++cut) {
      std::vector<ScriptFile::Piece> pieces;
      size_t seen = 0;
      for (const Event& event : events) {
        size_t split = event.marker || cut <= seen ? 0 : std::min(cut - seen, event.text.size());
        if (split > 0) pieces.push_back(raw(event.text.substr(0, split)));
        if (split < event.text.size()) pieces.push_back({event.text.substr(split), event.marker, ""});
        seen += event.marker ? 0 : event.text.size();
      }
      Read result = read(format, pieces);
      ASSERT_EQ(result.answer.calls.size(), 1u) << output_format_name(format) << " " << cut;
      ASSERT_EQ(nlohmann::json::parse(result.answer.calls[0].arguments),
                nlohmann::json::parse(c.calls[0].second.dump()));
      ASSERT_TRUE(result.calls);
    }
  }
}

}  // namespace
}  // namespace vernier::testing_output
