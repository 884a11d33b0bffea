#include "text/chat_template.h"

#include <gtest/gtest.h>

#include "unit/jinja/golden_outcome.h"

namespace vernier {
namespace {

using Json = nlohmann::ordered_json;

Result<Rendered> render(const std::string& source, const Json& conversation) {
  TRY_BIND(ChatTemplate chat, ChatTemplate::parse(source));
  TRY_BIND(ChatInput input, chat_input_from_json(conversation));
  input.now = kGoldenNow;
  return chat.render(input);
}

std::string text_of(const std::string& source, const Json& conversation) {
  Result<Rendered> result = render(source, conversation);
  return result.ok() ? result->text : "error: " + result.error().message;
}

const char* const kPlain = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";

TEST(ChatTemplate, DropsNullKeysOfMessagesButNotBelowThem) {
  const Json conversation = {
      {"messages", Json::array({{{"role", "user"}, {"content", nullptr}, {"calls", {{"a", nullptr}}}}})}};
  EXPECT_EQ(text_of("{{ messages[0] }}", conversation), "{'role': 'user', 'calls': {'a': None}}");
}

TEST(ChatTemplate, ReasoningGoesByItsUsualNames) {
  const char* source = "{{ messages[0].reasoning_content }}|{{ messages[0].thinking }}|{{ messages[0].keys() | list }}";
  const auto one = [](Json message) { return Json{{"messages", Json::array({std::move(message)})}}; };
  EXPECT_EQ(text_of(source, one({{"role", "assistant"}, {"reasoning", "r"}})),
            "r|r|['thinking', 'role', 'reasoning', 'reasoning_content']");
  EXPECT_EQ(text_of(source, one({{"thinking", "t"}, {"reasoning_content", "c"}})),
            "c|t|['thinking', 'reasoning_content']");
  EXPECT_EQ(text_of(source, one({{"thinking", nullptr}, {"role", "x"}})), "||['role']");
}

TEST(ChatTemplate, GoesOnFromTheFinalMessage) {
  const Json turns = Json::array({{{"role", "user"}, {"content", "q"}}, {{"role", "assistant"}, {"content", "So "}}});
  const Json goes_on = {{"messages", turns}, {"continue_final_message", true}};
  EXPECT_EQ(text_of(std::string(kPlain) + "<end>", goes_on), "<user>q<assistant>So ");
  EXPECT_EQ(text_of("{{ messages[-1].content | trim }}<end>", goes_on), "So");
  EXPECT_EQ(text_of("content {{ messages[0].role }}", goes_on).substr(0, 6), "error:");
  Json both = goes_on;
  both["add_generation_prompt"] = true;
  EXPECT_EQ(text_of(kPlain, both).substr(0, 6), "error:");
}

TEST(ChatTemplate, CutsTheMarksWithTheText) {
  const Json turns = Json::array({{{"role", "assistant"}, {"content", "So "}}});
  Result<Rendered> rendered =
      render(std::string(kPlain) + "<end>", {{"messages", turns}, {"continue_final_message", true}});
  ASSERT_TRUE(rendered.ok());
  EXPECT_EQ(rendered->caller_ranges, (std::vector<ByteRange>{{11, 14}}));
}

TEST(ChatTemplate, RefusesWhatIsNoConversation) {
  EXPECT_EQ(text_of(kPlain, {{"messages", Json::array()}}),
            "error: found no messages, expected a list of at least one");
  EXPECT_EQ(text_of(kPlain, {{"messages", Json::array({"text"})}}).substr(0, 6), "error:");
  EXPECT_EQ(text_of(kPlain, {{"messages", 5}}).substr(0, 6), "error:");
  EXPECT_EQ(text_of(kPlain, {{"messages", Json::array({Json::object()})}, {"tools", {1}}}).substr(0, 6), "error:");
}

TEST(ChatTemplate, VariablesWinOverSpecialTokens) {
  const Json conversation = {{"messages", Json::array({{{"role", "user"}}})},
                             {"special", {{"bos_token", "<s>"}}},
                             {"kwargs", {{"bos_token", "<B>"}}}};
  EXPECT_EQ(text_of("{{ bos_token }}", conversation), "<B>");
}

}  // namespace
}  // namespace vernier
