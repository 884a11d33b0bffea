#include "client/stream_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace vernier {
namespace {

using nlohmann::json;

constexpr const char* kTop =
    R"({"id":"chatcmpl-1","created":1,"model":"m","object":"chat.completion.chunk","choices":)";

std::string event(const std::string& choices, const std::string& more = "") {
  return "data: " + (kTop + choices) + more + "}\n\n";
}

const std::string kRole = event(R"([{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}])");
const std::string kText = event(R"([{"index":0,"delta":{"content":"a"},"finish_reason":null}])");
const std::string kEnd = event(R"([{"index":0,"delta":{},"finish_reason":"stop"}])");
const std::string kUsage = event("[]", R"(,"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5})");
const std::string kDone = "data: [DONE]\n\n";

std::string call_piece(const std::string& call) {
  return event(R"([{"index":0,"finish_reason":null,"delta":{"tool_calls":[)" + call + "]}}]");
}
const std::string kCall =
    call_piece(R"({"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}})") +
    call_piece(R"({"index":0,"function":{"arguments":"{\"a\":"}})") +
    call_piece(R"({"index":0,"function":{"arguments":"1}"}})");

StreamRecord record_of(const std::string& raw, const std::string& type = "text/event-stream; charset=utf-8",
                       const std::string& cache = "no-cache") {
  ReplyHead head{200, {{"content-type", type}, {"cache-control", cache}, {"x-accel-buffering", "no"}}};
  return StreamRecord::of(head, raw, json{{"messages", json::array()}});
}

const std::string kCreated = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0}\n\n";
std::string response_event(const std::string& name, int number, const std::string& more = "") {
  return fmt::format("event: response.{0}\ndata: {{\"type\":\"response.{0}\",\"sequence_number\":{1}{2}}}\n\n", name,
                     number, more);
}
const std::string kResponses = response_event("created", 0) + response_event("in_progress", 1) +
                               response_event("output_item.added", 2) + response_event("output_text.delta", 3) +
                               response_event("output_item.done", 4) +
                               response_event("completed", 5, R"(,"response":{"output":[]})");

TEST(StreamRules, AGoodStreamKeepsEach) {
  const StreamRecord good = record_of(kRole + kText + kEnd + kDone);
  for (const char* rule :
       {"headers", "unbuffered", "framing", "done", "identity", "role", "content", "finish", "no_usage"}) {
    EXPECT_EQ(broken_rule(rule, good), "") << rule;
  }
  EXPECT_EQ(broken_rule("framing", record_of(": wait\n\n" + kRole + kDone)), "");
  EXPECT_EQ(broken_rule("usage_last", record_of(kRole + kText + kEnd + kUsage + kDone)), "");
  EXPECT_EQ(broken_rule("calls", record_of(kRole + kCall + kEnd + kDone)), "");
  EXPECT_EQ(broken_rule("named_events", record_of(kResponses)), "");
  EXPECT_EQ(broken_rule("response_order", record_of(kResponses)), "");
}

