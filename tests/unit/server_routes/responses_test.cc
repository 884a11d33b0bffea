#include <gtest/gtest.h>

#include "unit/server_routes/route_fixture.h"

namespace vernier {
namespace {

using nlohmann::json;
using testing::RouteFixture;

constexpr const char* kResponsesScript = R"({"tokenizer": "t", "format": "qwen3", "replies": [
  {"match": "[all]", "pieces": ["<think>", "\nhm\n", "</think>", "\n\n", "Let me", " look.", "<tool_call>",
    "\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n", "</tool_call>"]},
  {"match": "[fail]", "pieces": ["one", {"fail": "injected"}]},
  {"match": "", "pieces": ["a", "b", "c"]}]})";
const json kFlatTools = {{{"type", "function"}, {"name", "f"}, {"parameters", {{"type", "object"}}}}};

json body_of(const std::string& input, json more = json::object()) {
  json body = {{"model", "tiny"}, {"input", input}};
  body.update(more);
  return body;
}

/// Types without "response." in their order.
std::vector<std::string> kinds_of(const std::vector<json>& events) {
  std::vector<std::string> kinds;
  for (const json& event : events) {
    std::string kind = event["type"].get<std::string>().substr(9);
    if (kinds.empty() || kinds.back() != kind) kinds.push_back(kind);
  }
  return kinds;
}

// P02, P03: the whole response and its items.
TEST(Responses, HoldReasoningTextAndCallsAsItems) {
  RouteFixture fixture(kResponsesScript);
  const auto answer = fixture.post("/v1/responses", body_of("[all]", {{"tools", kFlatTools}}));
  ASSERT_EQ(answer->status(), 200) << answer->body();
  const json response = answer->json();
  EXPECT_EQ(response["status"], "completed");
  ASSERT_EQ(response["output"].size(), 3U);
  EXPECT_EQ(response["output"][0]["type"], "reasoning");
  EXPECT_EQ(response["output"][1]["content"][0]["type"], "output_text");
  EXPECT_EQ(response["output"][2]["type"], "function_call");
  EXPECT_EQ(json::parse(response["output"][2]["arguments"].get<std::string>()), json::parse(R"({"x":1})"));
  EXPECT_TRUE(response["output"][2]["call_id"].get<std::string>().starts_with("call_"));
  EXPECT_GT(response["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_EQ(response["tools"][0]["name"], "f");
}

// P04 to P06: named events, numbered without gaps, in the published order; the last holds the whole response.
TEST(Responses, StreamNamedEvents) {
  RouteFixture fixture(kResponsesScript);
  const auto answer = fixture.post("/v1/responses", body_of("[all]", {{"tools", kFlatTools}, {"stream", true}}));
  const std::vector<json> events = answer->events();
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  EXPECT_EQ(answer->body().find("[DONE]"), std::string::npos);
  const std::vector<std::string> expected = {"created",
                                             "in_progress",
                                             "output_item.added",
                                             "reasoning_text.delta",
                                             "reasoning_text.done",
                                             "output_item.done",
                                             "output_item.added",
                                             "content_part.added",
                                             "output_text.delta",
                                             "output_text.done",
                                             "content_part.done",
                                             "output_item.done",
                                             "output_item.added",
                                             "function_call_arguments.delta",
                                             "function_call_arguments.done",
                                             "output_item.done",
                                             "completed"};
  EXPECT_EQ(kinds_of(events), expected);

  json last = events.back()["response"];
  const json whole = fixture.post("/v1/responses", body_of("[all]", {{"tools", kFlatTools}}))->json();
  for (size_t i = 0; i < 3; ++i) {
    for (const char* key : {"type", "status", "content", "arguments", "name"}) {
      EXPECT_EQ(last["output"][i].value(key, json()), whole["output"][i].value(key, json()));
    }
  }
  size_t index = 0;
  for (const json& event : events) {
    if (event["type"] == "response.output_item.added") {
      EXPECT_EQ(event["output_index"], index);
      EXPECT_EQ(event["item"]["id"], last["output"][index++]["id"]);
    }
  }
}

// P02: cut at the limit.
TEST(Responses, AreIncompleteAtTheLimit) {
  RouteFixture fixture(kResponsesScript);
  const json response = fixture.post("/v1/responses", body_of("x", {{"max_output_tokens", 2}}))->json();
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "ab");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
}

// T19 in the words of this API.
TEST(Responses, FailWithAnEventOfTheirOwn) {
  RouteFixture fixture(kResponsesScript);
  const auto answer = fixture.post("/v1/responses", body_of("[fail]", {{"stream", true}}));
  EXPECT_EQ(answer->events().back()["type"], "response.failed");
  EXPECT_EQ(answer->events().back()["response"]["status"], "failed");
  EXPECT_EQ(fixture.post("/v1/responses", body_of("[fail]"))->status(), 500);
}

// P01, P08, P09: what cannot be, and what is not stored.
TEST(Responses, RefuseWhatIsNotStoredOrNotUnderstood) {
  RouteFixture fixture(kResponsesScript);
  for (const json& more :
       {json{{"background", true}}, json{{"previous_response_id", "resp_nothing"}},
        json{{"text", {{"format", {{"type", "yaml"}}}}}}, json{{"reasoning", {{"effort", "enormous"}}}},
        json{{"tools", {{{"type", "function"}}}}}, json{{"tool_choice", "required"}}, json{{"input", 5}}}) {
    const auto answer = fixture.post("/v1/responses", body_of("x", more));
    EXPECT_EQ(answer->status(), 400) << more;
    EXPECT_FALSE(answer->json()["error"]["code"].is_null());
  }
  EXPECT_EQ(fixture.ask("GET", "/v1/responses/resp_nothing", "")->status(), 404);
  EXPECT_EQ(fixture.post("/v1/responses/resp_nothing/cancel", json::object())->status(), 404);
}

}  // namespace
}  // namespace vernier
