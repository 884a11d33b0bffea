#include <gtest/gtest.h>

#include <random>

#include "output_cases.h"
#include "testing/sanitized.h"

namespace vernier::testing_output {
namespace {

constexpr std::string_view kBits[] = {"{",
                                      "}",
                                      "\"name\": \"set\"",
                                      ", ",
                                      "\"arguments\": {",
                                      "\"parameters\": ",
                                      "[",
                                      "]",
                                      "\"",
                                      ": ",
                                      "\n",
                                      " ",
                                      "; ",
                                      "{}",
                                      "\"code\": \"é中😀\"",
                                      "<function=set>",
                                      "</function>",
                                      "<parameter=code>",
                                      "</parameter>",
                                      "<tool_call>",
                                      "</tool_call>",
                                      "<think>",
                                      "</thi",
                                      "<tool",
                                      "set",
                                      "```json\n",
                                      "function",
                                      "to=functions.set",
                                      "commentary",
                                      "analysis",
                                      "final"};

/// Words that occur nowhere else, to see whether any is lost.
std::string word(size_t index) {
  return "w" + std::to_string(index) + "w";
}

Events random_events(OutputFormat format, std::mt19937& random) {
  std::vector<std::string_view> markers = output_markers(format);
  std::vector<OutputCase> cases = all_cases();
  Events events;
  size_t words = 0;
  for (size_t n = 1 + random() % 14; n > 0; --n) {
    size_t kind = random() % 8;
    if (kind < 3) {
      events.push_back({!token_markers(format).empty(), std::string(markers[random() % markers.size()])});
    } else if (kind < 6) {
      events.push_back({false, std::string(kBits[random() % std::size(kBits)])});
    } else if (kind == 6) {
      events.push_back({false, word(words++)});
    } else {
      Events whole = events_of(format, write_case(format, cases[random() % 4]));
      size_t begin = random() % whole.size();
      events.insert(events.end(), whole.begin() + static_cast<ptrdiff_t>(begin), whole.end());
    }
  }
  return events;
}

/// The words that must be in the answer: all, but for those that name the role, channel, recipient or type of a harmony
/// message, the type of a DeepSeek call or the id of a Mistral one.
std::vector<std::string> words_to_find(OutputFormat format, const Events& events) {
  std::vector<std::string> words;
  bool label = format == OutputFormat::kHarmony;
  for (const Event& event : events) {
    if (event.marker) {
      bool goes_on = label && event.text == "<|constrain|>";
      label = goes_on || event.text == "<|start|>" || event.text == "<|channel|>" || event.text == "[CALL_ID]" ||
              event.text == "<｜tool▁call▁begin｜>";
    } else if (event.text.front() == 'w' && event.text.back() == 'w' && !label) {
      words.push_back(event.text);
    }
  }
  return words;
}

class OutputFuzz : public ::testing::TestWithParam<OutputFormat> {};
INSTANTIATE_TEST_SUITE_P(All, OutputFuzz, ::testing::ValuesIn(call_formats()),
                         [](const auto& info) { return std::string(output_format_name(info.param)); });

// TEXT-9, TEXT-10, TEXT-11, H12 and H15: however the output is broken and cut, no text is lost, the whole answer and
// the stream are equal, and a call that is reported is JSON.
TEST_P(OutputFuzz, LosesNoTextAndReportsNoBrokenCall) {
  std::mt19937 random(static_cast<uint32_t>(GetParam()) + 1);
  size_t called = 0;
  for (int round = 0; round < (testing::kSanitized ? 2'000 : 20'000); ++round) {
    Events events = random_events(GetParam(), random);
    OutputParserOptions options = options_for(GetParam(), all_tools());
    options.prompt_opens_reasoning = random() % 4 == 0;
    OutputEnd end = random() % 2 == 0 ? OutputEnd::kStop : OutputEnd::kLimit;
    std::string shown;
    for (const Event& event : events) shown += event.marker ? "«" + event.text + "»" : event.text + "|";
    Parsed parsed = parse(GetParam(), options, events, end);
    Parsed pieces = parse(GetParam(), options, one_character_each(events), end);
    ASSERT_EQ(parsed.answer, pieces.answer) << shown;
    ASSERT_EQ(parsed.has_calls, pieces.has_calls) << shown;
    std::string all = parsed.answer.content + parsed.answer.reasoning;
    for (const OutputCall& call : parsed.answer.calls) {
      all += call.name + call.arguments;
      if (parsed.has_calls) {
        ASSERT_TRUE(nlohmann::json::accept(call.arguments)) << shown;
      }
    }
    for (const std::string& expected : words_to_find(GetParam(), events)) {
      ASSERT_NE(all.find(expected), std::string::npos) << expected << " is lost of " << shown;
    }
    called += parsed.has_calls;
  }
  EXPECT_GT(called, 100u) << "the fuzz reaches too few calls to mean something";
}

}  // namespace
}  // namespace vernier::testing_output
