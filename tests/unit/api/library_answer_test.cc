#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "testing/isa.h"
#include "unit/api/script_engine.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::open_script;
using testing::tiny_model;

constexpr const char* kScript = R"({"tokenizer": "t", "format": "qwen3", "replies": [
  {"match": "[three]", "pieces": ["one", " two", " three"]},
  {"match": "[utf8]", "pieces": [{"bytes_hex": "c3"}, {"bytes_hex": "a9"}, "!"]},
  {"match": "[letters]", "pieces": ["ABC", "DEF", "G", "HI", "JKL"]},
  {"match": "[fail]", "pieces": ["one", " two", {"fail": "injected"}]},
  {"match": "[slow]", "delay_ms": 30, "pieces": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"]},
  {"match": "[think]", "pieces": ["<think>", "\nhm\n", "</think>", "\n\n", "yes"]},
  {"match": "[call]", "pieces": ["<tool_call>", "\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n", "</tool_call>"]},
  {"match": "", "pieces": ["ok"]}]})";

Request ask(std::string text) {
  return Request::chat({{"user", std::move(text)}});
}

Options tiny_options() {
  Options options;
  options.isa = testing::requested_isa();
  options.threads = 1;
  options.numerics = "exact";
  return options;
}

TEST(LibraryAnswer, SaysHowItCameToBe) {
  Engine engine = open_script(kScript);
  auto answer = engine.generate(ask("[three]"));
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->text, "one two three");
  EXPECT_EQ(answer->finish, Finish::kStopped);
  EXPECT_EQ(answer->tokens.size(), 3U);
  EXPECT_GT(answer->prompt_tokens, 0);
  EXPECT_GT(answer->queue_ns + answer->prefill_ns + answer->decode_ns, 0);
  EXPECT_GT(answer->first_token_ns, 0);
}

// API-6: the pieces of a stream are whole characters, and together the answer.
TEST(LibraryAnswer, TheUpdatesTogetherAreTheAnswer) {
  Engine engine = open_script(kScript);
  for (const char* question : {"[three]", "[utf8]", "[letters]", "[slow]", "[think]"}) {
    std::string text, reasoning;
    std::vector<int32_t> tokens;
    int last = 0;
    auto answer = engine.generate(ask(question), [&](const Update& update) {
      EXPECT_EQ(last, 0);
      text += update.text;
      reasoning += update.reasoning;
      for (const Token& token : update.tokens) tokens.push_back(token.token);
      last += update.last ? 1 : 0;
    });
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(text, answer->text) << question;
    EXPECT_EQ(reasoning, answer->reasoning);
    ASSERT_EQ(tokens.size(), answer->tokens.size());
    EXPECT_EQ(last, 1);
  }
  EXPECT_EQ(engine.generate(ask("[utf8]"))->text, "\xC3\xA9!");
  auto thought = engine.generate(ask("[think]"));
  EXPECT_THAT(thought->reasoning, HasSubstr("hm"));
  EXPECT_THAT(thought->text, HasSubstr("yes"));
  EXPECT_GT(thought->reasoning_tokens, 0);
}

TEST(LibraryAnswer, EndsWhereTheRequestSays) {
  Engine engine = open_script(kScript);
  Request request = ask("[letters]");
  request.stops = {"FGH"};
  auto stopped = engine.generate(request);
  EXPECT_EQ(stopped->text, "ABCDE");
  EXPECT_EQ(stopped->stop, "FGH");
  EXPECT_EQ(stopped->finish, Finish::kStopped);
  request.stops = {};
  request.max_tokens = 2;
  auto cut = engine.generate(request);
  EXPECT_EQ(cut->text, "ABCDEF");
  EXPECT_EQ(cut->finish, Finish::kLength);
}

TEST(LibraryAnswer, HoldsCalls) {
  Engine engine = open_script(kScript);
  Request request = ask("[call]");
  request.tools_json = R"([{"type": "function", "function": {"name": "f"}}])";
  auto answer = engine.generate(request);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->finish, Finish::kCalled);
  ASSERT_EQ(answer->calls.size(), 1U);
  EXPECT_EQ(answer->calls[0].name, "f");
  EXPECT_EQ(answer->calls[0].arguments, R"({"x": 1})");
  request.tools_json.clear();
  EXPECT_TRUE(engine.generate(request)->calls.empty());
}

TEST(LibraryAnswer, AFailureIsAValue) {
  Engine engine = open_script(kScript);
  std::string text;
  auto failed = engine.generate(ask("[fail]"), [&](const Update& update) { text += update.text; });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kInternal);
  EXPECT_THAT(failed.error().message, HasSubstr("injected"));
  EXPECT_EQ(text, "one two");
  Request late = ask("[slow]");
  late.deadline_ms = 60;
  auto timed_out = engine.generate(late);
  ASSERT_FALSE(timed_out.ok());
  EXPECT_EQ(timed_out.error().code, ErrorCode::kTimeout);
}

