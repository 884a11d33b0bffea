#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include "unit/api/script_engine.h"
#include "vernier/vernier.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

constexpr const char* kScript =
    R"({"tokenizer": "t", "format": "plain", "replies": [{"match": "", "pieces": ["one", " two"]}]})";

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_ = testing::open_script_handle(kScript, 64);
    vernier_request_options_init(&options_, sizeof options_);
    options_.text = "hello";
  }
  void TearDown() override { vernier_engine_close(engine_); }
  /// What vernier_submit says to the options.
  std::string refusal(vernier_status expected = VERNIER_INVALID_ARGUMENT) {
    vernier_request* request = nullptr;
    EXPECT_EQ(vernier_submit(engine_, &options_, nullptr, nullptr, &request), expected);
    EXPECT_EQ(request, nullptr);
    return vernier_last_error();
  }

  vernier_engine* engine_ = nullptr;
  vernier_request_options options_;
};

TEST_F(CApi, VersionsAreThoseOfTheHeader) {
  const std::string expected = std::to_string(VERNIER_VERSION_MAJOR) + "." + std::to_string(VERNIER_VERSION_MINOR) +
                               "." + std::to_string(VERNIER_VERSION_PATCH);
  EXPECT_EQ(vernier_version(), expected);
  EXPECT_STREQ(vernier_status_name(VERNIER_TIMEOUT), "timeout");
  EXPECT_STREQ(vernier_status_name(VERNIER_INTERNAL), "internal");
  EXPECT_STREQ(vernier_status_name(static_cast<vernier_status>(99)), "unknown");
}

// API-7: no argument ends the program.
TEST_F(CApi, NullIsRefusedByName) {
  vernier_engine* engine = nullptr;
  vernier_request* request = nullptr;
  char* text = nullptr;
  EXPECT_EQ(vernier_engine_open(nullptr, nullptr, &engine), VERNIER_INVALID_ARGUMENT);
  EXPECT_STREQ(vernier_last_error(), "path is null");
  EXPECT_EQ(vernier_engine_open("x", nullptr, nullptr), VERNIER_INVALID_ARGUMENT);
  EXPECT_EQ(vernier_submit(nullptr, &options_, nullptr, nullptr, &request), VERNIER_INVALID_ARGUMENT);
  EXPECT_EQ(vernier_submit(engine_, nullptr, nullptr, nullptr, &request), VERNIER_INVALID_ARGUMENT);
  EXPECT_EQ(vernier_submit(engine_, &options_, nullptr, nullptr, nullptr), VERNIER_INVALID_ARGUMENT);
  EXPECT_EQ(vernier_request_wait(nullptr, 0, nullptr), VERNIER_INVALID_ARGUMENT);
  EXPECT_EQ(vernier_engine_get_info(engine_, nullptr), VERNIER_INVALID_ARGUMENT);
  EXPECT_EQ(vernier_engine_get_stats(nullptr, nullptr), VERNIER_INVALID_ARGUMENT);
  EXPECT_EQ(vernier_detokenize(engine_, nullptr, 3, 0, &text, nullptr), VERNIER_INVALID_ARGUMENT);
  EXPECT_EQ(vernier_prompt(engine_, &options_, nullptr, nullptr, nullptr, nullptr), VERNIER_OK);
  vernier_engine_close(nullptr);
  vernier_request_cancel(nullptr);
  vernier_request_release(nullptr);
  vernier_free(nullptr);
}

