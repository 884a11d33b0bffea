#include <gtest/gtest.h>

#include <thread>

#include "unit/server_routes/route_fixture.h"

namespace vernier {
namespace {

using nlohmann::json;
using testing::RouteFixture;

constexpr const char* kPlainScript = R"({"tokenizer": "t", "format": "plain", "replies": [
  {"match": "[three]", "pieces": ["one", " two", " three"]},
  {"match": "[utf8]", "pieces": [{"bytes_hex": "c3"}, {"bytes_hex": "a9"}, "!"]},
  {"match": "[fail]", "pieces": ["one", " two", {"fail": "injected"}]},
  {"match": "[early]", "pieces": [{"fail": "injected"}]},
  {"match": "[letters]", "pieces": ["ABC", "DEF", "G", "HI", "JKL"]},
  {"match": "[slow]", "delay_ms": 30, "pieces": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"]},
  {"match": "", "pieces": ["ok"]}]})";

constexpr const char* kQwenScript = R"({"tokenizer": "t", "format": "qwen3", "replies": [
  {"match": "[call]", "pieces": ["<think>", "\nhm\n", "</think>", "\n\n", "<tool_call>",
    "\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n", "</tool_call>"]},
  {"match": "", "pieces": ["ok"]}]})";

const json kTools = {{"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}}};

std::string joined(const std::vector<json>& events, const char* key, size_t index = 0) {
  std::string text;
  for (const json& event : events) {
    for (const json& choice : event["choices"]) {
      if (choice["index"] == index) text += choice["delta"].value(key, "");
    }
  }
  return text;
}

// R01 to R03, R06, R08: the answer's form; the end token counts and leaves no text.
TEST(ChatRoute, AnswersInOpenAIsForm) {
  RouteFixture fixture(kPlainScript);
  const auto answer = fixture.chat("[three]");
  ASSERT_EQ(answer->status(), 200) << answer->body();
  const json body = answer->json();
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "tiny");
  const json& choice = body["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "one two three");
  EXPECT_TRUE(choice["message"]["refusal"].is_null() && choice["logprobs"].is_null());
  EXPECT_FALSE(choice["message"].contains("tool_calls") || choice["message"].contains("reasoning"));
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
  EXPECT_EQ(body["usage"]["total_tokens"], body["usage"]["prompt_tokens"].get<int>() + 4);
  EXPECT_GE(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_NE(fixture.chat("[three]")->json()["id"], body["id"]);
}

// S02, S05, S08 to S11: order and number of a stream's chunks; joined they say what the whole answer says.
// SERVER-12: a stream and a whole answer say the same.
TEST(ChatRoute, StreamsWhatItWouldSayAtOnce) {
  RouteFixture fixture(kPlainScript);
  const auto answer =
      fixture.chat("[three]", {{"stream", true}, {"n", 2}, {"stream_options", {{"include_usage", true}}}});
  ASSERT_EQ(answer->status(), 200) << answer->body();
  EXPECT_EQ(answer->headers().get("X-Accel-Buffering"), "no");
  EXPECT_TRUE(answer->body().ends_with("data: [DONE]\n\n"));
  const std::vector<json> events = answer->events();
  for (size_t index : {size_t{0}, size_t{1}}) {
    std::vector<json> own;
    for (const json& event : events) {
      if (!event["choices"].empty() && event["choices"][0]["index"] == index) own.push_back(event["choices"][0]);
    }
    EXPECT_EQ(own.front()["delta"], json::parse(R"({"role":"assistant","content":""})"));
    EXPECT_EQ(own.back()["delta"], json::object());
    EXPECT_EQ(own.back()["finish_reason"], "stop");
    EXPECT_EQ(joined(events, "content", index), "one two three");
  }
  EXPECT_TRUE(events.front()["usage"].is_null());
  EXPECT_TRUE(events.back()["choices"].empty());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 8);
}

// S09: without include_usage no chunk has empty choices.
TEST(ChatRoute, SendsNoEmptyChunkUnasked) {
  RouteFixture fixture(kPlainScript);
  for (const json& event : fixture.chat("[three]", {{"stream", true}})->events()) {
    EXPECT_FALSE(event["choices"].empty());
    EXPECT_FALSE(event.contains("usage"));
  }
}

// R04, R05, S07, S12: reasoning under both names, calls with an id once, stream and whole alike.
TEST(ChatRoute, TellsReasoningAndCallsApart) {
  RouteFixture fixture(kQwenScript);
  const json whole = fixture.chat("[call]", kTools)->json()["choices"][0];
  EXPECT_EQ(whole["finish_reason"], "tool_calls");
  EXPECT_TRUE(whole["message"]["content"].is_null());
  EXPECT_EQ(whole["message"]["reasoning"], whole["message"]["reasoning_content"]);
  const json& call = whole["message"]["tool_calls"][0];
  EXPECT_EQ(json::parse(call["function"]["arguments"].get<std::string>()), json::parse(R"({"x":1})"));
  EXPECT_TRUE(call["id"].get<std::string>().starts_with("call_"));

  json more = kTools;
  more["stream"] = true;
  size_t with_id = 0;
  std::string name, arguments;
  for (const json& event : fixture.chat("[call]", more)->events()) {
    for (const json& piece : event["choices"][0]["delta"].value("tool_calls", json::array())) {
      with_id += piece.contains("id") ? 1 : 0;
      name += piece["function"].value("name", "");
      arguments += piece["function"]["arguments"].get<std::string>();
    }
  }
  EXPECT_EQ(with_id, 1U);
  EXPECT_EQ(name, "f");
  EXPECT_EQ(arguments, call["function"]["arguments"].get<std::string>());
}

// Q23: who asked in the old words is answered in them.
TEST(ChatRoute, AnswersFunctionsWithFunctionCall) {
  RouteFixture fixture(kQwenScript);
  const json choice = fixture.chat("[call]", {{"functions", {{{"name", "f"}}}}})->json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "function_call");
  EXPECT_EQ(choice["message"]["function_call"]["name"], "f");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
}

// H03, S13, Q15: no part of a stop string is sent, however the tokens cut it.
TEST(ChatRoute, SendsNothingOfAStopString) {
  RouteFixture fixture(kPlainScript);
  for (bool stream : {false, true}) {
    const auto answer = fixture.chat("[letters]", {{"stop", {"DEFGHIJ"}}, {"stream", stream}});
    if (stream) {
      EXPECT_EQ(joined(answer->events(), "content"), "ABC");
    } else {
      EXPECT_EQ(answer->json()["choices"][0]["message"]["content"], "ABC");
      EXPECT_EQ(answer->json()["choices"][0]["stop_reason"], "DEFGHIJ");
    }
  }
}

// Q25: the first min_tokens tokens may spell a stop string.
TEST(ChatRoute, MindsStopStringsAfterMinTokensOnly) {
  RouteFixture fixture(kPlainScript);
  const json body = fixture.chat("[letters]", {{"stop", {"ABC", "JKL"}}, {"min_tokens", 2}})->json();
  EXPECT_EQ(body["choices"][0]["message"]["content"], "ABCDEFGHI");
}

// H13: an answer that repeats itself is the model's; nothing ends it.
TEST(ChatRoute, AnAnswerThatRepeatsItselfArrivesWhole) {
  std::string pieces, whole;
  for (int i = 0; i < 20; ++i) pieces += R"("| --- ",)", whole += "| --- ";
  RouteFixture fixture(R"({"tokenizer": "t", "format": "qwen3", "replies": [{"match": "", "pieces": [)" + pieces +
                       R"("|"]}]})");
  const json choice = fixture.chat("a table", kTools)->json()["choices"][0];
  EXPECT_EQ(choice["message"]["content"], whole + "|");
  EXPECT_EQ(choice["finish_reason"], "stop");
}

// G16: what a template refuses is the caller's to mend, in the template's words; the next request is served.
TEST(ChatRoute, PassesOnWhatATemplateRefuses) {
  RouteFixture fixture(kPlainScript);
  const json user = {{"role", "user"}, {"content", "Hi"}}, system = {{"role", "system"}, {"content", "Be brief."}};
  for (bool stream : {false, true}) {
    const auto refused =
        fixture.post("/v1/chat/completions", {{"model", "tiny"}, {"messages", {user, system}}, {"stream", stream}});
    ASSERT_EQ(refused->status(), 400) << refused->body();
    const json error = refused->json()["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_NE(error["message"].get<std::string>().find("a system message comes first"), std::string::npos) << error;
  }
  EXPECT_EQ(fixture.post("/v1/chat/completions", {{"model", "tiny"}, {"messages", {system, user}}})->status(), 200);
}

// R09: the bytes of all tokens are the bytes of the text, split characters too.
TEST(ChatRoute, GivesTheBytesOfEachToken) {
  RouteFixture fixture(kPlainScript);
  const json choice = fixture.chat("[utf8]", {{"logprobs", true}})->json()["choices"][0];
  std::string bytes;
  for (const json& token : choice["logprobs"]["content"]) {
    EXPECT_LE(token["logprob"], 0);
    for (int byte : token["bytes"]) bytes += static_cast<char>(byte);
  }
  EXPECT_EQ(bytes, choice["message"]["content"].get<std::string>());
}

// Q13, H10: the limit ends an answer with `length`.
TEST(ChatRoute, EndsAtTheLimit) {
  RouteFixture fixture(kPlainScript);
  const json body = fixture.chat("[three]", {{"max_tokens", 2}})->json();
  EXPECT_EQ(body["choices"][0]["message"]["content"], "one two");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["completion_tokens"], 2);
}

// T15, H26: the prompt and what is wanted after it must fit; both numbers are named.
TEST(ChatRoute, RefusesWhatTheContextCannotHold) {
  RouteFixture fixture(kPlainScript);
  for (const json& more : {json{{"max_tokens", 100000}}, json{{"max_tokens", 100000}, {"n", 2}, {"stream", true}}}) {
    const auto answer = fixture.chat("hello", more);
    EXPECT_EQ(answer->status(), 400);
    EXPECT_EQ(answer->json()["error"]["code"], "context_length_exceeded");
    EXPECT_EQ(answer->json()["error"]["param"], "messages");
    EXPECT_NE(answer->body().find("1024"), std::string::npos);
  }
}

// T14: an unknown model; Q07: aliases are served.
TEST(ChatRoute, KnowsItsNames) {
  RouteFixture fixture(kPlainScript);
  const auto answer = fixture.chat("x", {{"model", "no-such-model"}});
  EXPECT_EQ(answer->status(), 404);
  EXPECT_EQ(answer->json()["error"]["code"], "model_not_found");
  EXPECT_EQ(answer->json()["error"]["param"], "model");
  EXPECT_EQ(fixture.chat("x", {{"model", "tiny-alias"}})->status(), 200);
}

// T18: a failure before the first byte has its own status; T19, H31: after it, an error event and no finish.
TEST(ChatRoute, FailsWithAStatusOrAnEvent) {
  RouteFixture fixture(kPlainScript);
  for (bool stream : {false, true}) EXPECT_EQ(fixture.chat("[early]", {{"stream", stream}})->status(), 500);
  EXPECT_EQ(fixture.chat("[fail]")->status(), 500);
  const auto answer = fixture.chat("[fail]", {{"stream", true}});
  EXPECT_EQ(answer->status(), 200);
  const std::vector<json> events = answer->events();
  EXPECT_EQ(events.back()["error"].size(), 4U);
  EXPECT_TRUE(answer->body().ends_with("data: [DONE]\n\n"));
  for (const json& event : events) {
    if (event.contains("choices")) {
      EXPECT_TRUE(event["choices"][0]["finish_reason"].is_null());
    }
  }
  EXPECT_EQ(answer->body().find("injected"), std::string::npos) << "a device's words are for the log";
  EXPECT_EQ(fixture.chat("[three]")->status(), 200) << "the server lives on";
}

// T20, H28: a client that goes away frees all its choices at once.
// SERVER-13: an answer whose client left frees its choices.
TEST(ChatRoute, StopsForAClientThatLeft) {
  RouteFixture fixture(kPlainScript);
  const std::string body = R"({"model":"tiny","messages":[{"role":"user","content":"[slow]"}],"n":3,"stream":true})";
  const auto answer = fixture.open("POST", "/v1/chat/completions", body);
  answer->leave();
  for (int i = 0; i < 100 && !fixture.model().engine->idle(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(fixture.model().engine->idle());
  EXPECT_NE(fixture.metrics().find("vernier_requests_aborted_total{model_name=\"tiny\"} 1"), std::string::npos);
}

// T16: a full queue is 429 with Retry-After.
TEST(ChatRoute, RefusesWhatTheQueueCannotHold) {
  EngineOptions engine = RouteFixture::small_engine();
  engine.max_sequences = 1;
  engine.max_queue = 2;
  RouteFixture fixture(kPlainScript, false, engine);
  const std::string body = R"({"model":"tiny","messages":[{"role":"user","content":"[slow]"}]})";
  std::vector<std::shared_ptr<testing::RecordedAnswer>> inside;
  for (int i = 0; i < 3; ++i) inside.push_back(fixture.open("POST", "/v1/chat/completions", body));
  for (int choices : {1, 8}) {
    const auto answer = fixture.chat("[slow]", {{"n", choices}});
    EXPECT_EQ(answer->status(), 429);
    EXPECT_EQ(answer->json()["error"]["code"], "rate_limit_exceeded");
    EXPECT_FALSE(answer->headers().get("Retry-After").empty());
  }
  for (const auto& answer : inside) EXPECT_TRUE(answer->wait());
}

// SERVER-16: the queue bounds requests. One of more choices than it holds is fed, and others find a place beside it.
TEST(ChatRoute, FeedsMoreChoicesThanTheQueueHolds) {
  EngineOptions engine = RouteFixture::small_engine();
  engine.max_sequences = 2;
  engine.max_queue = 3;
  RouteFixture fixture(kPlainScript, false, engine);
  const std::string body = R"({"model":"tiny","messages":[{"role":"user","content":"[slow]"}],"n":9})";
  const auto batch = fixture.open("POST", "/v1/chat/completions", body);
  EXPECT_EQ(fixture.chat("x")->status(), 200);
  ASSERT_TRUE(batch->wait());
  ASSERT_EQ(batch->status(), 200) << batch->body();
  const json choices = batch->json()["choices"];
  ASSERT_EQ(choices.size(), 9U);
  for (const json& choice : choices) EXPECT_FALSE(choice["message"]["content"].empty());

  const auto left = fixture.open("POST", "/v1/chat/completions", body);
  left->leave();
  for (int i = 0; i < 200 && !fixture.model().engine->idle(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(fixture.model().engine->idle()) << "what was not let in yet is forgotten";
}

// SERVER-16: a request that was let in keeps a place, however many want it, and while the engine takes nothing new.
TEST(ChatRoute, KeepsThePlaceOfARequestThatWasLetIn) {
  EngineOptions engine = RouteFixture::small_engine();
  engine.max_sequences = 1;
  engine.max_queue = 0;
  RouteFixture fixture(kPlainScript, false, engine);
  const std::string body = R"({"model":"tiny","messages":[{"role":"user","content":"x"}],"n":64})";
  const auto batch = fixture.open("POST", "/v1/chat/completions", body);
  std::thread others([&] {
    for (int i = 0; i < 40; ++i) fixture.chat("x");
    fixture.model().engine->drain();
  });
  ASSERT_TRUE(batch->wait());
  EXPECT_EQ(batch->status(), 200) << batch->body();
  others.join();
}

// T22: unknown fields are listed, or refused where the server is strict.
// The log of a server says it too, at its default level, and not with every request.
TEST(ChatRoute, WarnsOnceOfAFieldThatChangesNothing) {
  RouteFixture fixture(kPlainScript);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) fixture.chat("x", {{"a_field_told_once", 1}});
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t first = log.find("a_field_told_once");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("a_field_told_once", first + 1), std::string::npos) << log;
}

TEST(ChatRoute, ListsWhatItIgnored) {
  RouteFixture fixture(kPlainScript);
  EXPECT_EQ(fixture.chat("x", {{"no_such_field", 1}, {"another", 2}})->headers().get("x-ignored-params"),
            "another, no_such_field");
  // SERVER-11: members of a request's objects too, and what other fields leave without effect.
  const json tool = {{"type", "function"}, {"function", {{"name", "f"}, {"strict", true}}}};
  const std::pair<json, const char*> nested[] = {
      {{{"messages", {{{"role", "user"}, {"content", "x"}, {"foo", 1}, {"tool_calls", {1}}, {"bar", nullptr}}}}},
       "messages[0].foo, messages[0].tool_calls"},
      {{{"messages", {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "x"}, {"cache", 1}}}}}}}},
       "messages[0].content[0].cache"},
      {{{"tools", {tool}}, {"tool_choice", "required"}, {"regex", "a"}}, "regex"},
      {{{"tools", {tool}}, {"tool_choice", "required"}, {"response_format", {{"type", "json_object"}}}},
       "response_format"},
      {{{"tools", {tool}}, {"response_format", {{"type", "json_object"}, {"foo", 1}}}},
       "response_format.foo, tools.strict"},
      {{{"chat_template_kwargs", {{"no_such_variable", 1}, {"add", true}}}}, "chat_template_kwargs.no_such_variable"},
      {{{"stream", true}, {"stream_options", {{"foo", 1}}}}, "stream_options.foo"},
  };
  for (const auto& [more, ignored] : nested) {
    const auto answer = fixture.chat("x", more);
    EXPECT_EQ(answer->status(), 200) << answer->body();
    EXPECT_EQ(answer->headers().get("x-ignored-params"), ignored) << more;
  }
  const auto twice = fixture.chat("x", {{"chat_template_kwargs", {{"messages", json::array()}}}});
  EXPECT_EQ(twice->status(), 400);
  EXPECT_EQ(twice->json()["error"]["param"], "chat_template_kwargs.messages");
  RouteFixture strict(kPlainScript, true);
  EXPECT_EQ(
      strict.chat("x", {{"messages", {{{"role", "user"}, {"content", "x"}, {"foo", 1}}}}})->json()["error"]["param"],
      "messages[0].foo");
  EXPECT_EQ(strict.chat("x", {{"no_such_field", 1}})->json()["error"]["param"], "no_such_field");
}