TEST(LibraryAnswer, OfARealModelIsDrawnAsAsked) {
  std::vector<int64_t> progress;
  Options options = tiny_options();
  options.on_progress = [&](int64_t done, int64_t total) {
    progress.push_back(done);
    EXPECT_LE(done, total);
  };
  auto engine = Engine::open(tiny_model(), options);
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  EXPECT_FALSE(progress.empty());
  EXPECT_EQ(engine->info()->context_tokens, 256);
  EXPECT_EQ(engine->info()->vocabulary, 320);
  EXPECT_GT(engine->info()->weight_bytes, 0);

  Request request = ask("hello");
  request.max_tokens = 12;
  request.sampling.seed = 7;
  request.ignore_end_tokens = true;
  request.top_logprobs = 3;
  auto first = engine->generate(request);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->tokens.size(), 12U);
  EXPECT_EQ(first->finish, Finish::kLength);
  EXPECT_EQ(first->tokens[0].top.size(), 3U);
  EXPECT_LT(first->tokens[0].logprob, 0);
  auto again = engine->generate(request);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(again->tokens[i].token, first->tokens[i].token);
  request.sampling.seed = 8;
  EXPECT_NE(engine->generate(request)->text, first->text);
  EXPECT_EQ(engine->stats()->finished, 3);
}

TEST(LibraryAnswer, PromptsAreRenderedAndTokenisedBothWays) {
  auto engine = Engine::open(tiny_model(), tiny_options());
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  auto chat = engine->prompt(ask("a</s>b"));
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  EXPECT_EQ(chat->text, "<s>user: a</s>b</s>assistant:");
  EXPECT_EQ(std::count(chat->tokens.begin(), chat->tokens.end(), 2), 1);  // API-3
  const auto with_begin = engine->prompt(Request::continue_text("a b"))->tokens;
  Request bare = Request::continue_text("a b");
  bare.add_special = false;
  const auto without = engine->prompt(bare)->tokens;
  EXPECT_EQ(with_begin.size(), without.size() + 1);
  EXPECT_THAT(*engine->detokenize(without), HasSubstr("a b"));
  EXPECT_EQ(engine->prompt(Request::continue_tokens(without))->tokens, without);
}

TEST(LibraryAnswer, EmbeddingsHaveUnitLength) {
  auto engine = Engine::open(tiny_model(), tiny_options());
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  auto last = engine->embed(Request::continue_text("one two three"));
  ASSERT_TRUE(last.ok()) << last.error().message;
  auto mean = engine->embed(Request::continue_text("one two three"), true);
  ASSERT_EQ(last->size(), static_cast<size_t>(engine->info()->hidden));
  for (const auto* vector : {&*last, &*mean}) {
    double squares = 0;
    for (float x : *vector) squares += static_cast<double>(x) * static_cast<double>(x);
    EXPECT_NEAR(squares, 1, 1e-5);
  }
  EXPECT_NE(*last, *mean);
}

TEST(LibraryAnswer, AConstraintHolds) {
  auto engine = Engine::open(tiny_model(), tiny_options());
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  Request request = ask("choose");
  request.constraint = {Constraint::Kind::kRegex, "(yes|no)"};
  auto answer = engine->generate(request);
  if (!answer.ok() && answer.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << answer.error().message;
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_TRUE(answer->text == "yes" || answer->text == "no") << answer->text;
  request.constraint = {Constraint::Kind::kJsonSchema, "{\"type\": \"martian\"}"};
  EXPECT_FALSE(engine->generate(request).ok());
}

// API-7: what a callback throws is an error.
TEST(LibraryOpen, AProgressThatThrowsEndsTheOpening) {
  Options options = tiny_options();
  options.on_progress = [](int64_t, int64_t) { throw 3; };
  auto engine = Engine::open(tiny_model(), options);
  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.error().message, HasSubstr("on_progress"));
}

// API-7: what cannot be opened is refused by name.
TEST(LibraryOpen, WhatCannotBeIsRefusedByName) {
  auto refusal = [](void (*change)(Options&), std::string path = tiny_model()) {
    Options options = tiny_options();
    change(options);
    auto engine = Engine::open(path, options);
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? Error{} : engine.error();
  };
  EXPECT_EQ(refusal([](Options&) {}, "/nowhere/model.gguf").code, ErrorCode::kNotFound);
  EXPECT_THAT(refusal([](Options& o) { o.backend = "tpu"; }).message, HasSubstr("'tpu'"));
  EXPECT_THAT(refusal([](Options& o) { o.isa = "sse9"; }).message, HasSubstr("sse9"));
  EXPECT_THAT(refusal([](Options& o) { o.kv_type = "f3"; }).message, AllOf(HasSubstr("kv_type"), HasSubstr("f3")));
  EXPECT_THAT(refusal([](Options& o) { o.numerics = "lucky"; }).message, HasSubstr("lucky"));
  EXPECT_EQ(refusal([](Options& o) { o.threads = -3; }).code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refusal([](Options& o) { o.context_tokens = 100000; }).message, HasSubstr("256"));
  EXPECT_THAT(refusal([](Options& o) { o.max_sequences = -1; }).message, HasSubstr("max_sequences"));
  EXPECT_THAT(refusal([](Options& o) { o.cache_bytes = -5; }).message, HasSubstr("cache_bytes"));
  EXPECT_FALSE(refusal([](Options& o) { o.cache_bytes = 1; }).message.empty());
  EXPECT_FALSE(refusal([](Options& o) { o.chat_template = "{% for %}"; }).message.empty());
}

}  // namespace
}  // namespace vernier
