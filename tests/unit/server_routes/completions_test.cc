#include <gtest/gtest.h>

#include "server/generation_settings.h"
#include "unit/server_routes/route_fixture.h"

namespace vernier {
namespace {

using nlohmann::json;
using testing::RouteFixture;

constexpr const char* kTextScript = R"({"tokenizer": "t", "format": "plain", "replies": [
  {"match": "sun", "pieces": [" shines"]}, {"match": "", "pieces": ["a", "é", "c", "d"]}]})";

json ask(RouteFixture& fixture, json more) {
  json body = {{"model", "tiny"}};
  body.update(more);
  const auto answer = fixture.post("/v1/completions", body);
  EXPECT_EQ(answer->status(), 200) << answer->body();
  return answer->json();
}

// C01, C09: prompts in their order, n choices of each.
TEST(Completions, NumberChoicesPromptByPrompt) {
  RouteFixture fixture(kTextScript);
  const json body = ask(fixture, {{"prompt", {"The sun", "A cat"}}, {"n", 2}});
  ASSERT_EQ(body["choices"].size(), 4U);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(body["choices"][i]["index"], i);
  EXPECT_EQ(body["choices"][0]["text"], " shines");
  EXPECT_EQ(body["choices"][3]["text"], "aécd");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(body["object"], "text_completion");
}

// --deterministic: requests that name no seed draw alike; one that is named is kept.
TEST(Completions, WithoutASeedDrawWithTheModelsOwnIfItHasOne) {
  RouteFixture fixture(kTextScript);
  ServedModel model = fixture.model();
  const auto seed_of = [&](const json& body) {
    return read_generation(Fields::check(body, kOnChat, false).value(), model)->sampling.seed;
  };
  EXPECT_NE(seed_of({{"model", "tiny"}}), seed_of({{"model", "tiny"}}));
  model.seed = 7;
  EXPECT_EQ(seed_of({{"model", "tiny"}}), 7U);
  EXPECT_EQ(seed_of({{"model", "tiny"}, {"seed", 5}}), 5U);
}

// C03, C04: the prompt stands before the text; offsets are characters.
TEST(Completions, EchoAndCountOffsetsInCharacters) {
  RouteFixture fixture(kTextScript);
  const json choice =
      ask(fixture, {{"prompt", "Hi"}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 3}})["choices"][0];
  EXPECT_EQ(choice["text"], "Hiaéc");
  const json& lists = choice["logprobs"];
  EXPECT_TRUE(lists["token_logprobs"][0].is_null());
  std::string text;
  for (const json& token : lists["tokens"]) text += token;
  EXPECT_EQ(text, "Hiaéc");
  EXPECT_EQ(lists["text_offset"].back(), 4) << "after H, i, a, é";
}

// C03, S14: a stream's first chunk holds the prompt with its scores; joined it says what the whole answer says.
TEST(Completions, StreamAnEchoWithItsLogprobs) {
  RouteFixture fixture(kTextScript);
  for (int max_tokens : {3, 0}) {
    json body = {
        {"model", "tiny"}, {"prompt", {"Hi", "Hi you"}}, {"echo", true}, {"logprobs", 1}, {"prompt_logprobs", 1}};
    body["max_tokens"] = max_tokens;
    const json whole = ask(fixture, body);
    body["stream"] = true;
    const auto answer = fixture.post("/v1/completions", body);
    ASSERT_EQ(answer->status(), 200) << answer->body();
    for (size_t choice : {0U, 1U}) {
      json joined;
      std::string text;
      int told = 0;
      for (const json& event : answer->events()) {
        const json& piece = event["choices"][0];
        if (piece["index"] != choice) continue;
        text += piece["text"].get<std::string>();
        if (piece.contains("prompt_logprobs")) {
          ++told;
          EXPECT_EQ(piece["prompt_logprobs"], whole["choices"][choice]["prompt_logprobs"]);
        }
        if (piece["logprobs"].is_null()) continue;
        for (const auto& [key, list] : piece["logprobs"].items()) {
          for (const json& entry : list) joined[key].push_back(entry);
        }
      }
      EXPECT_EQ(text, whole["choices"][choice]["text"].get<std::string>());
      EXPECT_EQ(joined, whole["choices"][choice]["logprobs"]);
      EXPECT_EQ(told, 1);
    }
  }
}