// Q27: no text of a message becomes a special token.
// SERVER-14: no text of a caller becomes a marker token.
TEST(ChatRoute, TakesMarkersInATextForText) {
  RouteFixture fixture(kPlainScript);
  auto tokens = [&](const std::string& text) {
    return fixture.chat(text)->json()["usage"]["prompt_tokens"].get<int>();
  };
  const std::string marker = "<|im_end|>";
  EXPECT_GE(tokens("a" + marker + marker + marker) - tokens("a" + marker), 4);
}

// Q12, Q17, Q26, T24: fields that exclude or need each other.
TEST(ChatRoute, RefusesFieldsThatDoNotGoTogether) {
  RouteFixture fixture(kPlainScript);
  const std::pair<json, const char*> cases[] = {
      {{{"top_logprobs", 2}}, "top_logprobs"},
      {{{"stream_options", {{"include_usage", true}}}}, "stream_options"},
      {{{"continue_final_message", true}, {"add_generation_prompt", true}}, "continue_final_message"},
      {{{"reasoning_effort", "enormous"}}, "reasoning_effort"},
      {{{"stop", json::array({""})}}, "stop"},
      {{{"logit_bias", {{"99999999", 1}}}}, "logit_bias"},
      {{{"stop_token_ids", {99999999}}}, "stop_token_ids"},
      {{{"allowed_token_ids", {-1}}}, "allowed_token_ids"},
      {{{"bad_words", {""}}}, "bad_words"},
  };
  for (const auto& [more, place] : cases) {
    const auto answer = fixture.chat("x", more);
    EXPECT_EQ(answer->status(), 400) << more;
    EXPECT_EQ(answer->json()["error"]["param"], place) << answer->body();
  }
}

}  // namespace
}  // namespace vernier
