#include <gtest/gtest.h>

#include "server/embeddings_route.h"
#include "server/model_routes.h"
#include "unit/server_routes/route_fixture.h"

namespace vernier {
namespace {

using nlohmann::json;
using testing::RouteFixture;

constexpr const char* kNativeScript = R"({"tokenizer": "t", "format": "plain", "replies": [
  {"match": "[slow]", "delay_ms": 30, "pieces": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"]},
  {"match": "", "pieces": ["a", "b", "c"]}]})";

// F118: ids and back, for any text.
TEST(NativeRoutes, TokenizeAndBack) {
  RouteFixture fixture(kNativeScript);
  for (const std::string text : {"Hello world!", "", "<|im_end|>", "नमस्ते", "a\nb"}) {
    const json answer = fixture.post("/tokenize", {{"prompt", text}, {"add_special_tokens", false}})->json();
    EXPECT_EQ(answer["count"], answer["tokens"].size());
    EXPECT_EQ(answer["max_model_len"], 1024);
    EXPECT_EQ(fixture.post("/v1/detokenize", {{"tokens", answer["tokens"]}})->json()["prompt"], text);
  }
  EXPECT_EQ(fixture.post("/detokenize", {{"tokens", {99999999}}})->status(), 400);
  const json ids = fixture.post("/tokenize", {{"prompt", "Hi"}})->json()["tokens"];
  EXPECT_EQ(fixture.post("/tokenize", {{"text", "Hi"}})->json()["tokens"], ids) << "as SGLang spells it";
  EXPECT_EQ(fixture.post("/tokenize", {{"content", "Hi"}})->json()["tokens"], ids) << "as llama.cpp spells it";
  const std::string nothing = fixture.post("/tokenize", json::object())->json()["error"]["message"];
  for (const char* field : {"prompt", "text", "content", "messages"}) {
    EXPECT_NE(nothing.find(field), std::string::npos) << nothing;
  }
}

// F119: the rendered prompt.
TEST(NativeRoutes, ApplyTheTemplate) {
  RouteFixture fixture(kNativeScript);
  const json answer = fixture.post("/apply-template", {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}})->json();
  EXPECT_EQ(answer["prompt"], "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(answer["count"], answer["tokens"].size());
}

// F117: /generate by text and by ids is what /v1/completions says.
TEST(NativeRoutes, GenerateByTextAndByIds) {
  RouteFixture fixture(kNativeScript);
  const json params = {{"max_new_tokens", 2}, {"temperature", 0}};
  const json ids = fixture.post("/tokenize", {{"prompt", "Count"}})->json()["tokens"];
  const json by_text = fixture.post("/generate", {{"text", "Count"}, {"sampling_params", params}})->json();
  const json by_ids = fixture.post("/generate", {{"input_ids", ids}, {"sampling_params", params}})->json();
  EXPECT_EQ(by_text["text"], "ab");
  EXPECT_EQ(by_ids["text"], "ab");
  EXPECT_EQ(by_ids["output_ids"].size(), 2U);
  EXPECT_EQ(by_ids["meta_info"]["finish_reason"]["type"], "length");
  EXPECT_EQ(by_ids["meta_info"]["prompt_tokens"], ids.size());
  const auto wrong = fixture.post("/generate", {{"text", "x"}, {"sampling_params", {{"temperature", 9}}}});
  EXPECT_EQ(wrong->json()["error"]["param"], "sampling_params.temperature");
}

// H06: stop strings end an answer that is read by its ids.
TEST(NativeRoutes, AStopStringEndsAnAnswerByIds) {
  RouteFixture fixture(kNativeScript);
  const json ids = fixture.post("/tokenize", {{"prompt", "Count"}})->json()["tokens"];
  const json answer = fixture.post("/generate", {{"input_ids", ids}, {"sampling_params", {{"stop", {"b"}}}}})->json();
  EXPECT_EQ(answer["text"], "a");
  EXPECT_EQ(answer["output_ids"].size(), 2U) << "the token that completed it is the last";
  EXPECT_EQ(answer["meta_info"]["finish_reason"]["type"], "stop");
}

// M01 to M04: the models, under each of their names and spellings of the path.
TEST(NativeRoutes, ListModels) {
  RouteFixture fixture(kNativeScript);
  for (const char* path : {"/v1/models", "/v1/models/", "/models", "/models/"}) {
    const json answer = fixture.ask("GET", path, "")->json();
    EXPECT_EQ(answer["object"], "list");
    EXPECT_EQ(answer["data"].size(), 2U);
    EXPECT_EQ(answer["data"][0]["max_model_len"], 1024);
  }
  EXPECT_EQ(fixture.ask("GET", "/v1/models/tiny", "")->json()["id"], "tiny");
  for (const char* path : {"/v1/models/some/model", "/v1/models/some%2Fmodel"}) {
    EXPECT_EQ(fixture.ask("GET", path, "")->json()["error"]["code"], "model_not_found");
  }
}

