#include "text/scripted_model.h"

#include <gtest/gtest.h>

#include "../text/small_tokenizer.h"
#include "text/detokenizer.h"

namespace vernier {
namespace {

Result<ScriptedModel> make_model(std::string_view json) {
  TRY_BIND(ScriptFile file, ScriptFile::parse(json));
  return ScriptedModel::make(file, testing_text::small_tokenizer("mini-merges"));
}

TEST(ScriptedModel, GivesTheFirstReplyThatMatches) {
  auto model = make_model(R"({"tokenizer": "t", "format": "plain", "replies": [
      {"match": "[a]", "pieces": ["x", {"fail": "boom"}], "delay_ms": 50}, {"match": "", "pieces": ["ok"], "prompt_tail": "<think>\n"}]})");
  ASSERT_TRUE(model.ok()) << model.error().message;
  const ScriptReply* reply = model->find_reply("say [a]!");
  ASSERT_NE(reply, nullptr);
  EXPECT_EQ(reply->delay.count(), 50);
  ASSERT_EQ(reply->steps.size(), 2u);
  EXPECT_EQ(reply->steps[1].failure, "boom");
  EXPECT_EQ(model->find_reply("b")->prompt_tail, "<think>\n");
  EXPECT_EQ(model->tokenizer().token_text(model->end_token()), "<|im_end|>");
}

TEST(ScriptedModel, APieceIsOneTokenWithItsBytes) {
  auto model = make_model(R"({"tokenizer": "t", "format": "harmony", "replies": [{"match": "", "pieces":
      ["<|call|>", {"bytes_hex": "3c7c63616c6c7c3e"}, {"bytes_hex": "e29c"}, "a b", "a b", "é"]}]})");
  ASSERT_TRUE(model.ok()) << model.error().message;
  const Tokenizer& tokenizer = model->tokenizer();
  const std::vector<ScriptStep>& steps = model->find_reply("")->steps;
  EXPECT_TRUE(tokenizer.is_special(steps[0].token));
  EXPECT_FALSE(tokenizer.is_special(steps[1].token)) << "bytes are an ordinary token, whatever they spell";
  EXPECT_EQ(tokenizer.token_bytes(steps[1].token), "<|call|>");
  EXPECT_EQ(tokenizer.token_bytes(steps[2].token), "\xe2\x9c");
  EXPECT_EQ(steps[3].token, steps[4].token);
  EXPECT_EQ(tokenizer.token_bytes(steps[3].token), "a b");
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{steps[3].token, steps[5].token}), "a bé");
  EXPECT_EQ(model->stop_tokens().size(), 2u);
  EXPECT_EQ(model->stop_tokens()[0], steps[0].token);
  EXPECT_EQ(testing_text::ids_of(tokenizer, "<|call|>"), std::vector<TokenId>{steps[0].token});
  EXPECT_EQ(tokenizer.vocabulary_size(), static_cast<size_t>(steps[5].token) + 1);
  EXPECT_EQ(tokenizer.token_bytes(static_cast<TokenId>(tokenizer.vocabulary_size())), std::nullopt);
  EXPECT_EQ(tokenizer.token_bytes(-1), std::nullopt);
}

TEST(ScriptedModel, ExtendingLeavesTheTokenizerAsItWas) {
  Tokenizer base = testing_text::small_tokenizer("mini-merges");
  auto extended = base.extended(std::vector<ExtraToken>{{"the", false}, {"<|x|>", true}});
  ASSERT_TRUE(extended.ok());
  for (const char* text : {"the cat", "<|y|>", ""}) {
    EXPECT_EQ(testing_text::ids_of(*extended, text), testing_text::ids_of(base, text));
  }
  ByteRange caller{0, 5};
  EXPECT_NE(testing_text::ids_of(*extended, "<|x|>", {.caller_ranges = {&caller, 1}}).size(), 1u);
  EXPECT_FALSE(testing_text::small_tokenizer("mini-spm-first").extended(std::vector<ExtraToken>{{"a", false}}).ok());
}

TEST(ScriptFile, SaysWhereItIsWrong) {
  auto where = [](std::string_view json) {
    auto file = ScriptFile::parse(json);
    return file.ok() ? std::string("ok") : file.error().where;
  };
  EXPECT_EQ(where("{"), "script");
  EXPECT_EQ(where(R"({"tokenizer": "t", "format": "pascal", "replies": []})"), "/format");
  EXPECT_EQ(where(R"({"format": "plain", "replies": []})"), "/tokenizer");
  EXPECT_EQ(where(R"({"tokenizer": "t", "format": "plain", "replies": []})"), "/replies");
  EXPECT_EQ(where(R"({"tokenizer": "t", "format": "plain", "replies": [{"match": "", "pieces": ["a"], "dely": 1}]})"),
            "/replies/0/dely");
  EXPECT_EQ(where(R"({"tokenizer": "t", "format": "plain", "replies": [{"match": "", "pieces": ["a", 7]}]})"),
            "/replies/0/pieces/1");
  EXPECT_EQ(where(R"({"tokenizer": "t", "format": "plain", "replies": [{"match": "", "pieces": [""]}]})"),
            "/replies/0/pieces/0");
  EXPECT_EQ(
      where(R"({"tokenizer": "t", "format": "plain", "replies": [{"match": "", "pieces": [{"bytes_hex": "e2f"}]}]})"),
      "/replies/0/pieces/0/bytes_hex");
  EXPECT_EQ(where(R"({"tokenizer": "t", "format": "plain", "replies": [{"match": "", "pieces": [], "delay_ms": -1}]})"),
            "/replies/0/delay_ms");
}

}  // namespace
}  // namespace vernier