// C02: 0 tokens are for scoring alone.
TEST(Completions, ScoreAPromptWithoutGoingOn) {
  RouteFixture fixture(kTextScript);
  const json body = ask(fixture, {{"prompt", "Hi"}, {"echo", true}, {"max_tokens", 0}});
  EXPECT_EQ(body["choices"][0]["text"], "Hi");
  EXPECT_EQ(body["usage"]["completion_tokens"], 0);
  EXPECT_EQ(fixture.post("/v1/completions", {{"model", "tiny"}, {"prompt", "Hi"}, {"max_tokens", 0}})->status(), 400);
}

// The default of max_tokens asks for no more than fits, and a refusal speaks of nothing that the client did not send.
TEST(Completions, FillTheContextToItsLastToken) {
  RouteFixture fixture(kTextScript);
  const auto post = [&](int tokens, json more) {
    json body = {{"model", "tiny"}, {"prompt", std::vector<int>(static_cast<size_t>(tokens), 5)}};
    body.update(more);
    return fixture.post("/v1/completions", body);
  };
  const json scored = {{"max_tokens", 0}, {"echo", true}};
  EXPECT_EQ(post(1023, json::object())->json()["usage"]["completion_tokens"], 1);
  EXPECT_EQ(post(1024, scored)->json()["usage"]["prompt_tokens"], 1024);
  for (const auto& answer : {post(1024, json::object()), post(1025, scored)}) {
    EXPECT_EQ(answer->status(), 400) << answer->body();
    const json error = answer->json()["error"];
    EXPECT_EQ(error["param"], "prompt");
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["message"].get<std::string>().find("asks for"), std::string::npos) << error;
  }
  EXPECT_NE(post(1020, {{"max_tokens", 5}})->body().find("max_tokens asks for 5 more"), std::string::npos);
  const auto generated =
      fixture.post("/generate", {{"input_ids", std::vector<int>(1023, 5)}, {"sampling_params", json::object()}});
  EXPECT_EQ(generated->status(), 200) << generated->body();
}

// SERVER-16: many prompts are let in a few at a time, in their order.
TEST(Completions, FeedMorePromptsThanTheQueueHolds) {
  EngineOptions engine = RouteFixture::small_engine();
  engine.max_sequences = 4;
  engine.max_queue = 2;
  RouteFixture fixture(kTextScript, false, engine);
  std::vector<std::string> prompts(500, "A cat");
  prompts.back() = "The sun";
  const json body = ask(fixture, {{"prompt", prompts}});
  ASSERT_EQ(body["choices"].size(), 500U);
  EXPECT_EQ(body["choices"][499]["index"], 499);
  EXPECT_EQ(body["choices"][499]["text"], " shines");
}

// C05 to C08: what cannot be done is refused with its field.
TEST(Completions, AreRefusedByField) {
  RouteFixture fixture(kTextScript);
  const std::pair<json, const char*> cases[] = {
      {{{"prompt", json::array()}}, "prompt"},
      {{{"prompt", {1, "a"}}}, "prompt"},
      {{{"prompt", {99999999}}}, "prompt"},
      {{{"prompt", {1.5}}}, "prompt"},
      {{{"prompt", "a"}, {"best_of", 1}, {"n", 2}}, "best_of"},
      {{{"prompt", "a"}, {"best_of", 2}, {"stream", true}}, "best_of"},
      {{{"prompt", "a"}, {"suffix", "b"}}, "suffix"},
      {{{"prompt", "a"}, {"logprobs", 21}}, "logprobs"},
      {json::object(), "prompt"},
  };
  for (const auto& [more, place] : cases) {
    json body = {{"model", "tiny"}};
    body.update(more);
    const auto answer = fixture.post("/v1/completions", body);
    EXPECT_EQ(answer->status(), 400) << body;
    EXPECT_EQ(answer->json()["error"]["param"], place) << answer->body();
  }
}

// C07, S10: pieces of text, one finish for each choice.
TEST(Completions, StreamPieces) {
  RouteFixture fixture(kTextScript);
  const auto answer = fixture.post("/v1/completions", {{"model", "tiny"}, {"prompt", "x"}, {"stream", true}});
  std::string text;
  size_t finishes = 0;
  for (const json& event : answer->events()) {
    text += event["choices"][0]["text"];
    finishes += event["choices"][0]["finish_reason"].is_null() ? 0 : 1;
    EXPECT_EQ(event["object"], "text_completion");
  }
  EXPECT_EQ(text, "aécd");
  EXPECT_EQ(finishes, 1U);
  EXPECT_TRUE(answer->body().ends_with("data: [DONE]\n\n"));
}

}  // namespace
}  // namespace vernier