TEST_F(CApi, OptionsOutOfRangeAreRefusedByName) {
  const vernier_request_options good = options_;
  auto with = [&](auto change) {
    options_ = good;
    change(options_);
    return refusal();
  };
  EXPECT_THAT(with([](auto& o) { o.text = nullptr; }), HasSubstr("0 of tokens, text"));
  EXPECT_THAT(with([](auto& o) { o.messages_json = "[]"; }), HasSubstr("2 of tokens, text"));
  EXPECT_THAT(with([](auto& o) { o.text = nullptr, o.messages_json = "[], \"tools\": []"; }),
              HasSubstr("messages_json"));
  EXPECT_THAT(with([](auto& o) { o.text = nullptr, o.messages_json = "[1]"; }), HasSubstr("messages[0]"));
  EXPECT_THAT(with([](auto& o) { o.text = nullptr, o.message_count = 2; }), HasSubstr("messages is null"));
  EXPECT_THAT(with([](auto& o) { o.tools_json = "[]"; }), HasSubstr("tools_json"));
  EXPECT_THAT(with([](auto& o) { o.temperature = -1; }), HasSubstr("temperature"));
  EXPECT_THAT(with([](auto& o) { o.top_p = 7; }), HasSubstr("top_p"));
  EXPECT_THAT(with([](auto& o) { o.top_k = -9; }), HasSubstr("top_k"));
  EXPECT_THAT(with([](auto& o) { o.max_tokens = -2; }), HasSubstr("max_tokens"));
  EXPECT_THAT(with([](auto& o) { o.top_logprobs = 1000; }), HasSubstr("top_logprobs"));
  EXPECT_THAT(with([](auto& o) { o.deadline_ms = -1; }), HasSubstr("deadline_ms"));
  EXPECT_THAT(with([](auto& o) { o.stop_count = 1; }), HasSubstr("stops"));
  EXPECT_THAT(with([](auto& o) { o.kind = static_cast<vernier_kind>(9); }), HasSubstr("kind is 9"));
  EXPECT_THAT(with([](auto& o) { o.constraint = static_cast<vernier_constraint>(9); }), HasSubstr("constraint is 9"));
  EXPECT_THAT(with([](auto& o) { o.constraint = VERNIER_REGEX; }), HasSubstr("constraint_text"));
  const char* empty[] = {""};
  EXPECT_THAT(with([&](auto& o) { o.stops = empty, o.stop_count = 1; }), HasSubstr("stop"));
  const int32_t tokens[] = {1, -5, 1 << 30};
  EXPECT_THAT(with([&](auto& o) { o.text = nullptr, o.tokens = tokens, o.token_count = 3; }), HasSubstr("-5"));
  const vernier_logit_bias bias = {1 << 30, 1};
  EXPECT_THAT(with([&](auto& o) { o.logit_bias = &bias, o.logit_bias_count = 1; }), HasSubstr("logit_bias"));
  const std::string words(20000, 'x');
  EXPECT_THAT(with([&](auto& o) { o.text = words.c_str(); }), HasSubstr("context"));
  const vernier_message bad = {"user", "\xFF", 0};
  EXPECT_THAT(with([&](auto& o) { o.text = nullptr, o.messages = &bad, o.message_count = 1; }), HasSubstr("UTF-8"));
}

TEST_F(CApi, AnOlderHeaderWorksAndANewerOneIsRefused) {
  vernier_request_options_init(&options_, sizeof options_);
  options_.text = "hello";
  options_.struct_size = offsetof(vernier_request_options, top_logprobs);
  vernier_request* request = nullptr;
  const vernier_result* result = nullptr;
  ASSERT_EQ(vernier_submit(engine_, &options_, nullptr, nullptr, &request), VERNIER_OK) << vernier_last_error();
  ASSERT_EQ(vernier_request_wait(request, 60000, &result), VERNIER_OK);
  EXPECT_STREQ(result->text, "one two");
  vernier_request_release(request);
  options_.struct_size = sizeof options_ + 8;
  EXPECT_THAT(refusal(), HasSubstr("vernier_request_options.struct_size"));
  vernier_engine_stats stats{};
  EXPECT_EQ(vernier_engine_get_stats(engine_, &stats), VERNIER_INVALID_ARGUMENT);
  stats.struct_size = offsetof(vernier_engine_stats, prompt_tokens);
  stats.prompt_tokens = -7;
  EXPECT_EQ(vernier_engine_get_stats(engine_, &stats), VERNIER_OK);
  EXPECT_EQ(stats.finished, 1);
  EXPECT_EQ(stats.prompt_tokens, -7);
}

// API-8: the handle is let go in the last callback, which may come before the submit has returned.
TEST_F(CApi, AHandleMayBeReleasedInItsLastCallback) {
  struct Ended {
    std::atomic<bool> done = false;
  };
  for (int round = 0; round < 50; ++round) {
    Ended ended;
    vernier_request* request = nullptr;
    auto callback = [](void* user, const vernier_update* update) {
      if (update->result == nullptr) return;
      vernier_request_release(update->request);
      static_cast<Ended*>(user)->done = true;
    };
    ASSERT_EQ(vernier_submit(engine_, &options_, callback, &ended, &request), VERNIER_OK);
    for (int i = 0; i < 6000 && !ended.done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(ended.done);
  }
}

}  // namespace
}  // namespace vernier