// F122, T17: health, facts and what generates.
TEST(NativeRoutes, TellHealth) {
  RouteFixture fixture(kNativeScript);
  for (const char* path : {"/health", "/live", "/health/live", "/health/generate", "/version", "/props"}) {
    EXPECT_EQ(fixture.ask("GET", path, "")->status(), 200) << path;
  }
  HttpRequest draining;
  draining.draining = true;
  EXPECT_EQ(show_health(fixture.context(), draining).status, 503);
}

// L09: cached tokens are those that were not computed again; the counter is their sum.
TEST(NativeRoutes, CountCachedTokensAsTheyAreUsed) {
  RouteFixture fixture(kNativeScript);
  std::string text;
  for (int i = 0; i < 60; ++i) text += "word ";
  int64_t sum = 0;
  for (int turn = 0; turn < 3; ++turn) {
    const json usage = fixture.chat(text)->json()["usage"];
    const int64_t cached = usage["prompt_tokens_details"]["cached_tokens"];
    if (turn == 0) {
      EXPECT_EQ(cached, 0);
    } else {
      EXPECT_GT(cached, 0);
      EXPECT_LT(cached, usage["prompt_tokens"]) << "the last token is always computed";
    }
    sum += cached;
  }
  for (const char* name : {"vernier_prefix_hit_tokens_total", "sglang:cached_tokens_total"}) {
    const std::string line = std::string("\n") + name + "{model_name=\"tiny\"} " + std::to_string(sum) + "\n";
    EXPECT_NE(fixture.metrics().find(line), std::string::npos) << line;
  }
}

// L02, L05: counters agree with usage, under our names and those of others.
TEST(NativeRoutes, CountTokensUnderAllNames) {
  RouteFixture fixture(kNativeScript);
  ASSERT_EQ(fixture.chat("x")->json()["usage"]["completion_tokens"], 4);
  const std::string metrics = fixture.metrics();
  for (const char* name : {"vernier_generated_tokens_total", "vllm:generation_tokens_total",
                           "sglang:generation_tokens_total", "llamacpp:tokens_predicted_total"}) {
    EXPECT_NE(metrics.find(std::string("\n") + name + "{model_name=\"tiny\"} 4\n"), std::string::npos) << name;
  }
  for (const char* name :
       {"vllm:num_requests_running", "sglang:num_queue_reqs", "vllm:kv_cache_usage_perc", "sglang:cached_tokens_total",
        "vllm:time_to_first_token_seconds_count", "sglang:num_retracted_reqs", "vllm:request_success_total",
        "sglang:num_aborted_requests_total", "vernier_cache_blocks"}) {
    EXPECT_NE(metrics.find(std::string("\n") + name + "{"), std::string::npos) << name;
  }
}

// L01: a first token and the gaps between the others.
TEST(NativeRoutes, MeasureTheGapsBetweenTokens) {
  RouteFixture fixture(kNativeScript);
  ASSERT_EQ(fixture.chat("x", {{"max_tokens", 3}})->status(), 200);
  const std::string metrics = fixture.metrics();
  EXPECT_NE(metrics.find("vernier_time_to_first_token_seconds_count{model_name=\"tiny\"} 1\n"), std::string::npos);
  EXPECT_NE(metrics.find("vernier_inter_token_latency_seconds_count{model_name=\"tiny\"} 2\n"), std::string::npos);
}

TEST(NativeRoutes, AbortByTheCallersId) {
  RouteFixture fixture(kNativeScript);
  const auto answer =
      fixture.open("POST", "/v1/chat/completions",
                   R"({"model":"tiny","messages":[{"role":"user","content":"[slow]"}],"rid":"mine","stream":true})");
  EXPECT_EQ(fixture.post("/abort_request", {{"rid", "mine"}})->json()["aborted"], 1);
  ASSERT_TRUE(answer->wait());
  EXPECT_NE(answer->body().find("aborted"), std::string::npos);
  EXPECT_EQ(fixture.post("/abort_request", {{"rid", "mine"}})->json()["aborted"], 0);
  EXPECT_EQ(fixture.post("/flush_cache", json::object())->status(), 200);
}

// T02: a body that says that it is no JSON is refused, not parsed.
TEST(NativeRoutes, RefuseAnotherContentType) {
  RouteFixture fixture(kNativeScript);
  HttpRequest request;
  request.headers.add("Content-Type", "text/plain");
  request.body = "{}";
  EXPECT_FALSE(read_json_body(request).ok());
  request.headers.set("Content-Type", "application/json; charset=utf-8");
  EXPECT_TRUE(read_json_body(request).ok());
}

// E02: the standard alphabet with padding.
TEST(Embeddings, AreWrittenInStandardBase64) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("M"), "TQ==");
  EXPECT_EQ(base64("Ma"), "TWE=");
  EXPECT_EQ(base64("Man"), "TWFu");
  EXPECT_EQ(base64("\xfb\xff"), "+/8=");
}

}  // namespace
}  // namespace vernier