// CLIENT-7: every rule can fail.
TEST(StreamRules, CLIENT_7_EachFaultTurnsItsRuleRed) {
  std::string other_id = kText, no_object = kText;
  other_id.replace(other_id.find("chatcmpl-1"), 10, "chatcmpl-2");
  no_object.replace(no_object.find("chat.completion.chunk"), 21, "chat.completion");
  const std::string empty = event(R"([{"index":0,"delta":{"content":""},"finish_reason":null}])");
  const std::string cut = event("[{\"index\":0,\"delta\":{\"content\":\"a\xef\xbf\xbd\"},\"finish_reason\":null}]");
  const std::string odd_end = event(R"([{"index":0,"delta":{},"finish_reason":"abort"}])");
  const std::string wrong_sum = event("[]", R"(,"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":6})");
  const std::string again = call_piece(R"({"index":0,"id":"call_1","function":{"name":"f","arguments":""}})");
  const std::string gap = call_piece(R"({"index":1,"id":"c","type":"function","function":{"name":"f"}})");
  const std::vector<std::pair<std::string, StreamRecord>> faults = {
      {"headers", record_of(kRole + kDone, "application/json")},
      {"headers", record_of(kRole + kDone, "text/event-stream", "")},
      {"framing", record_of("event: x\n" + kRole + kDone)},
      {"framing", record_of("data:{}\n\n" + kDone)},
      {"framing", record_of("data: {\n\n" + kDone)},
      {"framing", record_of(kRole + "data: [DONE]\n")},
      {"done", record_of(kRole + kEnd)},
      {"done", record_of(kRole + kDone + kDone)},
      {"done", record_of(kRole + kDone + kEnd)},
      {"identity", record_of(kRole + other_id + kDone)},
      {"identity", record_of(no_object + kDone)},
      {"role", record_of(kText + kEnd + kDone)},
      {"role", record_of(kRole + kRole + kEnd + kDone)},
      {"content", record_of(kRole + empty + kEnd + kDone)},
      {"content", record_of(kRole + cut + kEnd + kDone)},
      {"finish", record_of(kRole + kText + kDone)},
      {"finish", record_of(kRole + kEnd + kEnd + kDone)},
      {"finish", record_of(kRole + odd_end + kDone)},
      {"no_usage", record_of(kRole + kEnd + kUsage + kDone)},
      {"usage_last", record_of(kRole + kEnd + kDone)},
      {"usage_last", record_of(kRole + kUsage + kUsage + kDone)},
      {"usage_last", record_of(kRole + kEnd + wrong_sum + kDone)},
      {"calls", record_of(kRole + kEnd + kDone)},
      {"calls", record_of(kRole + kCall + again + kEnd + kDone)},
      {"calls", record_of(kRole + gap + kEnd + kDone)},
      {"calls", record_of(kRole + kCall + call_piece(R"({"index":0,"function":{"arguments":"x"}})") + kEnd + kDone)},
      {"named_events", record_of(kResponses + kDone)},
      {"named_events", record_of(kCreated + kCreated)},
      {"named_events", record_of(kRole)},
      {"response_order", record_of(kCreated)},
      {"response_order", record_of(kResponses + response_event("failed", 6))}};
  std::set<std::string> proved = {"unbuffered"};
  for (const auto& [rule, record] : faults) {
    EXPECT_NE(broken_rule(rule, record), "") << rule << "\n" << record.raw;
    proved.insert(rule);
  }
  EXPECT_NE(broken_rule("unbuffered", StreamRecord::of({}, kRole, {})), "");
  for (std::string_view rule : stream_rule_names()) EXPECT_TRUE(proved.contains(std::string(rule))) << rule;
}

// CLIENT-8: a bad answer makes a check red; it never ends the program.
TEST(StreamRules, CLIENT_8_NoBytesEndTheProgram) {
  for (const char* raw :
       {"", "data: 5\n\n", "data: null\n\n", "data: {\"choices\":5}\n\n", "data: {\"choices\":[5]}\n\n",
        "data: {\"choices\":[{\"index\":\"x\",\"delta\":[]}],\"usage\":{}}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[5,{\"index\":-1},{\"index\":1e30}]}}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":\"x\"}}\n\n"}) {
    for (std::string_view rule : stream_rule_names()) broken_rule(rule, record_of(raw));
    joined_choice(record_of(raw), 0);
  }
  EXPECT_EQ(whole_choice(json(5), 0), JoinedChoice{});
}

TEST(StreamRules, JoinsWhatAClientJoins) {
  const JoinedChoice joined = joined_choice(record_of(kRole + kText + kText + kCall + kEnd + kDone), 0);
  EXPECT_EQ(joined, (JoinedChoice{"aa", "stop", {"f"}, {R"({"a":1})"}}));
  const json whole = json::parse(
      R"({"choices":[{"finish_reason":"stop","message":{"content":"aa","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}}]})");
  EXPECT_EQ(whole_choice(whole, 0), joined);
}

}  // namespace
}  // namespace vernier
